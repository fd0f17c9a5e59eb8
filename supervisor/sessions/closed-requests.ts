/** Aborts the work of a request whose client has closed the connection. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { endWithToken } from '../../service/http/authentication.ts';
import { onceClosed } from '../../service/http/closed-responses.ts';

const CLOSED = 'the runtime closed the request';
const TOKEN_ENDED = 'the token of the request is no longer valid, or its account was suspended or demoted';

/** The reason of a signal that aborts because the connection was closed: the runtime gave up, or has lost the connection. */
class RequestClosedError extends Error {
  constructor() {
    super(CLOSED);
  }
}

/** The reason of a signal that aborts because the token of the request ended. Its cause is what a further request would be refused with. */
class TokenEndedError extends Error {
  constructor(cause: unknown) {
    super(TOKEN_ENDED, { cause });
  }
}

/** Returns the error of a request whose signal aborted because its token ended; otherwise, the given error. */
export const preferTokenError = ({ reason }: AbortSignal, error: unknown): unknown =>
  reason instanceof TokenEndedError ? reason.cause : error;

export const isClosedRequest = ({ reason }: AbortSignal): boolean => reason instanceof RequestClosedError;

/** A signal that aborts when the connection is closed before the answer was sent. */
export function abortWhenClosed(reply: FastifyReply): AbortSignal {
  const closed = new AbortController();
  onceClosed(reply.raw, () => {
    if (!reply.raw.writableFinished) closed.abort(new RequestClosedError());
  });
  return closed.signal;
}

/**
 * For an answer that lasts: a signal that aborts when the response is closed, however it ended, and when the token of the request
 * expires or is revoked, or its account is suspended or demoted.
 */
export function abortWhenOver(request: FastifyRequest, reply: FastifyReply): AbortSignal {
  const over = new AbortController();
  onceClosed(reply.raw, () => over.abort(new RequestClosedError()));
  endWithToken(request, reply, (why) => over.abort(new TokenEndedError(why)));
  return over.signal;
}
