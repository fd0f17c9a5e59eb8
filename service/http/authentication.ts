/** Authentication: a request acts as the account of its bearer token, or of the console's session. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Caller } from '../identity/caller.ts';
import { isAllowed, type RequiredScopes } from '../identity/scopes.ts';
import type { SignIn } from '../identity/sign-in.ts';
import { onceClosed } from './closed-responses.ts';
import { type ConsoleSite, readSessionCredential } from './console-requests.ts';

const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]+=*) *$/i;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Refuses tokens with scopes, whatever the scopes. */
    readonly wholeAccount?: boolean;
    /** Reads, but runs plugins: it counts as a write for scopes and while its account moves, whatever its method. */
    readonly runsPlugins?: boolean;
  }
  interface FastifyRequest {
    caller: Caller | null;
    /** Watches the request's token: see `SignIn.watch`. */
    watchToken: ((onEnd: (why: unknown) => void) => () => void) | null;
    /** See `signInAgain`. */
    renewCaller: (() => Promise<void>) | null;
  }
}

/** What `AnonymousRateLimiter` does for requests without a valid token. */
interface AnonymousLimiter {
  /** Counts the request. @throws Problem `rate_limited` */
  consume(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** Counts the request if `check` refuses its token. @throws Problem `rate_limited`, or what `check` throws */
  check<T>(request: FastifyRequest, reply: FastifyReply, check: () => Promise<T>): Promise<T>;
}

/**
 * Requires a valid token, or a request of the console with its cookie, for every route of a scope. Runs before the body
 * is read, and again after it where the request is more than a read: its sender decides when a body ends.
 *
 * @param limiter counts requests whose token has not been valid in this process before
 * @param site null: no console has a cookie for this application
 * @param needed what tokens with scopes must have
 */
export function requireSignIn(
  scope: FastifyInstance,
  signIn: SignIn,
  limiter: AnonymousLimiter,
  site: ConsoleSite | null,
  needed: RequiredScopes,
): void {
  scope.decorateRequest('caller', null);
  scope.decorateRequest('watchToken', null);
  scope.decorateRequest('renewCaller', null);
  scope.addHook('onRequest', async (request, reply) => {
    const credential = readCredential(request, site);
    if (credential === null) {
      await limiter.consume(request, reply);
      throw createMissingProblem();
    }
    const verify = () => signIn.signIn(credential);
    request.caller = signIn.knows(credential) ? await verify() : await limiter.check(request, reply, verify);
    request.watchToken = (onEnd) => signIn.watch(credential, onEnd);
    request.renewCaller = async () => {
      request.caller = await verify();
      requireScope(request, request.caller, needed);
    };
    requireScope(request, request.caller, needed);
  });
  scope.addHook('preHandler', async (request) => {
    if (!isRead(request)) await signInAgain(request);
  });
}

/**
 * Signs the sender of a request in again before it changes something after a long wait: its token may be revoked, or its account
 * suspended, since it began. Quick: see `SignIn`.
 *
 * @throws Problem, or what else `SignIn.signIn` throws
 */
export const signInAgain = async (request: FastifyRequest): Promise<void> => request.renewCaller?.();

/** Signs in the sender of a request to a scope without `requireSignIn`. @throws Problem, or what else `SignIn.signIn` throws */
export async function signInSender(
  request: FastifyRequest,
  signIn: SignIn,
  site: ConsoleSite | null,
  needed: RequiredScopes,
): Promise<Caller> {
  const credential = readCredential(request, site);
  if (credential === null) throw createMissingProblem();
  const caller = await signIn.signIn(credential);
  requireScope(request, caller, needed);
  return caller;
}

const createMissingProblem = (): Problem =>
  new Problem('unauthenticated', 'Send the header “Authorization: Bearer <token>”.');

/** Whether a request only reads rows: it changes nothing and runs no plugin. */
export const isRead = ({ method, routeOptions }: Pick<FastifyRequest, 'method' | 'routeOptions'>): boolean =>
  (method === 'GET' || method === 'HEAD') && routeOptions.config?.runsPlugins !== true;

/** @throws Problem `insufficient_scope` */
function requireScope(request: FastifyRequest, { scopes }: Caller, { read, write }: RequiredScopes): void {
  if (scopes === null) return;
  const scope = request.routeOptions.config?.wholeAccount === true ? null : isRead(request) ? read : write;
  if (isAllowed(scopes, scope)) return;
  const why = scope === null ? 'No token with scopes may do this' : `This needs the scope ${scope}`;
  throw new Problem('insufficient_scope', `${why}, and the token has: ${scopes.join(' ') || 'none'}.`);
}

/** A request with the header `Authorization` is judged by it alone. */
function readCredential(request: FastifyRequest, site: ConsoleSite | null): string | null {
  const { authorization } = request.headers;
  if (authorization !== undefined) return BEARER.exec(authorization)?.[1] ?? null;
  return site === null ? null : readSessionCredential(request, site);
}

/**
 * Ends a response that lasts, such as a stream, when the token of its request ends: it expires or is revoked, or its account is
 * suspended or demoted.
 *
 * @param end receives what a further request with the token would be refused with
 */
export function endWithToken(request: FastifyRequest, reply: FastifyReply, end: (why: unknown) => void): void {
  const stop = request.watchToken?.(end);
  if (stop) onceClosed(reply.raw, stop);
}

/** The account a request acts as. Only for routes behind `requireSignIn`. */
export function requireCaller(request: FastifyRequest): Caller {
  if (!request.caller) throw new Error(`${request.routeOptions.url} has no authentication`);
  return request.caller;
}
