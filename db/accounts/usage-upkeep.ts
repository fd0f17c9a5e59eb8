/** Keeps the sums of usage current, and removes the oldest records of accounts that are near a quota. */
import type { Pool } from 'pg';
import { SECOND } from '../../sdk/contract/limits.ts';
import type { UsageKind } from '../../sdk/contract/usage-kinds.ts';
import { inTransaction, type Transaction, tryNamedLock } from '../postgres/pool.ts';
import { changeRows, findValue, listRows } from '../postgres/rows.ts';
import { type AccountKind, foldUsage, RECOUNT_EVERY_MS, recountUsage } from './usage.ts';

/** Bounds the changes that a check must add up. Milliseconds. */
const FOLD_EVERY_MS = 2 * SECOND;
/** Interval of looking at all accounts. Milliseconds. */
const LOOK_AT_ALL_EVERY_MS = 300 * SECOND;
/** Shares of a quota: removing starts above the first and ends below the second, so that it runs seldom. */
const FULL_SHARE = 0.9;
const KEPT_SHARE = 0.8;
/** Rows removed by one statement: keeps its locks short. */
const BATCH = 2_000;

/** Removes about `excess` bytes of an account's oldest records, at most `BATCH` rows. @returns removed rows; 0: it has no such records */
type Remove = (tx: Transaction, accountId: string, excess: number) => Promise<number>;
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
  audit: [removeOldest('audit', 'audit', '1 day'), removeFirst('account_actions', HAS_NO_HOST_CALLS, 'id')],
};

/** Any number of processes may run it. @returns stops it, without waiting for the running turn: the next process repeats it */
export function startUsageUpkeep(pool: Pool, onError: (error: Error) => void): () => void {
  let isRunning = false;
  let isStopped = false;
  let isRecountDue = false;
  // The quotas may be lower than those of the process before.
  let full: readonly AccountKind[] | null = null;
  const report = (error: Error) => {
    if (!isStopped) onError(error);
  };
  const recount = async () => {
    // A failed one waits for the next time, because it reads all rows.
    isRecountDue = false;
    isRecountDue = !(await recountUsage(pool));
    // It applied changes that no fold reports.
    if (!isRecountDue) full = null;
  };
  const maintain = async () => {
    const among = full;
    // In case it fails after the fold, whose changes no later fold reports.
    full = null;
    full = await maintainUsage(pool, among, report);
  };
  const tick = async () => {
    if (isRunning) return;
    isRunning = true;
    await (isRecountDue ? recount() : maintain()).catch(report);
    isRunning = false;
  };
  const timers = [
    setInterval(tick, FOLD_EVERY_MS).unref(),
    // An account that another process knew to be full, which has ended since.
    setInterval(() => {
      full = null;
    }, LOOK_AT_ALL_EVERY_MS).unref(),
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

/**
 * One turn: folds, then removes where a quota is full.
 *
 * @param among looks at these besides those that changed; null: at all accounts
 * @param onError receives the error of an account; the turn continues with the next one
 * @returns those that were full. The next turn must look at them again: their pending records may finish, which changes no sum
 */
export async function maintainUsage(
  pool: Pool,
  among: readonly AccountKind[] | null = null,
  onError = (error: Error): void => {
    throw error;
  },
): Promise<AccountKind[]> {
  const changed = (await foldUsage(pool)).filter(({ kind }) => kind in REMOVALS);
  const full = await findFull(pool, [...changed, ...(among ?? (await listOverSums(pool)))]);
  for (const each of full) await removeExcess(pool, each).catch(onError);
  return full;
}

/** Of all accounts: those whose sums, without the changes, are near a quota. */
const listOverSums = (pool: Pool): Promise<AccountKind[]> =>
  listRows(
    pool,
    `SELECT u.account_id AS "accountId", kind FROM account_usage u JOIN usage_limits l USING (kind)
      WHERE kind = ANY ($1) GROUP BY u.account_id, kind, l.bytes HAVING sum(u.bytes) > l.bytes * ${FULL_SHARE}::float8`,
    [Object.keys(REMOVALS)],
  );

async function findFull(pool: Pool, among: readonly AccountKind[]): Promise<AccountKind[]> {
  if (among.length === 0) return [];
  return listRows(
    pool,
    `SELECT account_id AS "accountId", kind
       FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS g(account_id, kind)) g JOIN usage_limits l USING (kind)
      WHERE usage_bytes(account_id, kind) > bytes * ${FULL_SHARE}::float8`,
    [among.map(({ accountId }) => accountId), among.map(({ kind }) => kind)],
  );
}

async function removeExcess(pool: Pool, full: AccountKind): Promise<void> {
  for (const remove of REMOVALS[full.kind] ?? [])
    for (let removed: number | null = 1; removed !== 0; ) {
      removed = await removeBatch(pool, full, remove);
      if (removed === null) return;
    }
}

/** @returns removed rows; null: another process removes those of this account now, and together they would remove too much */
function removeBatch(pool: Pool, { accountId, kind }: AccountKind, remove: Remove): Promise<number | null> {
  return inTransaction(pool, async (tx) => {
    if (!(await tryNamedLock(tx, `remove ${kind} ${accountId}`))) return null;
    const excess = await findValue<number>(
      tx,
      `SELECT ceil(usage_bytes($1, kind) - bytes * ${KEPT_SHARE}::float8) FROM usage_limits WHERE kind = $2`,
      [accountId, kind],
    );
    return excess !== null && excess > 0 ? remove(tx, accountId, excess) : 0;
  });
}

function removeFinished(table: 'deliveries' | 'events', state: 'delivered' | 'skipped' | 'dead'): Remove {
  return removeFirst(table, `state = '${state}'`, 'finished_at');
}

/** Removes the first rows, in the order of a column. */
function removeFirst(table: 'deliveries' | 'events' | 'account_actions', condition: string, order: string): Remove {
  const statement = deleteOldestSql(table, condition, order);
  return (tx, accountId, excess) => changeRows(tx, statement, [accountId, excess]);
}

/** Removes from the account's oldest partition, because an index sorts the rows of one partition only. */
function removeOldest(table: 'plugin_logs' | 'audit', kind: UsageKind, width: '1 hour' | '1 day'): Remove {
  const statement = deleteOldestSql(
    table,
    `at >= $3::timestamptz AND at < $3::timestamptz + interval '${width}'`,
    'id',
  );
  return async (tx, accountId, excess) => {
    const oldest = await findValue(
      tx,
      `SELECT period FROM ${COUNTED}
        WHERE account_id = $1 AND kind = $2 AND period > '-infinity' GROUP BY period HAVING sum(bytes) > 0
        ORDER BY period LIMIT 1`,
      [accountId, kind],
    );
    return changeRows(tx, statement, [accountId, excess, oldest]);
  };
}

/**
 * Deletes the first rows of the account $1 that have $2 bytes together, at most `BATCH`. By their ctid,
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
    WHERE ${isOfAccount} AND ctid = ANY (ARRAY(SELECT place FROM summed WHERE before < $2))`;
}
