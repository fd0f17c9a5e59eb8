/** Reminders of sessions: what is kept of them, and which are due. */
import type { Pool } from 'pg';
import { lockAccount } from '../accounts/accounts.ts';
import { throwQuotaProblem } from '../accounts/usage.ts';
import { isInShardsSql } from '../cluster/shards.ts';
import type { Page } from '../postgres/cursors.ts';
import { deleteOldRows } from '../postgres/old-rows.ts';
import { inTransaction } from '../postgres/pool.ts';
import {
  changeRows,
  findRow,
  findValue,
  listRows,
  type PageQuery,
  type Queryable,
  readPositionPage,
} from '../postgres/rows.ts';

/** How long a reminder that is over is kept, days. */
const OVER_KEPT_DAYS = 30;

type ReminderOutcome = 'delivered' | 'cancelled' | 'failed';
export interface ReminderFields {
  readonly text: string;
  readonly to: string;
  readonly zone: string;
  /** An RRULE without COUNT; null: once. */
  readonly repeat: string | null;
  readonly startsAt: string;
  /** Times that are left, the next included; null: no end. */
  readonly remaining: number | null;
}
export interface ReminderKey {
  readonly sessionId: string;
  readonly reminderId: string;
}
export interface ReminderRow extends ReminderFields {
  readonly id: string;
  readonly sessionId: string;
  readonly accountId: string;
  readonly digest: string;
  /** Null: it is over. */
  readonly nextAt: string | null;
  /** Number of the next time. */
  readonly occurrence: number;
  /** How often the next time was postponed: a required plugin did not run, the time after it was not computed, or an error came. */
  readonly attempts: number;
  readonly lastAt: string | null;
  readonly lastOutcome: ReminderOutcome | null;
  readonly createdAt: string;
  readonly position: string;
}

export interface DueReminder extends ReminderRow {
  /** The database's time of the search. */
  readonly foundAt: string;
}

const REMINDER = `id, session_id AS "sessionId", account_id AS "accountId", digest, text, recipient AS "to", zone, repeat,
  starts_at AS "startsAt", next_at AS "nextAt", remaining, occurrence, attempts, last_at AS "lastAt",
  last_outcome AS "lastOutcome", created_at AS "createdAt", position::text AS position`;

export const findReminder = (db: Queryable, { sessionId, reminderId }: ReminderKey): Promise<ReminderRow | null> =>
  findRow(db, `SELECT ${REMINDER} FROM reminders WHERE session_id = $1 AND id = $2`, [sessionId, reminderId]);

/** @returns null: the account has `maxReminders` reminders that are not over, or the session was deleted @throws Problem `quota_exceeded` */
export const insertReminder = (
  pool: Pool,
  { sessionId, reminderId }: ReminderKey,
  { text, to, zone, repeat, startsAt, remaining }: ReminderFields,
  { digest, maxReminders }: { readonly digest: string; readonly maxReminders: number },
): Promise<ReminderRow | null> =>
  inTransaction(pool, async (tx) => {
    const accountId = await findValue<string>(tx, 'SELECT account_id FROM sessions WHERE id = $1', [sessionId]);
    if (accountId === null) return null;
    await lockAccount(tx, accountId);
    return findRow<ReminderRow>(
      tx,
      `INSERT INTO reminders (session_id, id, account_id, digest, text, recipient, zone, repeat, starts_at, next_at, due_at, remaining)
       SELECT s.id, $2, s.account_id, $3, $4, $5, $6, $7, $8, $8, $8, $9
         FROM (SELECT id, account_id FROM sessions WHERE id = $1 FOR KEY SHARE) s
        WHERE (SELECT count(*) FROM reminders r WHERE r.account_id = s.account_id AND r.next_at IS NOT NULL) < $10
       ON CONFLICT DO NOTHING RETURNING ${REMINDER}`,
      [sessionId, reminderId, digest, text, to, zone, repeat, startsAt, remaining, maxReminders],
    );
  }).catch(throwQuotaProblem);

export const deleteReminder = async (pool: Pool, { sessionId, reminderId }: ReminderKey): Promise<boolean> =>
  (await changeRows(pool, 'DELETE FROM reminders WHERE session_id = $1 AND id = $2', [sessionId, reminderId])) > 0;

const boundedReminders = (isWanted: string) => ({
  columns: REMINDER,
  table: 'r',
  rows: `SELECT *, stored_bytes AS bytes FROM reminders
      WHERE ${isWanted} AND reminders.position > $2 ORDER BY reminders.position LIMIT $3`,
});

/** Oldest first, those included that are over. */
export const pageReminders = (
  pool: Pool,
  { sessionId, ...query }: PageQuery & { readonly sessionId: string },
): Promise<Page<ReminderRow>> =>
  readPositionPage<ReminderRow>(pool, boundedReminders('session_id = $1'), [sessionId], query);

/** The coming reminders of an account, oldest first. */
export const pageComingReminders = (
  pool: Pool,
  { accountId, ...query }: PageQuery & { readonly accountId: string },
): Promise<Page<ReminderRow>> =>
  readPositionPage<ReminderRow>(pool, boundedReminders('account_id = $1 AND next_at IS NOT NULL'), [accountId], query);

/** No plugin of a suspended account runs, so none could judge its reminders: they wait. */
const IS_ACTIVE = `NOT EXISTS (SELECT 1 FROM accounts a WHERE a.id = r.account_id AND a.suspended_reason IS NOT NULL)`;

interface DueQuery {
  readonly shards: readonly number[] | null;
  /** Accounts without those that are asked for. */
  readonly leftOut: readonly string[];
  /** Maximum number of each account. */
  readonly perAccount: number;
  readonly limit: number;
}

/** Oldest first. */
export const listDueReminders = (
  pool: Pool,
  { shards, leftOut, perAccount, limit }: DueQuery,
): Promise<DueReminder[]> =>
  listRows(
    pool,
    `SELECT ${REMINDER}, now() AS "foundAt" FROM (
       SELECT r.*, row_number() OVER (PARTITION BY account_id ORDER BY due_at, position) AS n FROM reminders r
        WHERE due_at <= now() AND ${isInShardsSql('account_id', '$1')} AND account_id <> ALL ($2::text[])
          AND ${IS_ACTIVE}) reminders
      WHERE n <= $3 ORDER BY due_at, reminders.position LIMIT $4`,
    [shards, leftOut, perAccount, limit],
  );

interface NextTime {
  /** Null: it is over. */
  readonly nextAt: string | null;
  readonly remaining: number | null;
  readonly outcome: ReminderOutcome;
}

/** Names one time of a reminder. A later reminder may have the same id, but never the same position. */
type ReminderTime = Pick<ReminderRow, 'sessionId' | 'id' | 'position' | 'occurrence'>;
const IS_TIME = 'session_id = $1 AND id = $2 AND position = $3 AND occurrence = $4';

/** Ends a time of a reminder. False: it has ended already, was cancelled, or its account was suspended. */
export const advanceReminder = async (
  tx: Queryable,
  { sessionId, id, position, occurrence }: ReminderTime,
  { nextAt, remaining, outcome }: NextTime,
): Promise<boolean> =>
  (await changeRows(
    tx,
    // The session is locked before its reminder, as by its deletion: the caller may add a message to it.
    `WITH session AS MATERIALIZED (SELECT 1 FROM sessions WHERE id = $1 FOR KEY SHARE)
     UPDATE reminders r SET next_at = $5, due_at = $5, remaining = $6, last_outcome = $7, last_at = now(),
            occurrence = occurrence + 1, attempts = 0
       FROM session WHERE ${IS_TIME} AND ${IS_ACTIVE}`,
    [sessionId, id, position, occurrence, nextAt, remaining, outcome],
  )) > 0;

/** Tries the same time again later. */
export async function postponeReminder(
  tx: Queryable,
  { sessionId, id, position, occurrence }: ReminderTime,
  seconds: number,
): Promise<void> {
  await tx.query(
    `UPDATE reminders SET attempts = attempts + 1, due_at = now() + make_interval(secs => $5) WHERE ${IS_TIME}`,
    [sessionId, id, position, occurrence, seconds],
  );
}

/** Delays due reminders: a supervisor that does not know yet that plugins run again would deliver them unjudged. */
export const postponeDueReminders = (tx: Queryable, accountId: string, seconds: number): Promise<unknown> =>
  tx.query(
    'UPDATE reminders SET due_at = now() + make_interval(secs => $2) WHERE account_id = $1 AND due_at <= now()',
    [accountId, seconds],
  );

export const sweepReminders = (pool: Pool): Promise<void> =>
  deleteOldRows(pool, 'reminders', 'last_at', 'next_at IS NULL AND last_at < now() - make_interval(days => $1)', [
    OVER_KEPT_DAYS,
  ]);
