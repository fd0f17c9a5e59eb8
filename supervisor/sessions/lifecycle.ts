/** Starts, clears and deletes sessions, and records the event for the account's plugins in the same transaction. */
import { hasChannel } from '../../db/channels/channels.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { clearSession, countMessages, createSession, deleteSession, type Session } from '../../db/sessions/sessions.ts';
import type { Trigger } from '../../db/sessions/turns.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { recordSessionEvent, requireRoomForEvent } from '../calls/session-events.ts';
import { createCancelProblem, runSessionHook } from './hooks.ts';
import type { SessionServices } from './session-services.ts';

/** @throws Problem `not_found` for a channel of another account, `quota_exceeded` */
export async function startSession(
  services: SessionServices,
  accountId: string,
  fields: {
    readonly agentId: string;
    readonly agentName: string;
    readonly channelId: string | null;
    readonly hostTools: readonly string[];
  },
): Promise<Session> {
  if (fields.channelId !== null && !(await hasChannel(services.pool, accountId, fields.channelId)))
    throw new Problem('not_found', 'You have no channel with this id. Leave channelId out for a session without one.');
  await requireRoomForEvent(services.pool, accountId, 'sessionStarted');
  const session = await inTransaction(services.pool, async (tx) => {
    const started = await createSession(tx, { accountId, ...fields });
    const data = { sessionId: started.id, agentId: started.agentId, channelId: started.channelId };
    await recordSessionEvent(tx, services.queues, accountId, 'sessionStarted', data);
    return started;
  });
  services.sessions.put(session);
  return session;
}

/** @throws Problem `cancelled` when a plugin cancels it, and `quota_exceeded` */
export async function clearTranscript(
  services: SessionServices,
  session: Session,
  { trigger, ...fields }: { readonly reason: string; readonly by: string; readonly trigger: Trigger },
): Promise<Session> {
  const messageCount = await countMessages(services.pool, session.id);
  const verdict = await runSessionHook(
    services,
    session,
    'middleware.sessionClear',
    { ...fields, messageCount },
    trigger,
  );
  if (verdict.cancel) throw createCancelProblem(verdict.cancel);
  await requireRoomForEvent(services.pool, session.accountId, 'sessionCleared');
  const cleared = await inTransaction(services.pool, async (tx) => {
    const removed = await clearSession(tx, session.id);
    if (removed === null) return null;
    const data = { sessionId: session.id, agentId: session.agentId, messageCount: removed };
    await recordSessionEvent(tx, services.queues, session.accountId, 'sessionCleared', data);
    return removed;
  });
  services.sessions.drop(session.id);
  if (cleared === null) throw new Problem('not_found', 'You have no session with this id.');
  return services.sessions.get(session.accountId, session.id);
}

export async function removeSession(services: SessionServices, session: Session): Promise<void> {
  const gone = await inTransaction(services.pool, async (tx) => {
    if (!(await deleteSession(tx, session.id))) return false;
    await recordSessionEvent(tx, services.queues, session.accountId, 'sessionDeleted', {
      sessionId: session.id,
      agentId: session.agentId,
    });
    return true;
  });
  services.sessions.drop(session.id);
  if (!gone) throw new Problem('not_found', 'You have no session with this id.');
}
