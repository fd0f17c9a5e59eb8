/** Rate limits of HTTP requests, counted in this process: per account for requests with a valid token, per address for all others. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import type { Problem } from '../../sdk/contract/errors.ts';
import { isTokenRefused } from '../identity/sign-in.ts';
import { perMinute, type TokenBucket, TokenBuckets } from '../timing/token-bucket.ts';
import { requireCaller } from './authentication.ts';
import { createRetryProblem } from './retry-problem.ts';

/** The longest address text that is stored: a proxy may pass on anything. Characters. */
const ADDRESS_MAX = 64;
/** IPv6 hosts get a network of 64 bits each, so all of its addresses count as one. */
const IPV6_NETWORK_GROUPS = 4;

const HEADERS = ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'] as const;

/** Requests per minute. */
export interface AccountLimits {
  readonly reads: number;
  readonly writes: number;
}

/** Limits the requests of each account in a scope whose requests are signed in. */
export function limitAccounts(scope: FastifyInstance, { reads, writes }: AccountLimits): void {
  const readBuckets = new TokenBuckets(perMinute(reads));
  const writeBuckets = new TokenBuckets(perMinute(writes));
  scope.addHook('onRequest', async (request, reply) => {
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    const bucket = (isRead ? readBuckets : writeBuckets).get(requireCaller(request).id);
    const limit = isRead ? reads : writes;
    takeToken(bucket, reply, limit, `${limit} ${isRead ? 'reads' : 'writes'} per minute of one account`);
  });
}

/** Limits the requests of each address in a scope that needs no token. */
export function limitAnonymous(scope: FastifyInstance, limiter: AnonymousRateLimiter): void {
  scope.addHook('onRequest', (request, reply) => limiter.consume(request, reply));
}

/** The checks of tokens that are running for one address. */
interface RunningChecks {
  count: number;
  /** Requests that need the token of one that does not count, in order: at most as many as there are such tokens. */
  readonly waiting: ((isAllowed: boolean) => void)[];
}

/**
 * Limits the requests of each address that carry no valid token. A request is counted before its token is verified, so
 * that a flood of invalid tokens costs no signature checks. While the tokens of other requests are being verified, one
 * beyond the limit waits for them: after a restart, hundreds of agents behind one address come back at the same moment.
 * All scopes of a process share one.
 */
export class AnonymousRateLimiter {
  readonly #limit: number;
  readonly #buckets: TokenBuckets;
  readonly #checks = new Map<string, RunningChecks>();

  /** @param now milliseconds of a monotonic clock */
  constructor(requestsPerMinute: number, now?: () => number) {
    this.#limit = requestsPerMinute;
    this.#buckets = new TokenBuckets(perMinute(requestsPerMinute), now);
  }

  /** Counts a request. @throws Problem `rate_limited` */
  async consume(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const network = parseNetwork(request.ip);
    this.#end(network, await this.#begin(network, reply), true);
  }

  /**
   * Counts a request only if its token is refused: many users may share an address, and an outage is not their fault.
   *
   * @throws Problem `rate_limited`, or what `check` throws
   */
  async check<T>(request: FastifyRequest, reply: FastifyReply, check: () => Promise<T>): Promise<T> {
    const network = parseNetwork(request.ip);
    const checks = await this.#begin(network, reply);
    let isRefused = false;
    try {
      return await check();
    } catch (error) {
      isRefused = isTokenRefused(error);
      throw error;
    } finally {
      if (!isRefused) for (const header of HEADERS) reply.removeHeader(header);
      this.#end(network, checks, isRefused);
    }
  }

  async #begin(network: string, reply: FastifyReply): Promise<RunningChecks> {
    const bucket = this.#buckets.get(network);
    const checks = this.#checks.get(network) ?? { count: 0, waiting: [] };
    const { count, waiting } = checks;
    // Behind those that wait, also if a token was added meanwhile.
    const isLate = waiting.length > 0 || bucket.remaining() === 0;
    const mayWait = isLate && waiting.length < count;
    const isAllowed = mayWait
      ? await new Promise<boolean>((decide) => waiting.push(decide))
      : !isLate && bucket.consume();
    const rule = `${this.#limit} requests per minute of one address without a valid token`;
    requireToken(isAllowed, bucket, reply, this.#limit, rule);
    // `#end` counted it.
    if (mayWait) return checks;
    checks.count += 1;
    this.#checks.set(network, checks);
    return checks;
  }

  /** Hands the tokens that are left to the requests that wait. Without a running check, none could come back: it refuses them. */
  #end(network: string, checks: RunningChecks, isCounted: boolean): void {
    const bucket = this.#buckets.get(network);
    if (!isCounted) bucket.refund();
    while (checks.waiting.length > 0 && bucket.consume()) {
      checks.count += 1;
      checks.waiting.shift()?.(true);
    }
    checks.count -= 1;
    if (checks.count > 0) return;
    this.#checks.delete(network);
    for (const decide of checks.waiting) decide(false);
  }
}

/** @throws Problem `rate_limited` */
const takeToken = (bucket: TokenBucket, reply: FastifyReply, limit: number, rule: string): void =>
  requireToken(bucket.consume(), bucket, reply, limit, rule);

/** Describes the bucket in the response. @throws Problem `rate_limited` unless the request got a token */
function requireToken(isAllowed: boolean, bucket: TokenBucket, reply: FastifyReply, limit: number, rule: string): void {
  const values = [limit, bucket.remaining(), bucket.secondsUntil(limit)];
  for (const [index, header] of HEADERS.entries()) reply.header(header, String(values[index]));
  if (!isAllowed) throw createRateLimitProblem(bucket, rule);
}

/** The problem of a request for which a bucket has no token. @param rule names the limit */
export const createRateLimitProblem = (bucket: TokenBucket, rule: string): Problem =>
  createRetryProblem('rate_limited', `Rate limit exceeded: ${rule}.`, bucket.secondsUntil(1));

/** An address with the port of its connection, which is another one for each: Azure's Application Gateway forwards both. */
const WITH_PORT = /^(?:\[([^\]]+)\]|([\d.]+)):\d{1,5}$/;

/** Returns the key under which an address is counted, of requests and of what they send. */
export function parseNetwork(address: string): string {
  const [, ipv6, ipv4] = WITH_PORT.exec(address) ?? [];
  const host = ipv6 ?? ipv4 ?? address;
  if (!ipaddr.isValid(host)) return address.slice(0, ADDRESS_MAX);
  const parsed = ipaddr.process(host);
  if (parsed instanceof ipaddr.IPv6) return parsed.parts.slice(0, IPV6_NETWORK_GROUPS).join(':');
  return parsed.toString();
}
