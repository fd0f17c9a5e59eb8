/**
 * Collects the garbage of the start once, as soon as a loaded child is idle. V8 would never do it, because an idle child allocates
 * nothing. The child shrinks by 2.6 MB of 15.6 for 18 ms of processor time, a third of what its start takes.
 */
import { runInNewContext } from 'node:vm';

/** How long a child has no call before it counts as idle. A child that lives only for seconds does not pay for a collection. */
const IDLE_MS = 10_000;

/** Only this flavor returns the freed pages to the operating system. */
const COLLECTION = { type: 'major', flavor: 'last-resort' } as const;

/** V8 defines its function in a realm that is created under this flag. No realm of a plugin is. */
function collect(): void {
  const { setFlagsFromString } = process.getBuiltinModule('node:v8');
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as (options: typeof COLLECTION) => void;
  setFlagsFromString('--no-expose-gc');
  collectGarbage(COLLECTION);
}

export class IdleCollection {
  #wasCalled = false;

  /** Starts waiting for the first idle moment. */
  start(): void {
    this.#wasCalled = false;
    setTimeout(() => (this.#wasCalled ? this.start() : collect()), IDLE_MS).unref();
  }

  recordCall(): void {
    this.#wasCalled = true;
  }
}
