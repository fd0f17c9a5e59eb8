/** The one place where an error becomes an answer: `application/problem+json`, with nothing internal in it. */
import type { IncomingMessage } from 'node:http';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { hasZodFastifySchemaValidationErrors } from 'fastify-type-provider-zod';
import type { z } from 'zod';
import { classifyDatabaseError } from '../../db/postgres/database-errors.ts';
import { Problem, type ProblemCode, type ProblemLocation } from '../../sdk/contract/errors.ts';
import { PROBLEM_TYPE, problemBody } from '../../sdk/contract/problem-body.ts';
import { InvalidTokenError, IssuerUnavailableError } from '../identity/tokens.ts';

/** Places named in one answer. */
const LOCATIONS_MAX = 50;
const AWAY_RETRY_AFTER_S = 5;
const BUSY_RETRY_AFTER_S = 1;
/** Time a client has to stop sending a body that was refused. */
const DRAIN_MS = 10_000;

/** Errors of the framework by their code; those not named here go by their status. */
const FRAMEWORK: Readonly<Record<string, [ProblemCode, string]>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'Send the body as application/json.'],
  FST_INVALID_MULTIPART_CONTENT_TYPE: ['unsupported_media_type', 'Send the body as multipart/form-data.'],
  FST_ERR_CTP_BODY_TOO_LARGE: ['too_large', 'The body is larger than this address takes.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['bad_request', 'The body is not as long as its Content-Length says.'],
  FST_ERR_MAX_PARAM_LENGTH: ['not_found', 'There is no such thing.'],
  FST_ERR_BAD_URL: ['bad_request', 'The address is not a valid URL.'],
};

/** Turns anything thrown into a problem that may be shown. `internal` and `unavailable` are worth a log line. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof InvalidTokenError) {
    return new Problem('unauthenticated', 'The token is not valid, or no longer. Sign in again.');
  }
  if (error instanceof IssuerUnavailableError) {
    const detail = 'The identity provider cannot be asked right now. Try again shortly.';
    return new Problem('unavailable', detail, { retryAfter: AWAY_RETRY_AFTER_S });
  }
  if (hasZodFastifySchemaValidationErrors(error)) return asBadRequest(error);
  return asFrameworkProblem(error) ?? asDatabaseProblem(error) ?? internal();
}

const PARTS: Readonly<Record<string, string>> = { body: 'body', headers: 'header' };

function asBadRequest({ validation = [], validationContext }: FastifyError): Problem {
  const issues = validation.map(({ instancePath, message = 'is not valid' }) => ({
    field: instancePath.slice(1).replaceAll('/', '.'),
    message,
  }));
  return badRequest(PARTS[validationContext ?? ''] ?? 'query', issues);
}

function badRequest(part: string, issues: readonly ProblemLocation[]): Problem {
  const [first] = issues;
  const where = part === 'body' ? '' : `${part} `;
  const field = first?.field ? `${where}${first.field}: ` : `the ${part}: `;
  return new Problem('bad_request', `${field}${first?.message}`, { errors: issues.slice(0, LOCATIONS_MAX) });
}

/** Parses a part of a body whose schema depends on the rest. @throws Problem `bad_request` that names the fields */
export function parseInput<Schema extends z.ZodType>(schema: Schema, value: unknown, field: string): z.output<Schema> {
  const checked = schema.safeParse(value);
  if (checked.success) return checked.data;
  const issues = checked.error.issues.map(({ path, message }) => ({ field: [field, ...path].join('.'), message }));
  throw badRequest('body', issues);
}

function asFrameworkProblem(error: unknown): Problem | null {
  if (!(error instanceof Error) || !('statusCode' in error)) return null;
  const known = 'code' in error ? FRAMEWORK[String(error.code)] : undefined;
  if (known) return new Problem(...known);
  if (error.statusCode === 413) return new Problem('too_large', 'The request is larger than this address takes.');
  if (error.statusCode === 415) return new Problem('unsupported_media_type', 'Send the body as application/json.');
  const isTheirs = typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500;
  return isTheirs ? new Problem('bad_request', 'The request cannot be read.') : null;
}

function asDatabaseProblem(error: unknown): Problem | null {
  switch (classifyDatabaseError(error)) {
    case 'unavailable':
      return new Problem('unavailable', 'The database is away. Try again shortly.', { retryAfter: AWAY_RETRY_AFTER_S });
    case 'busy':
      return new Problem('unavailable', 'Too much is going on at once here. Try again shortly.', {
        retryAfter: BUSY_RETRY_AFTER_S,
      });
    case 'unstorable_text':
      return new Problem('bad_request', 'A text holds NUL or half a surrogate pair, which cannot be stored.');
    case null:
      return null;
  }
}

const internal = () =>
  new Problem('internal', 'Something went wrong. Give the requestId to whoever runs this service.');

/** Fastify's error handler. */
export function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const problem = asProblem(error);
  if (problem.code === 'internal' || problem.code === 'unavailable') {
    request.log.error({ err: error, requestId: request.id }, problem.message);
  }
  // Errors before routing are answered without any hook.
  reply.header('x-request-id', request.id);
  if (problem.retryAfter !== undefined) reply.header('retry-after', problem.retryAfter);
  if (request.raw.complete === false) drain(request.raw);
  if (problem.code === 'unauthenticated') reply.header('www-authenticate', 'Bearer');
  return reply
    .code(problem.status)
    .type(PROBLEM_TYPE)
    .serializer((body: unknown) => JSON.stringify(body))
    .send(problemBody(problem, request.id));
}

/**
 * Reads and forgets the rest of a refused body: a client that is still sending would otherwise see its connection break
 * before it can read why. One that sends on and on is cut off.
 */
function drain(body: IncomingMessage): void {
  body.unpipe();
  body.resume();
  const timer = setTimeout(() => body.destroy(), DRAIN_MS).unref();
  body.once('close', () => clearTimeout(timer));
}
