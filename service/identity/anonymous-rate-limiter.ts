/**
 * Callers nobody knows: requests with no token, or with one that was never good here, counted by address before the token is
 * looked at. A signature check is what an attacker would make us spend.
 */
import { Problem } from '../../sdk/contract/errors.ts';

const WINDOW_MS = 60_000;
/** Addresses counted at once in a process; beyond, the one counted first starts anew. */
const ADDRESSES_MAX = 50_000;
/** No address is longer; what a proxy passes on may be anything. Characters. */
const ADDRESS_MAX = 64;

/** What an address has used of its minute. */
export interface StrangerCount {
  readonly max: number;
  readonly remaining: number;
  /** Whole seconds until it begins anew. */
  readonly resetSeconds: number;
}

/** Counts of one process. */
export interface Strangers {
  /**
   * Counts a request.
   *
   * @param told gets the count before anything is thrown
   * @throws Problem `rate_limited`
   */
  meet(address: string, told?: (count: StrangerCount) => void): void;
  /** The token turned out to be good: the request counts no more, since many users may share an address. */
  welcome(address: string): void;
}

interface Counted {
  requests: number;
  readonly until: number;
}

/**
 * @param max requests a minute of one address
 * @param now clock, milliseconds since 1970
 */
export function openStrangers(max: number, now: () => number = Date.now): Strangers {
  const counts = new Map<string, Counted>();
  const countOf = (address: string): Counted => {
    const key = address.slice(0, ADDRESS_MAX);
    const known = counts.get(key);
    if (known !== undefined && known.until > now()) return known;
    counts.delete(key);
    const fresh = { requests: 0, until: now() + WINDOW_MS };
    counts.set(key, fresh);
    const [oldest] = counts.keys();
    if (counts.size > ADDRESSES_MAX && oldest !== undefined) counts.delete(oldest);
    return fresh;
  };
  return {
    meet(address, told) {
      const count = countOf(address);
      count.requests = Math.min(count.requests + 1, max + 1);
      const resetSeconds = Math.max(1, Math.ceil((count.until - now()) / 1000));
      told?.({ max, remaining: Math.max(0, max - count.requests), resetSeconds });
      if (count.requests > max) throw new Problem('rate_limited', tooMany(max), { retryAfter: resetSeconds });
    },
    welcome(address) {
      const count = countOf(address);
      count.requests = Math.max(0, count.requests - 1);
    },
  };
}

const tooMany = (max: number): string =>
  `Your address may make ${max} requests a minute without a token that is known to be good, and did. Wait as long as Retry-After says.`;
