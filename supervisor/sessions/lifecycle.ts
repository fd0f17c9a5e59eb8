/** Starts, clears and deletes sessions, and records the event for the account's plugins in the same transaction. */

import { releaseMediaOfSession } from '../../db/accounts/media.ts';
import { readRoom, requireRoom } from '../../db/accounts/usage.ts';
import { hasChannel } from '../../db/channels/channels.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { type RuntimeTool, setRuntimeTools } from '../../db/sessions/runtime-tools.ts';
import { recordChanges } from '../../db/sessions/session-changes.ts';
import { deleteSession, emptyForClear, emptySessions } from '../../db/sessions/session-removal.ts';
import {
  clearSession,
  countMessages,
  findSessionByKey,
  makeStrict,
  openSession,
  type Session,
  setHostTools,
} from '../../db/sessions/sessions.ts';
import type { Trigger } from '../../db/sessions/turns.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { recordSessionEvent, requireRoomForEvent } from '../calls/session-events.ts';
import { runHookOrThrow } from './hooks.ts';
import type { SessionServices } from './session-services.ts';

interface NewSession extends Pick<Session, 'agentId' | 'agentName' | 'channelId' | 'key' | 'strict'> {
  /** Omitted: a session with the key keeps its groups. */
  readonly hostTools?: readonly string[] | undefined;
  /** Omitted: a session with the key keeps its tools. */
  readonly tools?: readonly RuntimeTool[] | undefined;
}

/**
 * Starts a session, or opens the one with its key.
 *
 * @throws Problem `not_found` for a channel of another account, `id_reused` for a key of another agent, `quota_exceeded`
 */
export async function startSession(
  services: SessionServices,
  accountId: string,
  fields: NewSession,
): Promise<{ readonly session: Session; readonly isNew: boolean }> {
  const { pool, queues } = services;
  const known = fields.key === null ? null : await findSessionByKey(pool, accountId, fields.key);
  if (known) return { session: await applyFields(services, requireSameAgent(known, fields), fields), isNew: false };
  if (fields.channelId !== null && !(await hasChannel(pool, accountId, fields.channelId)))
    throw new Problem('not_found', 'You have no channel with this id. Leave channelId out for a session without one.');
  await requireRoomForEvent(pool, accountId, 'sessionStarted');
  const opened = await inTransaction(pool, async (tx) => {
    const { session, isNew } = await openSession(tx, { accountId, ...fields });
    const data = { sessionId: session.id, agentId: session.agentId, channelId: session.channelId };
    if (isNew) await recordSessionEvent(tx, queues, accountId, 'sessionStarted', data);
    if (isNew && fields.tools) await setRuntimeTools(tx, session.id, fields.tools);
    return { session: { ...session, hasTools: isNew ? (fields.tools ?? []).length > 0 : session.hasTools }, isNew };
  });
  if (opened.isNew) services.sessions.put(opened.session);
  const session = requireSameAgent(opened.session, fields);
  return { isNew: opened.isNew, session: opened.isNew ? session : await applyFields(services, session, fields) };
}

/** Applies the tools and `strict` of a request to a session that exists. `strict` can be set, but not cleared. */
async function applyFields(
  services: SessionServices,
  session: Session,
  { hostTools, tools, strict }: Pick<NewSession, 'hostTools' | 'tools' | 'strict'>,
): Promise<Session> {
  const becomesStrict = strict && !session.strict;
  if (!hostTools && !tools && !becomesStrict) return session;
  return changeSession(services, session, { hostTools, tools, becomesStrict });
}

/** An omitted list stays unchanged. */
interface SessionChanges extends Pick<NewSession, 'hostTools' | 'tools'> {
  readonly becomesStrict?: boolean;
}

/** @throws Problem `not_found`, `quota_exceeded` */
export async function changeSession(
  { pool, sessions }: SessionServices,
  { accountId, id }: Session,
  { hostTools, tools, becomesStrict = false }: SessionChanges,
): Promise<Session> {
  await inTransaction(pool, async (tx) => {
    const hasOtherHostTools = hostTools !== undefined && (await setHostTools(tx, id, hostTools));
    const hasOtherTools = tools !== undefined && (await setRuntimeTools(tx, id, tools));
    if (hasOtherHostTools || hasOtherTools) {
      // Each change writes a row that is kept for a day. Without this check, a client that keeps changing the tools would exceed
      // the quota.
      await requireRoom(tx, accountId, 'transcripts', 0);
      await recordChanges(tx, [id], 'tools');
    }
    if (becomesStrict) await makeStrict(tx, id);
  });
  sessions.drop(id);
  return sessions.get(accountId, id);
}

function requireSameAgent(session: Session, { agentId, channelId }: NewSession): Session {
  if (session.agentId === agentId && session.channelId === channelId) return session;
  throw new Problem(
    'id_reused',
    `This key belongs to a session of the agent “${session.agentId}” ${session.channelId === null ? 'without a channel' : `and the channel ${session.channelId}`}. Use another key for another agent or channel.`,
  );
}

/**
 * Clears a session. If it is interrupted, some of many messages, and what ended turns contain, may be gone while the session is
 * unchanged otherwise: the next clear continues.
 *
 * @throws Problem `cancelled`, `quota_exceeded`, `not_found`
 */
export async function clearTranscript(
  services: SessionServices,
  session: Session,
  { trigger, ...fields }: { readonly reason: string; readonly by: string; readonly trigger: Trigger },
): Promise<Session> {
  const messageCount = await countMessages(services.pool, session.id);
  await runHookOrThrow(services, session, 'middleware.sessionClear', { ...fields, messageCount }, trigger);
  await requireRoomForEvent(services.pool, session.accountId, 'sessionCleared');
  const roomBefore = await readRoom(services.pool, session.accountId, 'transcripts');
  const removedBefore = await emptyForClear(services.pool, session);
  const cleared = await inTransaction(services.pool, async (tx) => {
    const removedLast = await clearSession(tx, session.id);
    await releaseMediaOfSession(tx, session.id);
    if (removedLast === null) return null;
    const removed = removedBefore + removedLast;
    // A clear writes a row that is kept for a day. Without this check, a client that keeps clearing an empty session would exceed
    // the quota.
    if (removed === 0 && (await readRoom(tx, session.accountId, 'transcripts')) < roomBefore)
      await requireRoom(tx, session.accountId, 'transcripts', 0);
    const data = { sessionId: session.id, agentId: session.agentId, messageCount: removed };
    await recordSessionEvent(tx, services.queues, session.accountId, 'sessionCleared', data);
    return removed;
  });
  services.sessions.drop(session.id);
  if (cleared === null) throw new Problem('not_found', 'You have no session with this id.');
  return services.sessions.get(session.accountId, session.id);
}

/** @throws Problem `not_found` */
export async function removeSession(services: SessionServices, session: Session): Promise<void> {
  await emptySessions(services.pool, { ...session, sessionIds: [session.id] });
  const isDeleted = await inTransaction(services.pool, (tx) => deleteSession(tx, services.queues, session));
  services.sessions.drop(session.id);
  if (!isDeleted) throw new Problem('not_found', 'You have no session with this id.');
}
