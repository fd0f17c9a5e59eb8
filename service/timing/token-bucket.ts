/** Token buckets: the rate limiter of every limit per account, address, routing id and installation. */

import { setTimeout as delay } from 'node:timers/promises';

const SECOND_MS = 1_000;
/** Pause between two looks at a bucket that is in debt, milliseconds. */
export const DEBT_PAUSE_MS = 100;
const MINUTE_S = 60;
/** Buckets kept by one limiter. Beyond it, the bucket unused for the longest time is dropped: its key starts with a full one. */
const BUCKETS_MAX = 50_000;

interface Rate {
  /** Tokens that a full bucket holds. */
  readonly burst: number;
  readonly perSecond: number;
}

/** The whole second's tokens may be taken at once. */
export const perSecond = (tokens: number): Rate => ({ burst: tokens, perSecond: tokens });

/** The whole minute's tokens may be taken at once. */
export const perMinute = (tokens: number): Rate => ({ burst: tokens, perSecond: tokens / MINUTE_S });

export class TokenBucket {
  readonly #rate: Rate;
  readonly #now: () => number;
  #tokens: number;
  #refilledAt: number;

  /** @param now milliseconds of a monotonic clock */
  constructor(rate: Rate, now: () => number = () => performance.now()) {
    this.#rate = rate;
    this.#now = now;
    this.#tokens = rate.burst;
    this.#refilledAt = now();
  }

  /** Takes tokens if there are enough. */
  consume(tokens = 1): boolean {
    // Each time: otherwise the time in which the bucket was full would fill it once more.
    this.#refill();
    if (this.#tokens < tokens) return false;
    this.#tokens -= tokens;
    return true;
  }

  /** Takes tokens whether or not there are enough. False: the bucket is in debt until it has refilled. */
  overdraw(tokens: number): boolean {
    this.#refill();
    this.#tokens -= tokens;
    return this.#tokens > 0;
  }

  /** Waits until the bucket is not in debt. @throws AbortError */
  async waitOutDebt(signal?: AbortSignal): Promise<void> {
    while (!this.overdraw(0)) await delay(DEBT_PAUSE_MS, undefined, { signal });
  }

  refund(): void {
    this.#tokens = Math.min(this.#rate.burst, this.#tokens + 1);
  }

  /** Whole tokens that are left. */
  remaining(): number {
    this.#refill();
    return Math.max(0, Math.floor(this.#tokens));
  }

  /** Seconds until this many tokens are available, rounded up; at least 1. */
  secondsUntil(tokens: number): number {
    this.#refill();
    return Math.max(1, Math.ceil((tokens - this.#tokens) / this.#rate.perSecond));
  }

  #refill(): void {
    const now = this.#now();
    const gained = ((now - this.#refilledAt) / SECOND_MS) * this.#rate.perSecond;
    this.#tokens = Math.min(this.#rate.burst, this.#tokens + gained);
    this.#refilledAt = now;
  }
}

/** One token bucket per key. */
export class TokenBuckets {
  readonly #rate: Rate;
  readonly #now: (() => number) | undefined;
  readonly #buckets = new Map<string, TokenBucket>();

  constructor(rate: Rate, now?: () => number) {
    this.#rate = rate;
    this.#now = now;
  }

  /** The bucket of a key; a new one is full. */
  get(key: string): TokenBucket {
    const bucket = this.#buckets.get(key) ?? new TokenBucket(this.#rate, this.#now);
    // A Map keeps insertion order, so the first entry is the one unused for the longest time.
    this.#buckets.delete(key);
    this.#buckets.set(key, bucket);
    const [oldest] = this.#buckets.keys();
    if (this.#buckets.size > BUCKETS_MAX && oldest !== undefined) this.#buckets.delete(oldest);
    return bucket;
  }
}
