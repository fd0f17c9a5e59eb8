/** Changes of sessions other than messages, for the readers of their stream. */
import type { Pool } from 'pg';
import { LONG_SWEEP_STATEMENTS } from '../postgres/old-rows.ts';
import { findRow, hasRow, type Queryable, SWEEP_BATCH } from '../postgres/rows.ts';

/** Notification channel of the stream; the payload is the account id. */
export const MESSAGES_ADDED = 'bulkhead_messages';
/** Name of the lock that readers of the account's stream share. */
export const nameStreamLock = (accountId: string): string => `session stream ${accountId}`;

/**
 * Condition: another session reads the account's stream. A notification wakes every process that listens to anything, and
 * most accounts have no reader. A writer that finds the lock free holds it until its messages are visible, so that a reader
 * who subscribes in the meantime waits for them. Another writer that finds the lock held notifies needlessly.
 */
export const hasStreamReaderSql = (accountId: string): string =>
  `NOT pg_try_advisory_xact_lock(hashtextextended('${nameStreamLock('')}' || ${accountId}, 0))`;

/** Notifies the readers of the account's stream of messages. `added` has the `account_id` of each new one. */
export const NOTIFY_READERS_SQL = `SELECT pg_notify('${MESSAGES_ADDED}', account_id)
  FROM (SELECT DISTINCT account_id FROM added) a WHERE ${hasStreamReaderSql('account_id')}`;

export type SessionChange = 'cleared' | 'deleted' | 'tools';

/**
 * Records that sessions were cleared, have other tools, or are about to be deleted, and notifies the readers of the account's
 * stream.
 */
export async function recordChanges(
  tx: Queryable,
  sessionIds: readonly string[],
  change: SessionChange,
): Promise<void> {
  await tx.query(
    `WITH added AS (
       INSERT INTO session_changes (account_id, session_id, agent_id, type)
       SELECT account_id, id, agent_id, $2 FROM sessions WHERE id = ANY ($1) RETURNING account_id)
     SELECT pg_notify($3, account_id) FROM (SELECT DISTINCT account_id FROM added) a`,
    [sessionIds, change, MESSAGES_ADDED],
  );
}

/** A reader that was away for longer may have missed changes. Hours. */
const CHANGES_KEPT_HOURS = 24;
/** Condition on a row's time. */
const isOld = (at: string): string => `${at} < now() - make_interval(hours => ${CHANGES_KEPT_HOURS})`;

/** Deletes those of a batch of old changes that are followed by another old one of their account. */
const SWEEP = `
  WITH batch AS MATERIALIZED (
    SELECT ctid AS place, account_id, tx, position, at FROM session_changes
     WHERE ${isOld('at')} AND at >= $1::timestamptz ORDER BY session_changes.at LIMIT ${SWEEP_BATCH}),
  deleted AS (
    DELETE FROM session_changes WHERE ctid = ANY (ARRAY(
      -- Looks at the next change only: a search for any later old change might read all the new ones.
      SELECT b.place FROM batch b WHERE (
        SELECT ${isOld('next.at')} FROM session_changes next
         WHERE next.account_id = b.account_id AND (next.tx, next.position) > (b.tx, b.position)
         ORDER BY next.tx, next.position LIMIT 1)))
    RETURNING 1)
  SELECT (SELECT count(*) FROM batch)::int AS read, (SELECT count(*) FROM deleted)::int AS deleted,
         (SELECT max(b.at) FROM batch b)::text AS until`;

/** Removes old changes, except the last one of each account: a reader that did not get that one may have missed the ones before it. */
export async function sweepChanges(pool: Pool): Promise<void> {
  // Each batch begins where the one before ended: those that stay, one for each account, are read once.
  let from = '-infinity';
  for (let statements = 0; statements < LONG_SWEEP_STATEMENTS; statements += 1) {
    const swept = await findRow<{ read: number; deleted: number; until: string | null }>(pool, SWEEP, [from]);
    if (!swept?.until || swept.read < SWEEP_BATCH) return;
    if (swept.deleted === 0 && swept.until === from) return;
    from = swept.until;
  }
}

/** Whether changes after a position of the stream may have been removed. */
export const hasLostChanges = (db: Queryable, accountId: string, tx: string, position: string): Promise<boolean> =>
  hasRow(
    db,
    `SELECT 1 FROM session_changes
      WHERE account_id = $1 AND (tx, position) > ($2::xid8, $3::bigint) AND ${isOld('at')} LIMIT 1`,
    [accountId, tx, position],
  );
