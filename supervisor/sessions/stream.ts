/** `GET /sessions/stream`: what is added to an account's transcripts, as server-sent events, by whichever supervisor. */
import type { FastifyInstance } from 'fastify';
import type { Pool } from 'pg';
import type { Listener } from '../../db/postgres/listener.ts';
import { isMessagePosition, openSessionTail, subscribeToMessages } from '../../db/sessions/session-tail.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { eventStreamHeaders, type RowStreamOptions, RowStreams } from '../../service/http/row-streams.ts';
import type { SessionServices } from './session-services.ts';

/** The streams of this process. */
export function openSessionStreams(listener: Listener, options: RowStreamOptions = {}): RowStreams {
  const follow = (wake: (key: string | null) => void) => subscribeToMessages(listener, wake, () => wake(null));
  return new RowStreams({ follow, things: 'session streams' }, options);
}

/** Installs the route. */
export function installStream(app: FastifyInstance, { streams, pool }: SessionServices): void {
  app.addHook('preClose', async () => streams.close());
  app.get('/sessions/stream', { exposeHeadRoute: false }, async (request, reply) => {
    const after = readPosition(request.headers['last-event-id']);
    const stream = await openStream(streams, pool, request.accountId, after);
    return reply.headers(eventStreamHeaders).send(stream);
  });
}

const openStream = (streams: RowStreams, pool: Pool, accountId: string, after: string | null) =>
  streams.open({
    ...{ accountId, key: accountId, openTail: () => openSessionTail(pool, accountId, after) },
    isThere: async () => true,
  });

function readPosition(given: string | string[] | undefined): string | null {
  if (given === undefined || given === '') return null;
  if (typeof given === 'string' && isMessagePosition(given)) return given;
  throw new Problem(
    'bad_request',
    'Last-Event-ID: is no id of this stream. Leave it out to start with what comes next.',
  );
}
