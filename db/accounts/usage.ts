/** The bytes that accounts keep, by kind. Triggers count the rows; the functions here count files and read the sums. */
import type { Pool } from 'pg';
import { Problem } from '../../sdk/contract/errors.ts';
import { SECOND } from '../../sdk/contract/limits.ts';
import { USAGE_KINDS, type UsageKind, usageKinds } from '../../sdk/contract/usage-kinds.ts';
import { readExceededQuota } from '../postgres/database-errors.ts';
import { inLockedTransaction, inTransaction, tryNamedLock } from '../postgres/pool.ts';
import { findRow, listRows, type Queryable } from '../postgres/rows.ts';

export interface Usage {
  readonly kind: UsageKind;
  readonly usedBytes: number;
  /** Null: no quota. */
  readonly limitBytes: number | null;
}
/** Counted by the writers of files; recounting the tables leaves them as they are. */
const FILE_KINDS: readonly UsageKind[] = ['blobs', 'workspaces'];
/** Between two recounts, and the time limit of one: it reads all rows. Milliseconds. */
export const RECOUNT_EVERY_MS = 24 * 3_600 * SECOND;
/** Held by statements that change several sums, which would deadlock otherwise. */
const SUMS_LOCK = 'account usage';

/** All kinds, in the order of their declaration. */
export const readUsage = (pool: Queryable, accountId: string): Promise<Usage[]> =>
  listRows(
    pool,
    `SELECT k.kind, usage_bytes($1, k.kind)::float8 AS "usedBytes", l.bytes::float8 AS "limitBytes"
       FROM unnest($2::text[]) WITH ORDINALITY AS k(kind, at) LEFT JOIN usage_limits l USING (kind) ORDER BY k.at`,
    [accountId, USAGE_KINDS],
  );

async function readKind(pool: Queryable, accountId: string, kind: UsageKind): Promise<Usage> {
  const found = await findRow<Omit<Usage, 'kind'>>(
    pool,
    `SELECT usage_bytes($1, $2)::float8 AS "usedBytes",
            (SELECT bytes FROM usage_limits WHERE kind = $2)::float8 AS "limitBytes"`,
    [accountId, kind],
  );
  return { kind, usedBytes: 0, limitBytes: null, ...found };
}

/** @throws Problem `quota_exceeded` when the account has no room for so many more bytes */
export async function requireRoom(pool: Queryable, accountId: string, kind: UsageKind, bytes: number): Promise<void> {
  const { usedBytes, limitBytes } = await readKind(pool, accountId, kind);
  if (limitBytes !== null && usedBytes + bytes > limitBytes)
    throw quotaProblem({ kind, usedBytes: usedBytes + bytes, limitBytes });
}

/** Bytes that the account may still keep; infinite without a quota. */
export async function readRoom(pool: Queryable, accountId: string, kind: UsageKind): Promise<number> {
  const { usedBytes, limitBytes } = await readKind(pool, accountId, kind);
  return limitBytes === null ? Number.POSITIVE_INFINITY : limitBytes - usedBytes;
}

/** Turns the error of a trigger that found a quota exceeded into a problem; throws others as they are. */
export function throwQuotaProblem(error: unknown): never {
  const exceeded = readExceededQuota(error);
  throw exceeded ? quotaProblem(exceeded as ExceededQuota) : error;
}

interface ExceededQuota {
  readonly kind: UsageKind;
  /** Bytes in use, including the refused ones. */
  readonly usedBytes: number;
  readonly limitBytes: number;
}

function quotaProblem({ kind, usedBytes, limitBytes }: ExceededQuota): Problem {
  const sizes = `${usedBytes} of ${limitBytes} bytes`;
  return new Problem('quota_exceeded', `Quota exceeded: ${kind} would take ${sizes}. ${usageKinds[kind].free}`, {
    errors: [{ field: kind, message: sizes }],
  });
}

/**
 * Counts files before they are written to the blob store. They count until `dropUsagePeriods`, because unused ones stay on
 * disk for a while.
 *
 * @throws Problem `quota_exceeded`
 */
export async function addBlobBytes(pool: Pool, accountId: string, bytes: number): Promise<void> {
  await requireRoom(pool, accountId, 'blobs', bytes);
  await pool.query(
    `INSERT INTO account_usage_changes (account_id, kind, period, bytes)
     VALUES ($1, 'blobs', date_trunc('hour', now(), 'UTC'), $2)`,
    [accountId, bytes],
  );
}

/** Records the measured size of an account's workspace. */
export async function setWorkspaceBytes(pool: Pool, accountId: string, bytes: number): Promise<void> {
  await pool.query(
    `INSERT INTO account_usage (account_id, kind, bytes) VALUES ($1, 'workspaces', $2)
     ON CONFLICT (account_id, kind, period) DO UPDATE SET bytes = excluded.bytes`,
    [accountId, bytes],
  );
}

/** Gives back what was counted in the periods before `before`, whose rows or files are removed. */
export async function dropUsagePeriods(pool: Pool, kind: UsageKind, before: Date): Promise<void> {
  await inLockedTransaction(pool, SUMS_LOCK, async (tx) => {
    for (const table of ['account_usage', 'account_usage_changes'])
      await tx.query(`DELETE FROM ${table} WHERE kind = $1 AND period > '-infinity' AND period < $2`, [kind, before]);
  });
}

/** Replaces the quotas. Applies to every process. */
export async function saveUsageLimits(pool: Pool, limits: Readonly<Partial<Record<UsageKind, number>>>): Promise<void> {
  await pool.query(
    `WITH given AS (SELECT * FROM unnest($1::text[], $2::bigint[]) AS g(kind, bytes)),
     removed AS (DELETE FROM usage_limits WHERE kind NOT IN (SELECT kind FROM given))
     INSERT INTO usage_limits SELECT * FROM given ORDER BY kind ON CONFLICT (kind) DO UPDATE SET bytes = excluded.bytes`,
    [Object.keys(limits), Object.values(limits)],
  );
}

export interface AccountKind {
  readonly accountId: string;
  readonly kind: UsageKind;
}

/** Moves all changes to the sums, unless another process changes sums now: a recount takes minutes. @returns the sums that changed */
export function foldUsage(pool: Pool): Promise<AccountKind[]> {
  return inTransaction(pool, async (tx) => {
    if (!(await tryNamedLock(tx, SUMS_LOCK))) return [];
    return listRows<AccountKind>(
      tx,
      `WITH moved AS (DELETE FROM account_usage_changes RETURNING account_id, kind, period, bytes),
       folded AS (
         INSERT INTO account_usage SELECT account_id, kind, period, sum(bytes) FROM moved GROUP BY 1, 2, 3
         ON CONFLICT (account_id, kind, period) DO UPDATE SET bytes = account_usage.bytes + excluded.bytes
         RETURNING account_id, kind)
       SELECT DISTINCT account_id AS "accountId", kind FROM folded`,
    );
  });
}

/**
 * Counts all rows again and replaces the sums that are wrong. The others stay as they are: while a transaction writes, the session
 * streams of all accounts wait for it. Writers continue: one statement sees the rows and the changes of the same
 * transactions, so a change that commits meanwhile still waits for the next fold.
 *
 * @returns false: another process changes sums now
 */
export async function recountUsage(pool: Pool): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    if (!(await tryNamedLock(tx, SUMS_LOCK))) return false;
    await tx.query('SET LOCAL statement_timeout = 0');
    const recount = {
      text: `WITH counted AS (
         SELECT account_id, kind, period, sum(stored_bytes) AS bytes FROM stored_rows
          WHERE account_id IS NOT NULL GROUP BY 1, 2, 3),
       applied AS (DELETE FROM account_usage_changes WHERE kind <> ALL ($1))
       INSERT INTO account_usage
         SELECT account_id, kind, period, coalesce(c.bytes, 0) FROM counted c
           FULL JOIN (SELECT account_id, kind, period, bytes FROM account_usage WHERE kind <> ALL ($1)) u
             USING (account_id, kind, period)
          WHERE coalesce(c.bytes, 0) IS DISTINCT FROM u.bytes
       ON CONFLICT (account_id, kind, period) DO UPDATE SET bytes = excluded.bytes`,
      values: [FILE_KINDS],
      query_timeout: RECOUNT_EVERY_MS,
    };
    await tx.query(recount);
    return true;
  });
}
