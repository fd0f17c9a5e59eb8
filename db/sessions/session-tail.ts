/** Reads new messages and changes of an account's sessions, each once, in the order in which their transactions began. */

import type { Pool } from 'pg';
import type { Listener, Subscription } from '../postgres/listener.ts';
import { subscribeTo } from '../postgres/notifications.ts';
import { JsonText, type RowEvent, type RowTail, TAIL_BATCH_BYTES } from '../postgres/row-tail.ts';
import { countBytes, listRows } from '../postgres/rows.ts';
import { hasLostChanges, MESSAGES_ADDED, nameStreamLock, type SessionChange } from './session-changes.ts';
import type { MessageRow } from './sessions.ts';

/** Events of one read, fewer if they are large. */
const BATCH = 10;
/** Rows that one read looks through for those that a filter wants, so that no read takes long. */
const WINDOW = 1_000;
const POSITION = /^(\d{1,19})-(\d{1,18})$/;

/** Whether a text is an event id of this stream. */
export const isMessagePosition = (text: string): boolean => POSITION.test(text);

/** The notification carries the account. */
export const subscribeToMessages = subscribeTo(MESSAGES_ADDED);
/** Makes writers notify of the account's messages until it is closed. Call it before `openSessionTail`. */
export const announceReader = (listener: Listener, accountId: string): Promise<Subscription> =>
  listener.holdShared(nameStreamLock(accountId));

type Row = Omit<MessageRow, 'data'> & {
  /** JSON text. */
  readonly data: string | null;
  /** Stored bytes of this row and the rows before it. */
  readonly bytesSoFar: number;
  /** Null: a message was added. */
  readonly change: SessionChange | null;
  readonly sessionId: string;
  readonly agentId: string | null;
  readonly tx: string;
  readonly settled: boolean;
  /** Whether the row is not an event but marks the end of the window: its last settled row, or its last row if none is settled. */
  readonly isEnd: boolean;
  /** Of the end: whether rows may follow the window. */
  readonly isFull: boolean;
};

/** Which rows of the account a reader wants. Null: all. */
interface TailFilter {
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
      const settled = found.filter((row) => row.settled);
      const last = settled.at(-1);
      if (last) at = { tx: last.tx, row: last.position };
      const rows = settled.filter(({ isEnd }) => !isEnd);
      const bytes = countBytes(rows);
      return {
        events: rows.map(asEvent),
        bytes,
        hasMore: rows.length === BATCH || bytes >= TAIL_BATCH_BYTES || last?.isFull === true,
        hasUnsettled: found.some((row) => !row.settled && (!row.isEnd || row.isFull)),
      };
    },
  };
}

/** Condition of both tables: rows of the account after the position. */
const isNext = (table: string): string =>
  `${table}.account_id = $1 AND (${table}.tx, ${table}.position) > ($2::xid8, $3::bigint)`;

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
    `WITH scanned AS NOT MATERIALIZED (
       SELECT *, added.tx < pg_snapshot_xmin(pg_current_snapshot()) AS settled FROM (
        (SELECT NULL AS change, m.session_id, NULL AS agent_id, m.at, m.tx, m.position, m.stored_bytes AS bytes
           FROM session_messages m
          WHERE ${isNext('m')} ORDER BY m.tx, m.position LIMIT ${WINDOW})
        UNION ALL
        (SELECT c.type, c.session_id, c.agent_id, c.at, c.tx, c.position, 0 FROM session_changes c
          WHERE $8 AND ${isNext('c')} ORDER BY c.tx, c.position LIMIT ${WINDOW})) added
        ORDER BY added.tx, added.position LIMIT ${WINDOW}),
     listed AS MATERIALIZED (
       SELECT *, (sum(bytes) OVER (ORDER BY tx, position ROWS UNBOUNDED PRECEDING))::int AS bytes_so_far FROM (
         SELECT * FROM scanned
          WHERE ($5::pg_snapshot IS NULL OR NOT pg_visible_in_snapshot(scanned.tx, $5::pg_snapshot))
            AND ($6::text IS NULL OR session_id = $6)
            AND ($7::text IS NULL OR $7 = coalesce(agent_id, (SELECT s.agent_id FROM sessions s WHERE s.id = scanned.session_id)))
          ORDER BY scanned.tx, scanned.position LIMIT $4) AS first_wanted),
     wanted AS (
       SELECT *, false AS is_end, false AS is_full FROM listed WHERE bytes_so_far - bytes < ${TAIL_BATCH_BYTES}),
     -- The rows after the last one that is sent are yet to be looked through.
     window_end AS (
       SELECT *, 0, true, count(*) OVER () = ${WINDOW} FROM scanned
        WHERE (SELECT count(*) < $4 AND coalesce(max(bytes_so_far), 0) < ${TAIL_BATCH_BYTES} FROM listed)
        ORDER BY settled DESC, scanned.tx DESC, scanned.position DESC LIMIT 1)
     SELECT m.id, coalesce(m.role, 'notice') AS role, coalesce(m.text, '') AS text, r.at, m.data::text AS data, m.judgement,
            r.position::text AS position, r.bytes_so_far AS "bytesSoFar", r.change, r.session_id AS "sessionId", r.agent_id AS "agentId", r.tx::text AS tx,
            r.settled, r.is_end AS "isEnd", r.is_full AS "isFull"
       FROM (SELECT * FROM wanted UNION ALL SELECT * FROM window_end) r
       LEFT JOIN session_messages m
         ON m.session_id = r.session_id AND m.position = r.position AND r.change IS NULL AND r.settled AND NOT r.is_end
      ORDER BY r.tx, r.position, r.is_end`,
    [accountId, at.tx, at.row, BATCH, known, sessionId, agentId, changes],
  );

function asEvent(row: Row): RowEvent {
  const id = `${row.tx}-${row.position}`;
  const { sessionId, agentId, at } = row;
  if (row.change !== null) return { id, type: row.change, data: { sessionId, agentId, at } };
  const message = {
    id: row.id,
    role: row.role,
    text: row.text,
    at,
    ...(row.data === null ? {} : { data: new JsonText(row.data) }),
    ...(row.judgement ? { judgement: row.judgement } : {}),
  };
  return { id, type: row.role === 'notice' ? 'notice' : 'message', data: { sessionId, message } };
}
