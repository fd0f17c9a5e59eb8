/** Routes requests by account: a supervisor serves those of the accounts that it owns and forwards the others to their owners. */
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { isRead, requireCaller } from '../../service/http/authentication.ts';
import { onceClosed } from '../../service/http/closed-responses.ts';
import { findConnectionsMax } from '../../service/http/connection-limits.ts';
import { replaceAnswer } from '../../service/http/errors.ts';
import { PlaceLimiter } from '../../service/http/place-limiter.ts';
import { createLossProblem } from './lost-calls.ts';
import { movedElsewhere, type OwnedWork, type Ownership } from './ownership.ts';
import { HOPS_MAX } from './ownership-policy.ts';
import { PeerGoneError } from './peer-links.ts';
import type { PeerRequests } from './peer-requests.ts';
import type { PeerServer } from './peer-server.ts';

/** Delay before the next attempt to connect to an owner that accepts no connection. Milliseconds. */
const GONE_DELAY_MS = 250;
/** A request is retried for this time while its owner accepts no connection. Longer than the lease. Milliseconds. */
const GONE_WAIT_MS = 15_000;
/** Share of a server's connections that may wait for other supervisors, each with one connection more. */
const FORWARDED_SHARE = 0.25;

export interface AccountRouter {
  readonly ownership: Ownership;
  readonly peers: PeerRequests;
  readonly server: Pick<PeerServer, 'countHops'>;
  /** The requests that are forwarded at once. */
  readonly forwards: PlaceLimiter;
}

/** The owner limits the rate of an account, but not the connections that its requests take on the way. */
export const limitForwards = (places = Math.floor(findConnectionsMax() * FORWARDED_SHARE)): PlaceLimiter =>
  new PlaceLimiter({ places, verb: 'forwarding', works: 'requests to other supervisors', retryAfterS: 1 });

declare module 'fastify' {
  interface FastifyRequest {
    /** Set for a request that may change data or runs plugins. */
    ownedWork: OwnedWork | null;
  }
}

/**
 * Serves the requests of a scope for the accounts that this supervisor owns, and forwards the others before their bodies are
 * read. The scope must authenticate its requests.
 */
export function serveOwnAccounts(scope: FastifyInstance, router: AccountRouter): void {
  scope.decorateRequest('ownedWork', null);
  scope.addHook('onRoute', (route) => {
    if (route.method === 'GET' || route.method === 'HEAD') return;
    route.schema = { ...route.schema, problems: [...(route.schema?.problems ?? []), 'outcome_unknown'] };
  });
  scope.addHook('onRequest', async (request, reply) => {
    const { id } = requireCaller(request);
    if (admit(router.ownership, id, request, reply)) return;
    await serveElsewhere(router, id, request, reply);
  });
  // While this process was paused, another supervisor may have taken over the account: its responses are newer.
  scope.addHook('onSend', async (request, reply, payload) => {
    const work = request.ownedWork;
    if (work === null || router.ownership.isCurrent(work.fence)) return payload;
    request.ownedWork = null;
    // Stops producing the response, which is not sent.
    if (payload instanceof Readable) payload.destroy();
    return replaceAnswer(createLossProblem(request.method, MOVED), request, reply);
  });
}

const MOVED = 'The account moved to another supervisor while this call ran.';

/** @returns false: this supervisor does not own the account */
function admit(ownership: Ownership, accountId: string, request: FastifyRequest, reply: FastifyReply): boolean {
  if (isRead(request)) return ownership.holds(accountId);
  const work = ownership.begin(accountId);
  if (work === null) return false;
  request.ownedWork = work;
  reply.raw.once('finish', work.end);
  onceClosed(reply.raw, work.end);
  return true;
}

async function serveElsewhere(
  { ownership, peers, server, forwards }: AccountRouter,
  accountId: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const hops = server.countHops(request.raw) + 1;
  const endsAt = performance.now() + GONE_WAIT_MS;
  for (;;) {
    const owner = await ownership.findOwner(accountId);
    if (owner === null) {
      if (admit(ownership, accountId, request, reply)) return;
      continue;
    }
    if (hops > HOPS_MAX) throw movedElsewhere();
    const watch = ownership.watchPeer(owner);
    try {
      return await forwards.run(accountId, () => peers.forward(owner, request, reply, hops, watch.signal));
    } catch (error) {
      if (!(error instanceof PeerGoneError)) throw error;
      if (performance.now() > endsAt) throw movedElsewhere();
      await sleep(GONE_DELAY_MS);
    } finally {
      watch.release();
    }
  }
}
