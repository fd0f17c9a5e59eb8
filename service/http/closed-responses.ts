/** Learns when the client of a request has left, or has its whole answer. */
import type { FastifyReply } from 'fastify';

/** Calls `act` when the response is closed: at once if its client left before, because then no event comes any more. */
export function onceClosed({ raw }: FastifyReply, act: () => void): void {
  if (raw.closed) act();
  else raw.once('close', act);
}
