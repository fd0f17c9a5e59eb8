/** Limits the requests to webhook addresses that are unknown or retired: anybody may send any number of them. */
import type { FoundAddress } from '../../db/channels/channels.ts';
import { mayTakePlace } from '../../db/jobs/account-share.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { createRateLimitProblem } from '../../service/http/rate-limits.ts';
import { createRetryProblem } from '../../service/http/retry-problem.ts';
import { TokenBuckets } from '../../service/timing/token-bucket.ts';

/**
 * Requests of one client network to addresses that do not exist or are retired. Those in use do not count, so a vendor's burst to
 * addresses that a process does not know yet after its start is not limited.
 */
const UNKNOWN_RATE = { burst: 500, perSecond: 50 };
/** Look-ups that may wait, of which a network may take its share. */
const WAITING_MAX = 5_000;
/** The look-ups that wait take less than a second. */
const RETRY_AFTER_S = 1;

export class UnknownAddressLimiter {
  readonly #buckets = new TokenBuckets(UNKNOWN_RATE);
  readonly #waiting = new AmountsByKey();

  /**
   * Looks up an address for a client network. The network is charged once it is known that the address is not in use.
   *
   * @throws Problem `rate_limited` and `unavailable`, and what `lookUp` throws
   */
  async run(network: string, lookUp: () => Promise<FoundAddress>): Promise<FoundAddress> {
    if (!mayTakePlace(this.#waiting.get(network), WAITING_MAX - this.#waiting.total))
      throw createRetryProblem('unavailable', 'Too many webhook addresses are looked up.', RETRY_AFTER_S);
    const bucket = this.#buckets.get(network);
    if (bucket.remaining() === 0)
      throw createRateLimitProblem(bucket, 'too many requests of one network to unknown or retired webhook addresses');
    const found = await this.#waiting.during(network, lookUp);
    // Look-ups that ran at the same time may overdraw the bucket. The places that wait bound by how much.
    if (found === 'unknown' || found === 'retired') bucket.overdraw(1);
    return found;
  }
}
