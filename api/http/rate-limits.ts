/** How many requests an account may make a minute, reads and writes counted apart. */
import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Problem } from '../../sdk/errors.ts';
import { callerOf } from './authentication.ts';

const WINDOW_MS = 60_000;
/** Accounts counted at once in this process; beyond, the one unused for the longest time starts anew. */
const ACCOUNTS_MAX = 50_000;

export interface RateLimits {
  /** Requests a minute. */
  readonly reads: number;
  readonly writes: number;
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
      const detail = `Your account may make ${max} ${kind} a minute, and did. Wait as long as Retry-After says.`;
      return new Problem('rate_limited', detail, { retryAfter: Math.ceil(ttl / 1000) });
    },
  });
}
