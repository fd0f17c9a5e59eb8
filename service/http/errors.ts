/** Turns every error into a response of type `application/problem+json`, or of another form, without internal details. */
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { hasZodFastifySchemaValidationErrors } from 'fastify-type-provider-zod';
import { BlobStoreUnavailableError } from '../../db/files/blob-errors.ts';
import { isDiskUnwritable } from '../../db/files/data-dir.ts';
import { classifyDatabaseError, isOwnershipLost } from '../../db/postgres/database-errors.ts';
import { HAS_UNSTORABLE } from '../../db/postgres/storable-json.ts';
import { Problem, type ProblemCode, type ProblemLocation, problems } from '../../sdk/contract/errors.ts';
import { PROBLEM_TYPE, type ProblemBody, problemBody } from '../../sdk/contract/problem-body.ts';
import {
  InvalidTokenError,
  IssuerUnavailableError,
  SigningKeysUnavailableError,
  WrongTokenError,
} from '../identity/tokens.ts';
import type { RepeatedErrors } from '../telemetry/repeated-errors.ts';
import { discardBody } from './body-reader.ts';
import type { RefusalPace } from './refusal-pace.ts';

/** Maximum number of error locations in one response. */
export const LOCATIONS_MAX = 50;
const UNAVAILABLE_RETRY_AFTER_S = 5;
const BUSY_RETRY_AFTER_S = 1;
const JSON_TYPE = 'application/json';

/** Framework errors by code. Other codes are mapped by their HTTP status. */
const FRAMEWORK: Readonly<Record<string, [ProblemCode, string]>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'Send the body as application/json.'],
  FST_INVALID_MULTIPART_CONTENT_TYPE: ['unsupported_media_type', 'Send the body as multipart/form-data.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['bad_request', 'The length of the body differs from its Content-Length.'],
  FST_ERR_MAX_PARAM_LENGTH: ['not_found', 'Not found: no resource has this id.'],
  FST_ERR_BAD_URL: ['bad_request', 'The address is not a valid URL.'],
};

/** Returns null for the error of what does not exist. @throws any other error */
export function skipNotFound(error: unknown): null {
  if (error instanceof Problem && error.code === 'not_found') return null;
  throw error;
}

/** The form of the errors below an address whose clients do not read problems. */
export interface ErrorForm {
  /** Ends with a slash. */
  readonly below: string;
  /** Returns JSON. */
  toBody(problem: ProblemBody): object;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Null: every error is a problem. */
    readonly errorForm: ErrorForm | null;
    /**
     * Errors that made requests `unavailable` or their outcome unknown. An outage or an attack affects thousands of requests per
     * second, which would fill the log.
     */
    readonly outages: RepeatedErrors;
    /** Delays refusals of requests whose bodies have not arrived: most end their connections. */
    readonly refusals: Pick<RefusalPace, 'answerUnread'>;
  }
}

/** Turns any thrown value into a problem that may be shown. `logUnexpected` logs those that operators should see. */
export function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof WrongTokenError) return new Problem('unauthenticated', error.message);
  if (error instanceof InvalidTokenError) {
    return new Problem('unauthenticated', 'The token is invalid or expired. Sign in again.');
  }
  if (error instanceof SigningKeysUnavailableError)
    return createUnavailable('The keys that sign tokens are unavailable');
  if (error instanceof IssuerUnavailableError) return createUnavailable('The identity provider is unavailable');
  if (error instanceof BlobStoreUnavailableError) return createUnavailable('The store of package files is unavailable');
  if (isDiskUnwritable(error)) return createUnavailable('The disk of the service takes no writes');
  if (isOwnershipLost(error)) return createUnavailable('The account moves to another supervisor');
  if (hasZodFastifySchemaValidationErrors(error)) return fromValidation(error);
  return fromFramework(error) ?? fromDatabase(error) ?? createInternalProblem();
}

const createUnavailable = (what: string, retryAfter = UNAVAILABLE_RETRY_AFTER_S): Problem =>
  new Problem('unavailable', `${what}. Retry shortly.`, { retryAfter });

const PARTS: Readonly<Record<string, string>> = { body: 'body', headers: 'header', params: 'path' };

function fromValidation({ validation = [], validationContext }: FastifyError): Problem {
  const issues = validation.slice(0, LOCATIONS_MAX).map(({ instancePath, message = 'is not valid' }) => ({
    field: instancePath.slice(1).replaceAll('/', '.'),
    message,
  }));
  return createBadRequest(PARTS[validationContext ?? ''] ?? 'query', issues);
}

/** @param part of the request: `body`, `query`, `header` or `path` */
export function createBadRequest(part: string, issues: readonly ProblemLocation[]): Problem {
  const [first] = issues;
  const where = part === 'body' ? '' : `${part} `;
  const field = first?.field ? `${where}${first.field}: ` : `the ${part}: `;
  return new Problem('bad_request', `${field}${first?.message}`, { errors: issues.slice(0, LOCATIONS_MAX) });
}

function fromFramework(error: unknown): Problem | null {
  if (!(error instanceof Error) || !('statusCode' in error)) return null;
  const known = 'code' in error ? FRAMEWORK[String(error.code)] : undefined;
  if (known) return new Problem(...known);
  if (error.statusCode === 413) return new Problem('too_large', 'The request is too large for this address.');
  if (error.statusCode === 415) return new Problem('unsupported_media_type', 'Send the body as application/json.');
  const isClientError = typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500;
  return isClientError ? new Problem('bad_request', 'The request cannot be read.') : null;
}

function fromDatabase(error: unknown): Problem | null {
  switch (classifyDatabaseError(error)) {
    case 'unavailable':
      return createUnavailable('The database is unavailable');
    case 'busy':
      return createUnavailable('The database is busy', BUSY_RETRY_AFTER_S);
    case 'unstorable_text':
      return new Problem('bad_request', HAS_UNSTORABLE);
    case 'rejected_row':
    case null:
      return null;
  }
}

const createInternalProblem = () =>
  new Problem('internal', 'Internal error. Give the requestId to the operator of this service.');

/** Returns JSON; null: the problem is sent. */
type OwnForm = (problem: ProblemBody) => object | null;

/**
 * Fastify's error handler.
 *
 * @param toOwnForm for the handler of a route whose clients do not read problems. Default: the form that the application has below an address
 */
export function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply, toOwnForm?: OwnForm): void {
  const problem = toProblem(error);
  const { type, body } = formatProblem(problem, request, toOwnForm);
  sendAtPace(problem.status, request, reply, () => {
    prepareAnswer(problem, error, request, reply).type(type).send(body);
  });
}

/** Calls `send` at once, or at the pace of refusals if the body of a refused request has not arrived. */
export function sendAtPace(status: number, request: FastifyRequest, reply: FastifyReply, send: () => void): void {
  const { refusals } = request.server;
  // An outage is not the client's doing.
  if (status >= problems.internal.status || !isBodyAwaited(request)) {
    send();
    return;
  }
  // A body in the packet of its head is parsed later in the same turn of the event loop.
  setImmediate(() => {
    if (isBodyAwaited(request)) refusals.answerUnread(reply.raw, send);
    else send();
  });
}

/** Whether the rest of a body is still to come. Nothing of a request without one is, or of one without a connection (Fastify's `inject`). */
const isBodyAwaited = ({ headers, raw }: FastifyRequest): boolean =>
  raw.complete === false && (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0);

function formatProblem(
  problem: Problem,
  request: FastifyRequest,
  toOwnForm = findOwnForm(request),
): { readonly type: string; readonly body: object } {
  const body = problemBody(problem, request.id);
  const own = toOwnForm?.(body) ?? null;
  return own === null ? { type: PROBLEM_TYPE, body } : { type: JSON_TYPE, body: own };
}

function findOwnForm({ server: { errorForm }, url }: FastifyRequest): OwnForm | undefined {
  return errorForm !== null && url.startsWith(errorForm.below) ? (problem) => errorForm.toBody(problem) : undefined;
}

/**
 * Puts a problem in the place of an answer that is about to be sent. Thrown there, it would lose its form if the answer is an
 * error already: the framework calls the error handler once.
 *
 * @returns the payload
 */
export function replaceAnswer(problem: Problem, request: FastifyRequest, reply: FastifyReply): string {
  const { type, body } = formatProblem(problem, request);
  prepareAnswer(problem, problem, request, reply).type(type).removeHeader('content-length');
  return JSON.stringify(body);
}

/** The problem of an error in the middle of a stream, whose status was sent already. */
export function describeStreamError(error: unknown, request: FastifyRequest): ProblemBody {
  const problem = toProblem(error);
  logUnexpected(problem, error, request);
  return problemBody(problem, request.id);
}

function prepareAnswer(problem: Problem, error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  logUnexpected(problem, error, request);
  // Errors before routing skip the hooks, so the header is set here as well.
  reply.header('x-request-id', request.id);
  if (problem.retryAfter !== undefined) reply.header('retry-after', problem.retryAfter);
  discardRest(request, reply);
  if (problem.code === 'unauthenticated') reply.header('www-authenticate', 'Bearer');
  return reply.code(problem.status).serializer((body: unknown) => JSON.stringify(body));
}

/** Discards what is still to come of a body, within limits. Call it before the answer is sent. */
export function discardRest({ raw }: FastifyRequest, reply: FastifyReply): void {
  if (raw.complete !== false) return;
  // The framework's header would close the connection while the client still sends.
  reply.removeHeader('connection');
  discardBody(raw, reply.raw);
}

function logUnexpected(problem: Problem, error: unknown, request: FastifyRequest): void {
  // A client that leaves ends its call, which is then unavailable.
  const isUnavailable = problem.code === 'unavailable' && !request.raw.socket.destroyed;
  if (isUnavailable || problem.code === 'outcome_unknown')
    request.server.outages.add(error instanceof Error ? error : problem);
  if (problem.code === 'internal') request.log.error({ err: error, requestId: request.id }, problem.message);
}
