/** A cap per key and minute: two numbers a key, forgotten when the key is. */

const MINUTE_MS = 60_000;
/** Keys kept before idle ones are dropped: far above the installations one supervisor runs. */
const KEYS_MAX = 20_000;

export class MinuteRate {
  readonly #perMinute: number;
  readonly #now: () => number;
  readonly #counts = new Map<string, { minute: number; count: number }>();

  constructor(perMinute: number, now: () => number = Date.now) {
    this.#perMinute = perMinute;
    this.#now = now;
  }

  /** Counts one. False: the key is over its cap. */
  take(key: string): boolean {
    const minute = Math.floor(this.#now() / MINUTE_MS);
    const known = this.#counts.get(key);
    if (known?.minute === minute) return ++known.count <= this.#perMinute;
    if (this.#counts.size >= KEYS_MAX) this.#forget(minute);
    this.#counts.set(key, { minute, count: 1 });
    return this.#perMinute > 0;
  }

  #forget(minute: number): void {
    for (const [key, count] of this.#counts) if (count.minute !== minute) this.#counts.delete(key);
  }
}
