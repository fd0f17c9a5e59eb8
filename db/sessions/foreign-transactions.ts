/**
 * Repairs the order of the session stream in a database whose rows another server wrote: a restore by an older release, or a
 * dump, copies their transaction ids. Those that are in the future here would be streamed as new messages when the
 * server's counter reaches them, and until then each stream would poll for them.
 */
import type { Pool } from 'pg';
import { changeRows, listRows, SWEEP_BATCH } from '../postgres/rows.ts';

/** Condition: this server has not assigned the transaction id yet. Its own rows are only visible once it has. */
const isForeign = (tx: string): string => `${tx} >= pg_snapshot_xmax(pg_current_snapshot())`;
/** Accounts that one statement looks at: two index probes each. */
const PAGE = 1_000;

/** Puts such messages before all of this server's, so that no reader gets them as new, and removes such changes. */
export async function repairForeignTransactions(pool: Pool): Promise<void> {
  for (let after = ''; ; ) {
    const accounts = await listRows<{ id: string; hasMessages: true | null; hasChanges: true | null }>(
      pool,
      `SELECT a.id,
              (SELECT true FROM session_messages m WHERE m.account_id = a.id AND ${isForeign('m.tx')} LIMIT 1) AS "hasMessages",
              (SELECT true FROM session_changes c WHERE c.account_id = a.id AND ${isForeign('c.tx')} LIMIT 1) AS "hasChanges"
         FROM accounts a WHERE a.id > $1 ORDER BY a.id LIMIT ${PAGE}`,
      [after],
    );
    const last = accounts.at(-1);
    if (last === undefined) return;
    after = last.id;
    for (const { id, hasMessages, hasChanges } of accounts) {
      if (hasMessages) await changeAll(pool, MOVE_MESSAGES, id);
      if (hasChanges) await changeAll(pool, DELETE_CHANGES, id);
    }
  }
}

const selectBatch = (table: string): string =>
  `ctid = ANY (ARRAY(SELECT f.ctid FROM ${table} f WHERE f.account_id = $1 AND ${isForeign('f.tx')}
                      ORDER BY f.tx, f.position LIMIT ${SWEEP_BATCH}))`;
const MOVE_MESSAGES = `UPDATE session_messages SET tx = '0' WHERE ${selectBatch('session_messages')}`;
/** Only readers that were disconnected need changes, and readers of another server must read everything again. */
const DELETE_CHANGES = `DELETE FROM session_changes WHERE ${selectBatch('session_changes')}`;

async function changeAll(pool: Pool, sql: string, accountId: string): Promise<void> {
  while ((await changeRows(pool, sql, [accountId])) > 0);
}
