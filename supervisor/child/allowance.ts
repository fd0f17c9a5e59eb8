/**
 * What one plugin may say unasked: its log lines and its host calls. It belongs to the installation and outlives its
 * children, so that ending in a flood and starting again earns nothing.
 */
import { MIB } from '../../sdk/limits.ts';

/** Bytes at once: some 3,000 short lines. */
const BURST_BYTES = MIB / 4;
/**
 * And a second from then on: some 1,500 short lines. What a child says beyond it waits in its pipe: a flood costs the
 * supervisor and the database next to nothing, and nothing is lost.
 */
const BYTES_PER_SECOND = MIB / 4;

export class Allowance {
  readonly #now: () => number;
  #left = BURST_BYTES;
  #at: number;

  /** `now`: milliseconds of a clock that only goes forward. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#at = now();
  }

  /** Takes some of it. False: it is used up, and grows again with time. */
  spend(bytes: number): boolean {
    this.#left -= bytes;
    if (this.#left > 0) return true;
    const now = this.#now();
    this.#left = Math.min(BURST_BYTES, this.#left + ((now - this.#at) / 1_000) * BYTES_PER_SECOND);
    this.#at = now;
    return this.#left > 0;
  }
}
