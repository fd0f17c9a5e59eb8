/** Keeps the sums of usage current, and removes the oldest records of accounts that are near a quota. */
import type { Pool } from 'pg';
import { SECOND } from '../../sdk/contract/limits.ts';
import type { UsageKind } from '../../sdk/contract/usage-kinds.ts';
import { findValue, listRows, listValues } from '../postgres/rows.ts';
import { type AccountKind, foldUsage, RECOUNT_EVERY_MS, recountUsage } from './usage.ts';

/** Bounds the changes that a check must add up. Milliseconds. */
const FOLD_EVERY_MS = 2 * SECOND;
/** Shares of a quota: removing starts above the first and ends below the second, so that it runs seldom. */
const FULL_SHARE = 0.9;
const KEPT_SHARE = 0.8;
/** Rows removed by one statement: keeps its locks short. */
const BATCH = 2_000;

/** Removes about `excess` bytes of an account's oldest records. @returns removed bytes; 0: there are none */
type Remove = (pool: Pool, accountId: string, excess: number) => Promise<number>;
/** With the changes, because what was just removed is not in the sums yet. */
const COUNTED = '(TABLE account_usage UNION ALL TABLE account_usage_changes) counted';
/** Actions matter more than host calls, so they are removed last, also where a sum has bytes whose rows are gone. */
const HAS_NO_HOST_CALLS = `coalesce((
  SELECT sum(bytes) FROM ${COUNTED} WHERE account_id = $1 AND kind = 'audit' AND period > '-infinity'), 0) <= 0`;
/** In the order of their use: each runs until it finds nothing. Pending records are never removed. */
const REMOVALS: Readonly<Partial<Record<UsageKind, readonly Remove[]>>> = {
  deliveries: [
    removeFinished('events', 'skipped'),
    removeFinished('events', 'delivered'),
    removeFinished('deliveries', 'delivered'),
    removeFinished('events', 'dead'),
    removeFinished('deliveries', 'dead'),
  ],
  logs: [removeOldest('plugin_logs', 'logs', '1 hour')],
  audit: [removeOldest('audit', 'audit', '1 day'), removeBatch('account_actions', HAS_NO_HOST_CALLS, 'id')],
};

/** Any number of processes may run it. @returns stops it, without waiting for the running turn: the next process repeats it */
export function startUsageUpkeep(pool: Pool, onError: (error: Error) => void): () => void {
  let isRunning = false;
  let isStopped = false;
  let isRecountDue = false;
  const recount = async () => {
    // A failed one waits for the next time, because it reads all rows.
    isRecountDue = false;
    isRecountDue = !(await recountUsage(pool));
  };
  const tick = async () => {
    if (isRunning) return;
    isRunning = true;
    await (isRecountDue ? recount() : maintainUsage(pool)).catch((error: Error) => isStopped || onError(error));
    isRunning = false;
  };
  const timers = [
    setInterval(tick, FOLD_EVERY_MS).unref(),
    // Heals sums that an operator's statement or a dropped partition left behind.
    setInterval(() => {
      isRecountDue = true;
    }, RECOUNT_EVERY_MS).unref(),
  ];
  return () => {
    isStopped = true;
    timers.forEach(clearInterval);
  };
}

/** One turn: folds, then removes where that filled a quota. */
export async function maintainUsage(pool: Pool): Promise<void> {
  const changed = (await foldUsage(pool)).filter(({ kind }) => kind in REMOVALS);
  for (const full of await findFull(pool, changed)) await removeExcess(pool, full);
}

interface Full extends AccountKind {
  readonly excess: number;
}

async function findFull(pool: Pool, among: readonly AccountKind[]): Promise<Full[]> {
  if (among.length === 0) return [];
  return listRows(
    pool,
    `SELECT account_id AS "accountId", kind, ceil(used - bytes * ${KEPT_SHARE}::float8) AS excess
       FROM (SELECT account_id, kind, l.bytes, usage_bytes(account_id, kind) AS used
               FROM unnest($1::text[], $2::text[]) AS g(account_id, kind) JOIN usage_limits l USING (kind)) counted
      WHERE used > bytes * ${FULL_SHARE}::float8`,
    [among.map(({ accountId }) => accountId), among.map(({ kind }) => kind)],
  );
}

async function removeExcess(pool: Pool, { accountId, kind, excess }: Full): Promise<void> {
  let left = excess;
  for (const remove of REMOVALS[kind] ?? []) {
    for (let removed = 1; left > 0 && removed > 0; left -= removed) removed = await remove(pool, accountId, left);
  }
}

function removeFinished(table: 'deliveries' | 'events', state: 'delivered' | 'skipped' | 'dead'): Remove {
  return removeBatch(table, `state = '${state}'`, 'finished_at');
}

/** Removes the first rows, in the order of a column. */
function removeBatch(table: 'deliveries' | 'events' | 'account_actions', condition: string, order: string): Remove {
  const statement = deleteOldestSql(table, condition, order);
  return (pool, accountId, excess) => removeRows(pool, statement, [accountId, excess]);
}

/** Removes from the account's oldest partition, because an index sorts the rows of one partition only. */
function removeOldest(table: 'plugin_logs' | 'audit', kind: UsageKind, width: '1 hour' | '1 day'): Remove {
  const statement = deleteOldestSql(
    table,
    `at >= $3::timestamptz AND at < $3::timestamptz + interval '${width}'`,
    'id',
  );
  return async (pool, accountId, excess) => {
    const oldest = await findValue(
      pool,
      `SELECT period FROM ${COUNTED}
        WHERE account_id = $1 AND kind = $2 AND period > '-infinity' GROUP BY period HAVING sum(bytes) > 0
        ORDER BY period LIMIT 1`,
      [accountId, kind],
    );
    return removeRows(pool, statement, [accountId, excess, oldest]);
  };
}

/**
 * Deletes the first rows of the account $1 that have $2 bytes together, at most `BATCH`. Returns the bytes of each. By their ctid,
 * because PostgreSQL might read the whole table to join the rows by their ids.
 *
 * @param condition selects rows of one partition only: in another one, other rows have the same ctid
 * @param order a column that an index sorts for each account
 */
function deleteOldestSql(table: string, condition: string, order: string): string {
  const isOfAccount = `account_id = $1 AND ${condition}`;
  return `WITH oldest AS (
     SELECT ctid AS place, id, stored_bytes, ${order} AS sorted_by FROM ${table} WHERE ${isOfAccount}
      ORDER BY ${order} LIMIT ${BATCH} FOR UPDATE SKIP LOCKED),
   summed AS (SELECT place, sum(stored_bytes) OVER (ORDER BY sorted_by, id) - stored_bytes AS before FROM oldest)
   DELETE FROM ${table}
    WHERE ${isOfAccount} AND ctid = ANY (ARRAY(SELECT place FROM summed WHERE before < $2)) RETURNING stored_bytes`;
}

async function removeRows(pool: Pool, statement: string, values: unknown[]): Promise<number> {
  const removed = await listValues<number>(pool, statement, values);
  return removed.reduce((sum, bytes) => sum + bytes, 0);
}
