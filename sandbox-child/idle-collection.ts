/**
 * Collects the garbage of the start once, as soon as a loaded child is idle. V8 would never do it, because an idle child allocates
 * nothing. The child shrinks by 2.6 MB of 15.6 for 18 ms of processor time, a third of what its start takes.
 */

/** How long a child has no call before it counts as idle. A child that lives only for seconds does not pay for a collection. */
const IDLE_MS = 10_000;

/** Only this flavor returns the freed pages to the operating system. */
const COLLECTION = { type: 'major', flavor: 'last-resort' } as const;

/** V8's function, which `--expose-gc` defines. Deleted, so that no program that runs later finds it. */
const { gc: collect } = globalThis as { readonly gc?: (options: typeof COLLECTION) => void };
Reflect.deleteProperty(globalThis, 'gc');

export class IdleCollection {
  #wasCalled = false;

  /** Starts waiting for the first idle moment. */
  start(): void {
    this.#wasCalled = false;
    setTimeout(() => (this.#wasCalled ? this.start() : collect?.(COLLECTION)), IDLE_MS).unref();
  }

  recordCall(): void {
    this.#wasCalled = true;
  }
}
