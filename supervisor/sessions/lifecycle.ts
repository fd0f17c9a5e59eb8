/** Sessions themselves: start, look up, clear, delete, each told to the account's plugins in the same transaction. */
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { inTransaction } from '../../db/postgres/pool.ts';
import {
  clearSession,
  countMessages,
  createSession,
  deleteSession,
  pageSessions,
  type Session,
} from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { recordSessionEvent } from '../calls/session-events.ts';
import { runSessionHook } from './hooks.ts';
import { pageQuery, read, readBody, storedId, storedText } from './input.ts';
import { type SessionParams, type SessionServices, toBody } from './session-services.ts';

const newSession = z.object({
  agentId: storedId,
  agentName: storedText(200).min(1).optional(),
  channelId: storedId.nullable().default(null),
});
const clearBody = z.object({ reason: storedText(1000).default(''), by: storedText(500).default('user') });

/** Installs the routes. */
export function installLifecycle(app: FastifyInstance, services: SessionServices): void {
  app.post('/sessions', async (request, reply) => {
    const body = readBody(newSession, request.body);
    const session = await startSession(services, request.accountId, {
      ...body,
      agentName: body.agentName ?? body.agentId,
    });
    return reply.code(201).send(toBody(session));
  });
  app.get('/sessions', async (request) => {
    const query = read(pageQuery, request.query);
    const page = await pageSessions(services.pool, { accountId: request.accountId, ...query });
    return { items: page.items.map(toBody), nextCursor: page.nextCursor };
  });
  app.get<{ Params: SessionParams }>('/sessions/:sessionId', async (request) =>
    toBody(await services.sessions.get(request.accountId, request.params.sessionId)),
  );
  app.post<{ Params: SessionParams }>('/sessions/:sessionId/clear', async (request) => {
    const session = await services.sessions.get(request.accountId, request.params.sessionId);
    return toBody(await clear(services, session, readBody(clearBody, request.body)));
  });
  app.delete<{ Params: SessionParams }>('/sessions/:sessionId', async (request, reply) => {
    const session = await services.sessions.get(request.accountId, request.params.sessionId);
    await remove(services, session);
    return reply.code(204).send();
  });
}

async function startSession(
  services: SessionServices,
  accountId: string,
  made: z.infer<typeof newSession> & { agentName: string },
): Promise<Session> {
  const { plugins } = await services.pluginsCache.get(accountId);
  const session = await inTransaction(services.pool, async (tx) => {
    const started = await createSession(tx, { accountId, ...made });
    const data = { sessionId: started.id, agentId: started.agentId, channelId: started.channelId };
    await recordSessionEvent(tx, services.queues, plugins, 'sessionStarted', data);
    return started;
  });
  services.sessions.put(session);
  return session;
}

async function clear(services: SessionServices, session: Session, body: z.infer<typeof clearBody>): Promise<Session> {
  const messageCount = await countMessages(services.pool, session.id);
  const verdict = await runSessionHook(services, session, 'middleware.sessionClear', { ...body, messageCount }, 'user');
  if (verdict.action === 'cancel')
    throw new Problem('cancelled', `${verdict.cancelledBy} stopped it: ${verdict.reason}`);
  const { plugins } = await services.pluginsCache.get(session.accountId);
  const cleared = await inTransaction(services.pool, async (tx) => {
    const removed = await clearSession(tx, session.id);
    if (removed === null) return null;
    const data = { sessionId: session.id, agentId: session.agentId, messageCount: removed };
    await recordSessionEvent(tx, services.queues, plugins, 'sessionCleared', data);
    return removed;
  });
  services.sessions.drop(session.id);
  if (cleared === null) throw new Problem('not_found', 'There is no such session.');
  return services.sessions.get(session.accountId, session.id);
}

async function remove(services: SessionServices, session: Session): Promise<void> {
  const { plugins } = await services.pluginsCache.get(session.accountId);
  const gone = await inTransaction(services.pool, async (tx) => {
    if (!(await deleteSession(tx, session.id))) return false;
    await recordSessionEvent(tx, services.queues, plugins, 'sessionDeleted', {
      sessionId: session.id,
      agentId: session.agentId,
    });
    return true;
  });
  services.sessions.drop(session.id);
  if (!gone) throw new Problem('not_found', 'There is no such session.');
}
