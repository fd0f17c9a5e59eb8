/** Bounds the calls of one child: how many run at once and how many wait. */

export class CallSlots {
  readonly #inFlight: number;
  readonly #waiting: number;
  readonly #queue = new Set<() => void>();
  #inUse = 0;

  constructor(inFlight: number, waiting: number) {
    this.#inFlight = inFlight;
    this.#waiting = waiting;
  }

  get inUse(): number {
    return this.#inUse;
  }

  /**
   * Runs `start` now, or when a slot is free. `start` must not throw.
   *
   * @returns a function that leaves the queue or frees the slot, to be called once; null when the queue is full
   */
  acquire(start: () => void): (() => void) | null {
    if (this.#inUse >= this.#inFlight) {
      if (this.#queue.size >= this.#waiting) return null;
      // A new function for each call, because the queue is a set and callers may pass the same function twice.
      const queued = (): void => start();
      this.#queue.add(queued);
      return () => this.#queue.delete(queued) || this.#free();
    }
    this.#inUse += 1;
    start();
    return () => this.#free();
  }

  #free(): void {
    const [next] = this.#queue;
    if (next) {
      this.#queue.delete(next);
      next();
    } else this.#inUse -= 1;
  }
}
