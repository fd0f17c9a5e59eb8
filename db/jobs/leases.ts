/** Supervisor leases: each supervisor holds an advisory lock on its lease id; Postgres releases it when the process dies. */
import { randomInt } from 'node:crypto';
import type { Queryable } from '../postgres/rows.ts';

/** First half of the two-part lock key: separates these locks from all others. */
const LEASE_CLASS = 0x62756c6b;
const LARGEST_INT4 = 2 ** 31 - 1;

/** Random, so that a restarted supervisor does not inherit the claims of its predecessor. */
export function createLeaseId(): number {
  return randomInt(1, LARGEST_INT4);
}

/** Run on the connection whose lifetime is the lease's. Shared, so that a reconnect does not wait for the old connection. */
export const holdLeaseSql = (lease: number): string =>
  `SELECT pg_advisory_lock_shared(${LEASE_CLASS}, ${Math.trunc(lease)})`;

/** The end of a query for the locks of running supervisors. */
const HELD_LEASES = `FROM pg_locks
   WHERE locktype = 'advisory' AND classid = ${LEASE_CLASS} AND objsubid = 2 AND granted
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

/** Condition: the lease id in this column belongs to a running supervisor. False for NULL. */
export const isLeaseHeldSql = (column: string): string =>
  `EXISTS (SELECT 1 ${HELD_LEASES} AND objid::bigint = ${column})`;

/** The PostgreSQL process of the supervisor that holds the lease id in this column. Null: none does. */
export const selectLeaseHolderSql = (column: string): string =>
  `SELECT pid ${HELD_LEASES} AND objid::bigint = ${column} LIMIT 1`;

export async function isSupervisorRunning(db: Queryable): Promise<boolean> {
  const found = await db.query(`SELECT 1 ${HELD_LEASES} LIMIT 1`);
  return found.rows.length > 0;
}
