/** How many requests an account may make a minute, reads and writes counted apart, and how many an unknown address. */
import rateLimit, { normalizeIP } from '@fastify/rate-limit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Problem } from '../../sdk/contract/errors.ts';
import { openStrangers } from '../identity/anonymous-rate-limiter.ts';
import { callerOf } from './authentication.ts';

const WINDOW_MS = 60_000;
/** Accounts counted at once in this process; beyond, the one unused for the longest time starts anew. */
const ACCOUNTS_MAX = 50_000;
/** The same for addresses; of IPv6, networks of 64 bits. */
const ADDRESSES_MAX = 50_000;

export interface RateLimits {
  /** Requests a minute. */
  readonly reads: number;
  readonly writes: number;
  /** Of one address: with no token, with one not known to be good, or to what needs none. */
  readonly strangers: number;
}

const isRead = (request: FastifyRequest): boolean => request.method === 'GET' || request.method === 'HEAD';

/** Adds the limits to a scope whose requests are signed in already. Counts are kept per process. */
export async function limitRates(app: FastifyInstance, { reads, writes }: RateLimits): Promise<void> {
  await app.register(rateLimit, {
    timeWindow: WINDOW_MS,
    cache: ACCOUNTS_MAX,
    max: (request) => (isRead(request) ? reads : writes),
    keyGenerator: (request) => `${isRead(request) ? 'read' : 'write'} ${callerOf(request).id}`,
    enableDraftSpec: true,
    errorResponseBuilder: (request, { max, ttl }) => {
      const kind = isRead(request) ? 'reads' : 'writes';
      return tooMany(`Your account may make ${max} ${kind} a minute, and did.`, ttl);
    },
  });
}

/** Adds the limit of an address to a scope that anybody may read. */
export async function limitStrangers(app: FastifyInstance, { strangers }: RateLimits): Promise<void> {
  await app.register(rateLimit, {
    ...{ timeWindow: WINDOW_MS, cache: ADDRESSES_MAX, max: strangers, enableDraftSpec: true },
    errorResponseBuilder: (_request, { max, ttl }) => tooMany(strangersWord(max), ttl),
  });
}

/** Meets callers whose token was never good here, by their address. */
export interface StrangerGate {
  /** Counts a request before it costs anything. @throws Problem `rate_limited` */
  meet(request: FastifyRequest, reply: FastifyReply): void;
  /** Its token was good after all. */
  welcome(request: FastifyRequest): void;
}

export function openStrangerGate({ strangers: max }: RateLimits): StrangerGate {
  const strangers = openStrangers(max);
  return {
    meet(request, reply) {
      strangers.meet(normalizeIP(request.ip), ({ max, remaining, resetSeconds }) => {
        // An account's own numbers take their place where the sign-in succeeds.
        reply.header('ratelimit-limit', max).header('ratelimit-remaining', remaining);
        reply.header('ratelimit-reset', resetSeconds);
      });
    },
    welcome: (request) => strangers.welcome(normalizeIP(request.ip)),
  };
}

const strangersWord = (max: number): string =>
  `Your address may make ${max} requests a minute without a token that is known to be good, and did.`;

const tooMany = (what: string, ttlMs: number): Problem =>
  new Problem('rate_limited', `${what} Wait as long as Retry-After says.`, { retryAfter: Math.ceil(ttlMs / 1000) });
