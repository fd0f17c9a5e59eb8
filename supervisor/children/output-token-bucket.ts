/**
 * Bounds the output of one plugin: its log lines and its host calls. The bucket belongs to the installation and outlives its
 * children, so a plugin gains nothing by flooding, ending and starting again.
 */

const SECOND_MS = 1_000;

export class OutputTokenBucket {
  readonly #bytesPerSecond: number;
  readonly #now: () => number;
  #tokens: number;
  #filledAt: number;

  /**
   * @param bytesPerSecond capacity, and what is refilled in a second; `limits.outputBytesPerSecond` are 2,000 short lines.
   *   Output beyond it waits in the child's pipe, so a flood costs the supervisor and the database next to nothing
   * @param now milliseconds of a monotonic clock
   */
  constructor(bytesPerSecond: number, now: () => number = () => performance.now()) {
    this.#bytesPerSecond = bytesPerSecond;
    this.#now = now;
    this.#tokens = bytesPerSecond;
    this.#filledAt = now();
  }

  /** Takes tokens, below zero if need be. False while the bucket is empty. */
  spend(bytes: number): boolean {
    this.#tokens -= bytes;
    // The clock is asked only when it matters.
    if (this.#tokens > 0) return true;
    const now = this.#now();
    const refill = ((now - this.#filledAt) / SECOND_MS) * this.#bytesPerSecond;
    this.#tokens = Math.min(this.#bytesPerSecond, this.#tokens + refill);
    this.#filledAt = now;
    return this.#tokens > 0;
  }
}
