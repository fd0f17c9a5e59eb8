/** Sessions and their transcripts. */

import { randomUUIDv7 } from 'node:crypto';
import type { ClientBase, Pool } from 'pg';
import type { z } from 'zod';
import { Problem } from '../../sdk/contract/errors.ts';
import type { judgement, role, transcriptMessage } from '../../sdk/contract/payloads.ts';
import { throwQuotaProblem } from '../accounts/usage.ts';
import { mapPage, type Page } from '../postgres/cursors.ts';
import { notifySessionChanged } from '../postgres/notifications.ts';
import { orderedId } from '../postgres/ordered-id.ts';
import {
  boundedSql,
  changeRows,
  countBytes,
  findRow,
  findValue,
  hasRow,
  listRows,
  orderPage,
  type PageOrder,
  type PageQuery,
  planOnce,
  type Queryable,
  readPage,
  readPositionPage,
} from '../postgres/rows.ts';
import { NOTIFY_READERS_SQL, recordChanges } from './session-changes.ts';

export interface Session {
  readonly id: string;
  readonly accountId: string;
  readonly agentId: string;
  readonly agentName: string;
  readonly channelId: string | null;
  /** The runtime's own name of it: the same key of an account opens the same session. */
  readonly key: string | null;
  /** Groups of the host's own tools that it offers. */
  readonly hostTools: string[];
  /** Whether its runtime offers tools of its own: `listRuntimeTools` reads them. */
  readonly hasTools: boolean;
  /** Whether it takes only messages that hooks judged. */
  readonly strict: boolean;
  readonly createdAt: string;
  readonly clearedAt: string | null;
}
/** A message as plugins see it. */
export type TranscriptMessage = z.infer<typeof transcriptMessage>;
/** A message as the runtime of its session sees it. */
export interface JudgedMessage extends TranscriptMessage {
  /** The result of the hooks; absent: no hook judged it. */
  readonly judgement?: z.infer<typeof judgement>;
}
export interface NewMessage {
  readonly id?: string | undefined;
  readonly role: z.infer<typeof role>;
  readonly text: string;
  readonly data?: Record<string, unknown> | undefined;
  readonly judgement?: z.infer<typeof judgement> | undefined;
  /** The required plugins when it was judged, as `digestGuards` returns them. */
  readonly guards?: string;
  /** Digest of the request that sent a mail, to detect a different request with its id. Neither plugins nor runtimes see it. */
  readonly requestDigest?: string;
}

const COLUMNS = `id, account_id AS "accountId", agent_id AS "agentId", agent_name AS "agentName",
  channel_id AS "channelId", key, host_tools AS "hostTools",
  has_tools AS "hasTools", strict, created_at AS "createdAt", cleared_at AS "clearedAt"`;

interface NewSession {
  readonly accountId: string;
  readonly agentId: string;
  readonly agentName: string;
  readonly channelId: string | null;
  readonly key?: string | null;
  readonly hostTools?: readonly string[] | undefined;
  readonly strict?: boolean;
}

/** @throws Problem `quota_exceeded` */
export const createSession = async (tx: Queryable, session: Omit<NewSession, 'key'>): Promise<Session> =>
  (await openSession(tx, session)).session;

/** Creates a session, or finds the one with its key. @throws Problem `quota_exceeded` */
export async function openSession(
  tx: Queryable,
  { accountId, agentId, agentName, channelId, key = null, hostTools = [], strict = false }: NewSession,
): Promise<{ readonly session: Session; readonly isNew: boolean }> {
  const id = orderedId(Date.now());
  const opened = findRow<Session>(
    tx,
    `INSERT INTO sessions (id, account_id, agent_id, agent_name, channel_id, host_tools, key, strict)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
     ON CONFLICT (account_id, key) WHERE key IS NOT NULL DO UPDATE SET key = excluded.key RETURNING ${COLUMNS}`,
    [id, accountId, agentId, agentName, channelId, hostTools, key, strict],
  );
  const session = await opened.catch(throwQuotaProblem);
  if (!session) throw new Error('The session was not inserted.');
  return { session, isNew: session.id === id };
}

export const findSessionByKey = (db: Queryable, accountId: string, key: string): Promise<Session | null> =>
  findRow(db, `SELECT ${COLUMNS} FROM sessions WHERE account_id = $1 AND key = $2`, [accountId, key]);

/** Finds a session of any account: the caller must check the account. */
export const findSession = (tx: Queryable, id: string): Promise<Session | null> =>
  findRow(tx, `SELECT ${COLUMNS} FROM sessions WHERE id = $1`, [id]);

/** The newest one without a channel: what the agent says in a channel's session is sent to the person who writes there. */
export const findAgentSession = (pool: Queryable, accountId: string, agentId: string): Promise<Session | null> =>
  findRow(
    pool,
    `SELECT ${COLUMNS} FROM sessions WHERE account_id = $1 AND agent_id = $2 AND channel_id IS NULL
      ORDER BY id DESC LIMIT 1`,
    [accountId, agentId],
  );

/** The name of an agent in its newest session. Null: it has no session. */
export const findAgentName = (tx: Queryable, accountId: string, agentId: string): Promise<string | null> =>
  findValue(tx, 'SELECT agent_name FROM sessions WHERE account_id = $1 AND agent_id = $2 ORDER BY id DESC LIMIT 1', [
    accountId,
    agentId,
  ]);

/** @returns whether it had others before */
export async function setHostTools(tx: Queryable, id: string, hostTools: readonly string[]): Promise<boolean> {
  const sql = 'UPDATE sessions SET host_tools = $2 WHERE id = $1 AND host_tools <> $2';
  if ((await changeRows(tx, sql, [id, hostTools])) === 0) return false;
  await notifySessionChanged(tx, id);
  return true;
}

/** Makes a session accept only judged messages. Deletes its summaries, which may contain unjudged ones. */
export async function makeStrict(tx: Queryable, id: string): Promise<void> {
  await tx.query('UPDATE sessions SET strict = true WHERE id = $1', [id]);
  await tx.query('DELETE FROM session_summaries WHERE session_id = $1', [id]);
  await notifySessionChanged(tx, id);
}

/** Newest first. */
export const pageSessions = (pool: Pool, query: PageQuery & { readonly accountId: string }): Promise<Page<Session>> =>
  readPage(
    pool,
    `SELECT ${COLUMNS} FROM sessions WHERE account_id = $1 AND ($2::text IS NULL OR id < $2)
      ORDER BY id DESC LIMIT $3`,
    [query.accountId],
    query,
  );

/** Appends messages in the given order. Skips messages whose id exists already. @throws Problem `quota_exceeded` */
export const appendMessages = async (
  tx: Queryable,
  sessionId: string,
  messages: readonly NewMessage[],
): Promise<JudgedMessage[]> => (await addMessages(tx, sessionId, messages)).stored;

/**
 * Appends messages as `appendMessages` does.
 *
 * @returns the messages with these ids, and the ids of those that were added now
 * @throws Problem `quota_exceeded`
 */
export async function addMessages(
  tx: Queryable,
  sessionId: string,
  messages: readonly NewMessage[],
): Promise<{ readonly stored: JudgedMessage[]; readonly addedIds: readonly string[] }> {
  const { ids, addedIds } = await insertMessages(tx, sessionId, messages);
  const found = await listRows<MessageRow>(tx, FIND_MESSAGES, [sessionId, ids]);
  return { stored: found.map(toMessage), addedIds };
}

/** Whether a new message waits for an answer: it was added without a turn, and no plugin cancelled it. */
const isWaiting = ({ role, data, judgement }: NewMessage): boolean =>
  role === 'user' && (data?.turnId ?? null) === null && judgement?.outcome !== 'cancelled';

// With the lock, a concurrent deletion either waits or has removed the session. Without it, the foreign key would fail.
const ADD_MESSAGES = planOnce(`WITH s AS (SELECT id, account_id FROM sessions WHERE id = $1 FOR KEY SHARE),
  added AS (
    INSERT INTO session_messages (session_id, account_id, id, role, text, data, judgement, guards, waits, request_digest)
    SELECT s.id, s.account_id, m.id, m.role, m.text, m.data, m.judgement, m.guards, m.waits, m.request_digest
      FROM unnest($2::text[], $3::text[], $4::text[], $5::json[], $6::json[], $7::text[], $8::boolean[], $9::text[])
           WITH ORDINALITY AS m(id, role, text, data, judgement, guards, waits, request_digest, n), s
     ORDER BY m.n
    ON CONFLICT DO NOTHING
    RETURNING account_id, id),
  notified AS (${NOTIFY_READERS_SQL})
  SELECT ARRAY(SELECT id FROM added) AS "addedIds", (SELECT count(*) FROM notified) AS notified`);

/** @returns the ids of all, and of those that were added. @throws Problem `quota_exceeded` */
async function insertMessages(
  tx: Queryable,
  sessionId: string,
  messages: readonly NewMessage[],
): Promise<{ readonly ids: readonly string[]; readonly addedIds: readonly string[] }> {
  const ids = messages.map((message) => message.id ?? randomUUIDv7());
  const appended = findRow<{ addedIds: string[] }>(tx, ADD_MESSAGES, [
    sessionId,
    ids,
    messages.map((message) => message.role),
    messages.map((message) => message.text),
    messages.map(({ data }) => (data === undefined ? null : JSON.stringify(data))),
    messages.map(({ judgement }) => (judgement === undefined ? null : JSON.stringify(judgement))),
    messages.map(({ guards }) => guards ?? null),
    messages.map(isWaiting),
    messages.map(({ requestDigest }) => requestDigest ?? null),
  ]);
  return { ids, addedIds: (await appended.catch(throwQuotaProblem))?.addedIds ?? [] };
}

export type Notice = Pick<NewMessage, 'id' | 'text' | 'data'>;

/** Appends notices, or nothing if the quota is exceeded: the operations that they report must not fail for it. */
export async function appendNotices(pool: Pool, sessionId: string, notices: readonly Notice[]): Promise<void> {
  const messages = notices.map((notice) => ({ ...notice, role: 'notice' as const }));
  await insertMessages(pool, sessionId, messages).catch((error: unknown) => {
    if (!(error instanceof Problem && error.code === 'quota_exceeded')) throw error;
  });
}

/**
 * Gives a notice another id, so that a message can have this one. False: the session has no notice with this id.
 *
 * @param to where a supervisor of another release has added a notice with this id, the position of the renamed one follows it
 */
export const renameNotice = async (tx: ClientBase, sessionId: string, from: string, to: string): Promise<boolean> => {
  const sql = `UPDATE session_messages AS m
       SET id = CASE WHEN EXISTS (SELECT FROM session_messages o WHERE o.session_id = $1 AND o.id = $3)
                     THEN $3 || ':' || m.position ELSE $3 END
     WHERE m.session_id = $1 AND m.id = $2 AND m.role = 'notice'`;
  return (await changeRows(tx, sql, [sessionId, from, to])) === 1;
};

/** Condition on a message: no plugin cancelled it. */
export const IS_NOT_CANCELLED = `coalesce(judgement ->> 'outcome', '') <> 'cancelled'`;
/** Columns of a `MessageRow`. */
export const MESSAGE = `id, role, text, at, data, judgement, position::text AS position,
  CASE WHEN waits AND NOT is_read THEN guards END AS "freshGuards"`;
const FIND_MESSAGES = planOnce(
  `SELECT ${MESSAGE} FROM session_messages WHERE session_id = $1 AND id = ANY ($2) ORDER BY session_messages.position`,
);
/**
 * Bytes of a message `m` for `boundedSql`. `data` may be many small values, which cost 20 times as much to read and write as a
 * text of their length.
 */
export const MESSAGE_BYTES = '20 * m.stored_bytes - 19 * octet_length(m.text)';
/**
 * The same for prompts, where `data` counts less: a prompt has no next page with what is left out, and the arguments of tools in
 * `data` are mostly texts.
 */
const MESSAGE_BYTES_OF_PROMPT = '5 * m.stored_bytes - 4 * octet_length(m.text)';

const listMessagesSql = (condition: string, limit: string, order: 'ASC' | 'DESC', bytes: string): string =>
  boundedSql({
    columns: MESSAGE,
    table: 'm',
    rows: `SELECT *, ${bytes} AS bytes FROM session_messages m
      WHERE session_id = $1 AND ${condition} ORDER BY m.position ${order} LIMIT ${limit}`,
    order,
  });
/** Lists the `$2` newest messages of session `$1`, newest first. */
export const listNewestSql = (condition: string): string =>
  listMessagesSql(condition, '$2', 'DESC', MESSAGE_BYTES_OF_PROMPT);
/** Lists the `$2` oldest messages of session `$1`, oldest first. */
export const listOldestSql = (condition: string): string =>
  listMessagesSql(condition, '$2', 'ASC', MESSAGE_BYTES_OF_PROMPT);

export interface MessageRow {
  readonly id: string;
  readonly role: z.infer<typeof role>;
  readonly text: string;
  readonly at: string;
  readonly data: Record<string, unknown> | null;
  readonly judgement: JudgedMessage['judgement'] | null;
  readonly position: string;
  /** Of a message that waits and that no model has read yet: the required plugins when it was judged. Otherwise null. */
  readonly freshGuards: string | null;
}
/** For plugins, which must not learn what other plugins decided: without the judgement. */
export const toPlainMessage = (row: MessageRow): TranscriptMessage => ({
  id: row.id,
  role: row.role,
  text: row.text,
  at: row.at,
  ...(row.data === null ? {} : { data: row.data as TranscriptMessage['data'] }),
});
/** For runtimes. */
export const toMessage = (row: MessageRow): JudgedMessage => ({
  ...toPlainMessage(row),
  ...(row.judgement ? { judgement: row.judgement } : {}),
});

/** False: the session was deleted. */
export const lockSession = (tx: ClientBase, id: string): Promise<boolean> =>
  hasRow(tx, 'SELECT 1 FROM sessions WHERE id = $1 FOR NO KEY UPDATE', [id]);

/**
 * Locks the session, and waits for all transactions that add rows to it, as a deletion does. Once it is locked, new ones wait. Without
 * this, a later statement may meet rows that an earlier one did not, or miss messages whose positions are lower. False: it was deleted.
 */
export const lockSessionForRows = (tx: Queryable, id: string): Promise<boolean> =>
  hasRow(tx, 'SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE', [id]);

export const hasMessage = (pool: Queryable, sessionId: string, id: string): Promise<boolean> =>
  hasRow(pool, 'SELECT 1 FROM session_messages WHERE session_id = $1 AND id = $2', [sessionId, id]);

export const findMessage = (pool: Queryable, sessionId: string, id: string): Promise<MessageRow | null> =>
  findRow(pool, `SELECT ${MESSAGE} FROM session_messages WHERE session_id = $1 AND id = $2`, [sessionId, id]);

/** `bytes` are those of `MESSAGE_BYTES`. */
export async function pageMessages(
  pool: Pool,
  query: PageQuery & { readonly sessionId: string; readonly order: PageOrder },
): Promise<Page<JudgedMessage> & { readonly bytes: number }> {
  const { condition, direction } = orderPage('position', '$2', query.order);
  const page = await readPositionPage<MessageRow>(
    pool,
    listMessagesSql(condition, '$3', direction, MESSAGE_BYTES),
    [query.sessionId],
    query,
  );
  return { ...mapPage(page, toMessage), bytes: countBytes(page.items) };
}

const LAST_MESSAGES = listNewestSql(IS_NOT_CANCELLED);

/** The newest messages that no plugin cancelled, in the order of the transcript, for plugins: fewer if they are large. */
export async function lastMessages(pool: Pool, sessionId: string, limit: number): Promise<TranscriptMessage[]> {
  const newest = await listRows<MessageRow>(pool, LAST_MESSAGES, [sessionId, limit]);
  return newest.reverse().map(toPlainMessage);
}

export const countMessages = async (tx: Queryable, sessionId: string): Promise<number> =>
  (await findValue(tx, 'SELECT count(*)::int FROM session_messages WHERE session_id = $1', [sessionId])) ?? 0;

/** What a clear sets in a turn. */
export const CLEARED_TURN_SQL = `state = 'cleared', judgement = NULL, ended_at = coalesce(ended_at, now())`;

/** Deletes all messages, and the copies of their texts in turns. @returns how many; null: the session was deleted */
export async function clearSession(tx: Queryable, sessionId: string): Promise<number | null> {
  // Otherwise, a turn that opens between two of the statements below would lose its message, and stay open.
  if (!(await lockSessionForRows(tx, sessionId))) return null;
  await tx.query('UPDATE sessions SET cleared_at = now() WHERE id = $1', [sessionId]);
  await notifySessionChanged(tx, sessionId);
  await recordChanges(tx, [sessionId], 'cleared');
  // The rows of turns stay: a late step, or a message that is sent once more, must not begin the turn again.
  await tx.query(
    `UPDATE turns SET ${CLEARED_TURN_SQL}
      WHERE session_id = $1 AND (state <> 'cleared' OR judgement IS NOT NULL)`,
    [sessionId],
  );
  for (const table of ['turn_outputs', 'tool_calls', 'session_summaries'])
    await tx.query(`DELETE FROM ${table} WHERE session_id = $1`, [sessionId]);
  return changeRows(tx, 'DELETE FROM session_messages WHERE session_id = $1', [sessionId]);
}
