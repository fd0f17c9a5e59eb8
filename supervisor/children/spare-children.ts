/** Children that started before anybody needs them. All start the same, so a spare serves any installation. */

import type { Child, ChildHandlers } from './child.ts';
import type { ChildEnd } from './child-end.ts';
import { REFILL_AFTER_MS } from './fleet-bounds.ts';

/** A child whose handlers are set when it is taken. */
export interface Spare {
  readonly child: Child;
  /** From now on the child speaks to these. */
  adopt(handlers: ChildHandlers): void;
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
   */
  constructor(start: (handlers: ChildHandlers) => Child, wanted: number) {
    this.#start = start;
    this.#wanted = wanted;
    this.#refill();
  }

  get count(): number {
    return this.#spares.length;
  }

  /** A child that is ready or about to be, maybe still behind all others; the spare's place is filled again. */
  take(): Spare {
    let spare = this.#spares.shift();
    while (spare?.child.state === 'dead') spare = this.#spares.shift();
    if (!this.#timer && !this.#closed) {
      this.#timer = setTimeout(() => this.#refill(), REFILL_AFTER_MS).unref();
    }
    return spare ?? this.#make();
  }

  /** Ends the spares and makes no more. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer) clearTimeout(this.#timer);
    await Promise.all(this.#spares.splice(0).map(({ child }) => child.kill('it was not needed')));
  }

  #refill(): void {
    this.#timer = null;
    while (!this.#closed && this.#spares.length < this.#wanted) {
      const spare = this.#make();
      // Nobody waits for it: its start takes what the others leave.
      spare.child.yieldProcessor(true);
      this.#spares.push(spare);
    }
  }

  #make(): Spare {
    return makeSpare(this.#start);
  }
}

/** Starts a child that nobody lives in yet. */
export function makeSpare(start: (handlers: ChildHandlers) => Child): Spare {
  let owner: ChildHandlers | null = null;
  let end: ChildEnd | null = null;
  const child = start({
    // Before `load` there is no plugin's code in it: what speaks now is nobody.
    onHostCall: (call) => owner?.onHostCall(call) ?? Promise.reject(new Error('nobody lives here yet')),
    onLog: (line) => owner?.onLog(line),
    onExit: (ended) => {
      end = ended;
      owner?.onExit(ended);
    },
  });
  return {
    child,
    adopt(handlers) {
      owner = handlers;
      if (end) handlers.onExit(end);
    },
  };
}
