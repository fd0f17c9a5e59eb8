/** Every request under `/api` acts as the account of its bearer token. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Caller } from '../identity/caller.ts';
import type { SignIn } from '../identity/sign-in.ts';
import type { StrangerGate } from './rate-limits.ts';

const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]+=*) *$/i;

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller | null;
  }
}

/**
 * Adds the check to an app or a scope of it. Runs before the body is read.
 *
 * @param strangers counts a request whose token was never good here, before it is looked at
 */
export function requireSignIn(app: FastifyInstance, { signIn, knows }: SignIn, strangers: StrangerGate): void {
  app.decorateRequest('caller', null);
  app.addHook('onRequest', async (request, reply) => {
    const token = BEARER.exec(request.headers.authorization ?? '')?.[1];
    const isStranger = token === undefined || !knows(token);
    if (isStranger) strangers.meet(request, reply);
    if (token === undefined) {
      throw new Problem('unauthenticated', 'Send the header “Authorization: Bearer <token>”.');
    }
    request.caller = await signIn(token);
    if (isStranger) strangers.welcome(request);
  });
}

/** The account a request acts as; only behind `requireSignIn`. */
export function callerOf(request: FastifyRequest): Caller {
  if (!request.caller) throw new Error(`${request.routeOptions.url} is served without a sign-in`);
  return request.caller;
}
