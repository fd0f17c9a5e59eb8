/** Sweeps unused blobs, in one process at a time. */
import type { Pool } from 'pg';
import { findUsedBlobs } from '../catalog/versions.ts';
import { inTransaction } from '../postgres/pool.ts';
import { findValue } from '../postgres/rows.ts';
import type { Blobs } from './blobs.ts';

/** Advisory lock of the process that sweeps. A backup takes it to prevent sweeps. Behind a pooler, only a transaction holds one. */
export const SWEEP_LOCK = 'bulkhead blob sweep';
/** Far longer than a publish takes from its blobs to its version's row. Milliseconds. */
export const SWEEP_GRACE_MS = 60 * 60_000;

/**
 * @param graceMs spares younger blobs
 * @param isDryRun only counts them
 * @returns how many; null when another process is sweeping
 */
export async function sweepBlobs(
  pool: Pool,
  blobs: Blobs,
  graceMs: number = SWEEP_GRACE_MS,
  isDryRun = false,
): Promise<number | null> {
  let counted = 0;
  const removed = await inTransaction(pool, async (tx) => {
    // Removing files or objects may take longer between two statements.
    await tx.query('SET LOCAL idle_in_transaction_session_timeout = 0');
    const isLocked = await findValue<boolean>(tx, 'SELECT pg_try_advisory_xact_lock(hashtext($1))', [SWEEP_LOCK]);
    const findUsed = async (names: readonly string[]) => {
      const used = await findUsedBlobs(tx, names);
      counted += names.length - used.size;
      return isDryRun ? new Set(names) : used;
    };
    return isLocked ? blobs.sweepUnused(graceMs, Date.now(), findUsed) : null;
  });
  return removed !== null && isDryRun ? counted : removed;
}
