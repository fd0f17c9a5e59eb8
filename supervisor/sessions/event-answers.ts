/** Answers a request with server-sent events that are made meanwhile. */
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { asAccount } from '../../db/postgres/shares.ts';
import type { ProblemBody } from '../../sdk/contract/problem-body.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { describeStreamError } from '../../service/http/errors.ts';

/**
 * Sends events as the generator yields them, as fast as the client reads. An error before the first is an ordinary answer, a later
 * one the last event. Where the client leaves, the generator is not resumed: its work ends with the signal of `abortWhenOver`.
 *
 * @throws what the generator throws before its first event
 */
export async function sendEvents(
  request: FastifyRequest,
  reply: FastifyReply,
  events: AsyncGenerator<string>,
  formatError: (problem: ProblemBody) => string,
): Promise<FastifyReply> {
  const first = await events.next();
  reply.headers({
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache',
    // Proxies would collect the events.
    'x-accel-buffering': 'no',
  });
  return reply.send(Readable.from(continueEvents(request, first, events, formatError)));
}

async function* continueEvents(
  request: FastifyRequest,
  first: IteratorResult<string>,
  events: AsyncGenerator<string>,
  formatError: (problem: ProblemBody) => string,
): AsyncGenerator<string> {
  const { id } = requireCaller(request);
  try {
    // Node resumes this in the async context of the socket.
    for (let next = first; !next.done; next = await asAccount(id, () => events.next())) yield next.value;
  } catch (error) {
    yield formatError(describeStreamError(error, request));
  }
}
