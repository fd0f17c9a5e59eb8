/** Reads new messages of an account's sessions, each once, in the order in which their transactions began. */

import type { Pool } from 'pg';
import { subscribeTo } from '../postgres/notifications.ts';
import type { RowEvent, RowTail } from '../postgres/row-tail.ts';
import { listRows } from '../postgres/rows.ts';
import { type JudgedMessage, MESSAGE, MESSAGES_ADDED, type MessageRow, toMessage } from './sessions.ts';

/** Limits the memory of a slow reader: a message may be a megabyte. */
const BATCH = 10;
const POSITION = /^(\d{1,19})-(\d{1,18})$/;

/** Whether a text is an event id of this stream. */
export const isMessagePosition = (text: string): boolean => POSITION.test(text);

/** The notification carries the account. */
export const subscribeToMessages = subscribeTo(MESSAGES_ADDED);

type Row = MessageRow & { readonly sessionId: string; readonly tx: string; readonly settled: boolean };

/** @param after the last message that the reader has; null: start with the next new message */
export async function openSessionTail(pool: Pool, accountId: string, after: string | null): Promise<RowTail> {
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
  return {
    get position() {
      return `${at.tx}-${at.row}`;
    },
    async read() {
      const found = await readAfter(pool, accountId, at, known);
      // A row waits until no running transaction can still commit rows before it.
      const rows = found.filter(({ settled }) => settled);
      const last = rows.at(-1);
      if (last) at = { tx: last.tx, row: last.position };
      const more = rows.length === BATCH;
      return { events: rows.map(asEvent), more, soon: rows.length < found.length };
    },
  };
}

/** @param known the snapshot whose messages are skipped; null: none */
const readAfter = (
  pool: Pool,
  accountId: string,
  at: { tx: string; row: string },
  known: string | null,
): Promise<Row[]> =>
  listRows(
    pool,
    `SELECT ${MESSAGE}, session_id AS "sessionId", tx::text AS tx,
            session_messages.tx < pg_snapshot_xmin(pg_current_snapshot()) AS settled
       FROM session_messages
      WHERE account_id = $1 AND (session_messages.tx, session_messages.position) > ($2::xid8, $3::bigint)
        AND ($5::pg_snapshot IS NULL OR NOT pg_visible_in_snapshot(session_messages.tx, $5::pg_snapshot))
      ORDER BY session_messages.tx, session_messages.position LIMIT $4`,
    [accountId, at.tx, at.row, BATCH, known],
  );

function asEvent(row: Row): RowEvent {
  const message: JudgedMessage = toMessage(row);
  const type = row.role === 'notice' ? 'notice' : 'message';
  return { id: `${row.tx}-${row.position}`, type, data: { sessionId: row.sessionId, message } };
}
