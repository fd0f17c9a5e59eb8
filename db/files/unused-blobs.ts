/** Sweeps unused blobs, in one process at a time. */
import type { Pool } from 'pg';
import { findUsedBlobs } from '../catalog/versions.ts';
import type { Blobs } from './blobs.ts';

/** Advisory lock of the process that sweeps. A backup takes it to prevent sweeps. */
export const SWEEP_LOCK = 'bulkhead blob sweep';
/** Far longer than a publish takes from its blobs to its version's row. Milliseconds. */
export const SWEEP_GRACE_MS = 60 * 60_000;

/**
 * Removes blobs that no row refers to.
 *
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
  // A session lock: Postgres releases it with the connection, however the process ends.
  const client = await pool.connect();
  let isBroken = true;
  let counted = 0;
  try {
    const { rows } = await client.query<{ acquired: boolean }>(
      'SELECT pg_try_advisory_lock(hashtext($1)) AS acquired',
      [SWEEP_LOCK],
    );
    const findUsed = async (names: readonly string[]) => {
      const used = await findUsedBlobs(client, names);
      counted += names.length - used.size;
      return isDryRun ? new Set(names) : used;
    };
    const removed = rows[0]?.acquired ? await blobs.sweepUnused(graceMs, Date.now(), findUsed) : null;
    await client.query('SELECT pg_advisory_unlock_all()');
    isBroken = false;
    return removed !== null && isDryRun ? counted : removed;
  } finally {
    client.release(isBroken);
  }
}
