/** Which blobs something names, and the one sweep at a time that removes the others. */
import type { Pool } from 'pg';
import { findUsedBlobs } from '../catalog/versions.ts';
import type { Blobs } from './blobs.ts';

/** Held by the one process that sweeps; any number of them may share the folder. A backup holds it so that none does. */
export const SWEEP_LOCK = 'bulkhead blob sweep';
/** A publish keeps its files minutes before its version names them, at most. Milliseconds. */
export const SWEEP_GRACE_MS = 60 * 60_000;

/**
 * Removes the blobs that nothing names.
 *
 * @param graceMs how long one that nothing names is spared
 * @param isTrial only counts them
 * @returns how many; null when another process is at it
 */
export async function sweepBlobs(
  pool: Pool,
  blobs: Blobs,
  graceMs: number = SWEEP_GRACE_MS,
  isTrial = false,
): Promise<number | null> {
  // A lock of the session: it goes with the connection, however the process ends.
  const client = await pool.connect();
  let broken = true;
  let counted = 0;
  try {
    const { rows } = await client.query<{ ours: boolean }>('SELECT pg_try_advisory_lock(hashtext($1)) AS ours', [
      SWEEP_LOCK,
    ]);
    const findUsed = async (names: readonly string[]) => {
      const used = await findUsedBlobs(client, names);
      counted += names.length - used.size;
      return isTrial ? new Set(names) : used;
    };
    const removed = rows[0]?.ours ? await blobs.sweepUnused(graceMs, Date.now(), findUsed) : null;
    await client.query('SELECT pg_advisory_unlock_all()');
    broken = false;
    return removed !== null && isTrial ? counted : removed;
  } finally {
    client.release(broken);
  }
}
