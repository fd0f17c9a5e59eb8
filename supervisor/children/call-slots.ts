/** Calls of one child: so many at once, so many behind them, no more. */

export class CallSlots {
  readonly #inFlight: number;
  readonly #waiting: number;
  readonly #queue = new Set<() => void>();
  #taken = 0;

  /** Bounds are counts of calls. */
  constructor(inFlight: number, waiting: number) {
    this.#inFlight = inFlight;
    this.#waiting = waiting;
  }

  get taken(): number {
    return this.#taken;
  }

  /**
   * Runs `start` now, or when it is its turn. `start` must not throw.
   *
   * @returns a function that leaves the queue or frees the slot, to be called once; null where too many wait
   */
  take(start: () => void): (() => void) | null {
    if (this.#taken >= this.#inFlight) {
      if (this.#queue.size >= this.#waiting) return null;
      // Wrapped, so that the same function may wait twice.
      const turn = (): void => start();
      this.#queue.add(turn);
      return () => this.#queue.delete(turn) || this.#free();
    }
    this.#taken += 1;
    start();
    return () => this.#free();
  }

  #free(): void {
    const [next] = this.#queue;
    if (next) {
      this.#queue.delete(next);
      next();
    } else this.#taken -= 1;
  }
}
