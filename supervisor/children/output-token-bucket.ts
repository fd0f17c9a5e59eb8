/**
 * What one plugin may say unasked: its log lines and its host calls. It belongs to the installation and outlives its
 * children, so that ending in a flood and starting again earns nothing.
 */

const SECOND_MS = 1_000;

export class Allowance {
  readonly #bytesPerSecond: number;
  readonly #now: () => number;
  #left: number;
  #at: number;

  /**
   * @param bytesPerSecond as much at once, and a second from then on: `limits.saidBytesPerSecond` are 2,000 short lines.
   *   What a child says beyond it waits in its pipe, so a flood costs the supervisor and the database next to nothing
   * @param now milliseconds of a clock that only goes forward
   */
  constructor(bytesPerSecond: number, now: () => number = () => performance.now()) {
    this.#bytesPerSecond = bytesPerSecond;
    this.#now = now;
    this.#left = bytesPerSecond;
    this.#at = now();
  }

  /** Takes some of it. False: it is used up, and grows again with time. */
  spend(bytes: number): boolean {
    this.#left -= bytes;
    if (this.#left > 0) return true;
    const now = this.#now();
    const grown = ((now - this.#at) / SECOND_MS) * this.#bytesPerSecond;
    this.#left = Math.min(this.#bytesPerSecond, this.#left + grown);
    this.#at = now;
    return this.#left > 0;
  }
}
