/** Reads new messages and changes of an account's sessions, each once, in the order in which their transactions began. */

import type { Pool } from 'pg';
import type { Listener, Subscription } from '../postgres/listener.ts';
import { subscribeTo } from '../postgres/notifications.ts';
import type { RowEvent, RowTail } from '../postgres/row-tail.ts';
import { listRows } from '../postgres/rows.ts';
import { hasLostChanges, MESSAGES_ADDED, nameStreamLock } from './session-changes.ts';
import { type JudgedMessage, MESSAGE, type MessageRow, toMessage } from './sessions.ts';

/** Limits the memory of a slow reader: a message may be a megabyte. */
const BATCH = 10;
const POSITION = /^(\d{1,19})-(\d{1,18})$/;

/** Whether a text is an event id of this stream. */
export const isMessagePosition = (text: string): boolean => POSITION.test(text);

/** The notification carries the account. */
export const subscribeToMessages = subscribeTo(MESSAGES_ADDED);
/** Makes writers notify of the account's messages until it is closed. Call it before `openSessionTail`. */
export const announceReader = (listener: Listener, accountId: string): Promise<Subscription> =>
  listener.holdShared(nameStreamLock(accountId));

type Row = MessageRow & {
  /** Null: a message was added. */
  readonly change: 'cleared' | 'deleted' | null;
  readonly sessionId: string;
  readonly agentId: string | null;
  readonly tx: string;
  readonly settled: boolean;
};

/** Which rows of the account a reader wants. Null: all. */
export interface TailFilter {
  readonly sessionId: string | null;
  readonly agentId: string | null;
  /** Whether it also wants what else happens to sessions. */
  readonly changes: boolean;
}
const ONLY_MESSAGES: TailFilter = { sessionId: null, agentId: null, changes: false };

export interface SessionTail extends RowTail {
  /** Whether the reader may have missed something between its position and the first event. */
  readonly hasGap: boolean;
}

/** @param after the last message that the reader has; null: start with the next new message */
export async function openSessionTail(
  pool: Pool,
  accountId: string,
  after: string | null,
  filter: TailFilter = ONLY_MESSAGES,
): Promise<SessionTail> {
  const found = await pool.query<{ snapshot: string; horizon: string; next: string }>(
    `SELECT s::text AS snapshot, pg_snapshot_xmin(s)::text AS horizon, pg_snapshot_xmax(s)::text AS next
       FROM pg_current_snapshot() s`,
  );
  const { snapshot = '', horizon = '0', next = '0' } = found.rows[0] ?? {};
  const [, tx, row] = POSITION.exec(after ?? '') ?? [];
  // Ignore positions of another database (before a restore): their transaction ids are in the future.
  const isKnown = tx !== undefined && row !== undefined && BigInt(tx) <= BigInt(next);
  let at = isKnown ? { tx, row } : { tx: horizon, row: '0' };
  // A transaction that is open elsewhere on the server holds the horizon back, so messages after the horizon may exist
  // already.
  const known = isKnown ? null : snapshot;
  const hasGap = after !== null && (!isKnown || (await hasLostChanges(pool, accountId, at.tx, at.row)));
  return {
    hasGap,
    get position() {
      return `${at.tx}-${at.row}`;
    },
    async read() {
      const found = await readAfter(pool, accountId, at, known, filter);
      // A row waits until no running transaction can still commit rows before it.
      const rows = found.filter(({ settled }) => settled);
      const last = rows.at(-1);
      if (last) at = { tx: last.tx, row: last.position };
      const more = rows.length === BATCH;
      return { events: rows.map(asEvent), more, soon: rows.length < found.length };
    },
  };
}

/** Conditions of both tables: rows of the account after the position, and not in the snapshot. */
const isNext = (
  table: string,
): string => `${table}.account_id = $1 AND (${table}.tx, ${table}.position) > ($2::xid8, $3::bigint)
        AND ($5::pg_snapshot IS NULL OR NOT pg_visible_in_snapshot(${table}.tx, $5::pg_snapshot))
        AND ($6::text IS NULL OR ${table}.session_id = $6)`;

/** @param known the snapshot whose messages are skipped; null: none */
const readAfter = (
  pool: Pool,
  accountId: string,
  at: { tx: string; row: string },
  known: string | null,
  { sessionId, agentId, changes }: TailFilter,
): Promise<Row[]> =>
  listRows(
    pool,
    `SELECT ${MESSAGE}, added.change, added.session_id AS "sessionId", added.agent_id AS "agentId", added.tx::text AS tx,
            added.tx < pg_snapshot_xmin(pg_current_snapshot()) AS settled
       FROM (
        (SELECT NULL AS change, m.id, m.role, m.text, m.at, m.data, m.judgement, m.position, m.session_id, NULL AS agent_id, m.tx
           FROM session_messages m
          WHERE ${isNext('m')}
            AND ($7::text IS NULL OR m.session_id IN (SELECT id FROM sessions WHERE account_id = $1 AND agent_id = $7))
          ORDER BY m.tx, m.position LIMIT $4)
        UNION ALL
        (SELECT c.type, '', 'notice', '', c.at, NULL, NULL, c.position, c.session_id, c.agent_id, c.tx
           FROM session_changes c
          WHERE $8 AND ${isNext('c')} AND ($7::text IS NULL OR c.agent_id = $7)
          ORDER BY c.tx, c.position LIMIT $4)) added
      ORDER BY added.tx, added.position LIMIT $4`,
    [accountId, at.tx, at.row, BATCH, known, sessionId, agentId, changes],
  );

function asEvent(row: Row): RowEvent {
  const id = `${row.tx}-${row.position}`;
  const { sessionId, agentId, at } = row;
  if (row.change !== null) return { id, type: row.change, data: { sessionId, agentId, at } };
  const message: JudgedMessage = toMessage(row);
  return { id, type: row.role === 'notice' ? 'notice' : 'message', data: { sessionId, message } };
}
