/** Which supervisor is alive: each holds an advisory lock of its own number, and Postgres frees it when the process dies. */
import { randomInt } from 'node:crypto';

/** Tells these locks from any others on the server: the first half of the two-part key. */
const LEASE_CLASS = 0x62756c6b;
const LARGEST_INT4 = 2 ** 31 - 1;

/** A number for one run of one supervisor. Random, so that a restarted one never inherits its dead self's claims. */
export function createLeaseId(): number {
  return randomInt(1, LARGEST_INT4);
}

/** Takes the lock; to be run on the connection whose life is the lease’s. Shared: a reconnect never waits for itself. */
export const holdLeaseSql = (lease: number): string =>
  `SELECT pg_advisory_lock_shared(${LEASE_CLASS}, ${Math.trunc(lease)})`;

/** SQL: whether the claim in this column is held by a living supervisor. Null is held by nobody. */
export const isLeaseHeldSql = (column: string): string => `EXISTS (
  SELECT 1 FROM pg_locks
   WHERE locktype = 'advisory' AND classid = ${LEASE_CLASS} AND objsubid = 2 AND granted
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
     AND objid::bigint = ${column})`;
