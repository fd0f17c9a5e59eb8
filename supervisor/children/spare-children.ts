/** Keeps children started in advance. All children start the same, so a spare can serve any installation. */
import { asService } from '../../db/postgres/shares.ts';
import type { Child, ChildHandlers } from './child.ts';
import type { ChildEnd } from './child-end.ts';

/** Delay before a taken spare is replaced, so that the replacement does not slow down that start. Milliseconds. */
const REFILL_AFTER_MS = 50;

/** A child whose handlers are set when it is claimed. */
export interface Spare {
  readonly child: Child;
  setHandlers(handlers: ChildHandlers): void;
}

export class SpareChildren {
  readonly #start: (handlers: ChildHandlers) => Child;
  readonly #wanted: number;
  readonly #spares: Spare[] = [];
  #timer: NodeJS.Timeout | null = null;
  #closed = false;

  /**
   * @param start starts a jailed child
   * @param wanted how many to keep ready
   * @param first one that runs already
   */
  constructor(start: (handlers: ChildHandlers) => Child, wanted: number, first: Spare | null = null) {
    this.#start = start;
    this.#wanted = wanted;
    if (first) this.#spares.push(first);
    this.#refill();
  }

  get count(): number {
    return this.#spares.length;
  }

  /** Returns a spare, which may still be starting in the idle CPU class, and schedules its replacement. */
  claim(): Spare {
    let spare = this.#spares.shift();
    while (spare?.child.state === 'dead') spare = this.#spares.shift();
    if (!this.#timer && !this.#closed) {
      this.#timer = setTimeout(() => this.#refill(), REFILL_AFTER_MS).unref();
    }
    return spare ?? makeSpare(this.#start);
  }

  /** Kills the spares and starts no more. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer) clearTimeout(this.#timer);
    await Promise.all(this.#spares.splice(0).map(({ child }) => child.kill('it was not needed')));
  }

  #refill(): void {
    this.#timer = null;
    while (!this.#closed && this.#spares.length < this.#wanted) {
      const spare = makeSpare(this.#start);
      // No call waits for a spare, so its start must not slow down other children.
      spare.child.setCpuClasses({ child: 'idle', account: 'normal' });
      this.#spares.push(spare);
    }
  }
}

/** Starts a child without a plugin. */
export function makeSpare(start: (handlers: ChildHandlers) => Child): Spare {
  let owner: ChildHandlers | null = null;
  let end: ChildEnd | null = null;
  const handlers: ChildHandlers = {
    onHostCall: (call) => owner?.onHostCall(call) ?? Promise.reject(new Error('no plugin is loaded yet')),
    onLog: (line) => owner?.onLog(line),
    onExit: (ended) => {
      end = ended;
      owner?.onExit(ended);
    },
  };
  // Start without an account: the handlers keep the async context of the start, and any account may claim the child.
  const child = asService(() => start(handlers));
  return {
    child,
    setHandlers(handlers) {
      owner = handlers;
      if (end) handlers.onExit(end);
    },
  };
}
