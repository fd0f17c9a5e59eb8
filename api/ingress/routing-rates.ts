/** How many requests an address may get: so many a second, and a burst. Counted in this process. */

/** Addresses counted at once; beyond, the one unused for the longest time starts anew. */
const COUNTED_MAX = 50_000;

interface Bucket {
  tokens: number;
  at: number;
}

export class RoutingRates {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(perSecond: number, burst: number) {
    this.#perSecond = perSecond;
    this.#burst = burst;
  }

  /** Whether one more may pass. `now` in milliseconds, of a clock that only goes forward. */
  take(routingId: string, now: number = performance.now()): boolean {
    const bucket = this.#buckets.get(routingId) ?? { tokens: this.#burst, at: now };
    this.#buckets.delete(routingId);
    bucket.tokens = Math.min(this.#burst, bucket.tokens + ((now - bucket.at) / 1_000) * this.#perSecond);
    bucket.at = now;
    const passes = bucket.tokens >= 1;
    if (passes) bucket.tokens -= 1;
    this.#buckets.set(routingId, bucket);
    const [oldest] = this.#buckets.keys();
    if (this.#buckets.size > COUNTED_MAX && oldest !== undefined) this.#buckets.delete(oldest);
    return passes;
  }
}
