/** Aborts the work of a request whose client has closed the connection. */
import type { FastifyReply } from 'fastify';

/** A signal that aborts when the connection is closed before the answer was sent. */
export function abortWhenClosed(reply: FastifyReply): AbortSignal {
  const closed = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) closed.abort(new Error('the runtime closed the request'));
  });
  return closed.signal;
}
