/** Fastify errors of the session API as problems. */
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { classifyDatabaseError } from '../../db/postgres/database-errors.ts';
import { Problem, type ProblemCode } from '../../sdk/contract/errors.ts';
import { PROBLEM_TYPE, problemBody } from '../../sdk/contract/problem-body.ts';
import { InvalidTokenError, IssuerUnavailableError } from '../../service/identity/tokens.ts';

/** Seconds after which a caller may try again when a part of Bulkhead is away. */
const RETRY_AFTER_S = 2;

/** What Fastify refuses before a handler runs, by status. */
const byStatus: Readonly<Record<number, readonly [ProblemCode, string]>> = {
  400: ['bad_request', 'The body is not valid JSON.'],
  404: ['not_found', 'There is nothing at this address.'],
  405: ['method_not_allowed', 'This address does not take that method.'],
  413: ['too_large', 'The body is too large.'],
  415: ['unsupported_media_type', 'Send JSON, with content-type: application/json.'],
};

/** Every error of every route, also Fastify's own, leaves as application/problem+json. */
export function installProblems(app: FastifyInstance): void {
  app.setErrorHandler((error: FastifyError, request, reply) => sendProblem(toProblem(error), error, request, reply));
  app.setNotFoundHandler((request, reply) =>
    sendProblem(new Problem('not_found', 'There is nothing at this address.'), null, request, reply),
  );
}

function toProblem(error: FastifyError): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof InvalidTokenError)
    return new Problem('unauthenticated', 'The token is not valid, or no longer. Sign in again.');
  if (error instanceof IssuerUnavailableError) return away('The identity provider cannot be asked right now.');
  const known = error.statusCode === undefined ? undefined : byStatus[error.statusCode];
  if (known) return new Problem(known[0], known[1]);
  const fault = classifyDatabaseError(error);
  if (fault === 'unstorable_text') return new Problem('bad_request', 'A text holds NUL or half a surrogate pair.');
  if (fault !== null) return away('The database is away or busy.');
  return new Problem('internal', 'Something went wrong. Give the requestId to whoever runs this service.');
}

const away = (what: string) => new Problem('unavailable', `${what} Try again shortly.`, { retryAfter: RETRY_AFTER_S });

function sendProblem(
  problem: Problem,
  error: Error | null,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  // What went wrong inside stays inside: the caller gets the id, the log the error.
  if (problem.status >= 500) request.log.error({ err: error, requestId: request.id }, problem.message);
  if (problem.code === 'unauthenticated') reply.header('www-authenticate', 'Bearer');
  if (problem.retryAfter !== undefined) reply.header('retry-after', String(problem.retryAfter));
  return reply
    .code(problem.status)
    .type(PROBLEM_TYPE)
    .send(JSON.stringify(problemBody(problem, request.id)));
}
