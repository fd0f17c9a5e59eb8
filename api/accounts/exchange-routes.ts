/** `POST /oauth/token`: services get tokens of accounts that allowed it. Requests and errors as RFC 6749 and RFC 8693 have them. */
import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Problem, problems } from '../../sdk/contract/errors.ts';
import { KIB, SECOND } from '../../sdk/contract/limits.ts';
import { readBody } from '../../service/http/body-reader.ts';
import { discardRest, sendAtPace } from '../../service/http/errors.ts';
import { ExchangeError, type TokenExchange } from '../../service/identity/token-exchange.ts';

/** More than the longest token, and long enough for it over a slow line. */
const BODY_BOUNDS = { maxBytes: 32 * KIB, withinMs: 10 * SECOND };
const FORM = 'application/x-www-form-urlencoded';
const SERVER_ERROR = 500;

export const exchangeRoutes = (exchange: TokenExchange) => async (scope: FastifyInstance) => {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser(FORM, async (request: FastifyRequest, payload: Readable) => {
    const body = await readBody(payload, request.headers['content-length'], BODY_BOUNDS);
    return new URLSearchParams(body.toString());
  });
  scope.setErrorHandler((error, request, reply) => {
    const { code, message, status, retryAfter } = toExchangeError(error);
    if (status >= SERVER_ERROR) request.log.error({ err: error }, 'the token exchange failed');
    sendAtPace(status, request, reply, () => {
      discardRest(request, reply);
      if (retryAfter !== undefined) reply.header('retry-after', String(retryAfter));
      reply.code(status).header('cache-control', 'no-store').send({ error: code, error_description: message });
    });
  });
  // Beside the REST interface, not in it: requests and answers have the shapes of the RFC.
  scope.post('/oauth/token', { bodyLimit: BODY_BOUNDS.maxBytes, schema: { hide: true } }, async (request, reply) => {
    const { body } = request;
    if (!(body instanceof URLSearchParams))
      throw new ExchangeError('invalid_request', `Send a body of the type ${FORM}.`);
    const exchanged = await exchange(body);
    return reply.header('cache-control', 'no-store').send(exchanged);
  });
};

function toExchangeError(error: unknown): ExchangeError {
  if (error instanceof ExchangeError) return error;
  if (error instanceof Problem) {
    const code = error.code === 'rate_limited' ? 'temporarily_unavailable' : 'invalid_request';
    return new ExchangeError(code, error.message, problems[error.code].status, error.retryAfter);
  }
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : SERVER_ERROR;
  if (status < SERVER_ERROR)
    return new ExchangeError('invalid_request', `Send a body of the type ${FORM}, of 32 KiB at most.`);
  return new ExchangeError('server_error', 'The token could not be exchanged. Retry shortly.', 503, 5);
}
