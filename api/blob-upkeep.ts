/** Removes from disk what no version names any more: at start-up, every hour, and after something was deleted. */
import type { Pool } from 'pg';
import type { Blobs } from '../db/blobs.ts';
import { findUsedBlobs } from '../db/versions.ts';

/** A publish keeps its files minutes before its version names them, at most. Milliseconds. */
const GRACE_MS = 60 * 60_000;
const EVERY_MS = 60 * 60_000;
/** Deletes come in groups. Milliseconds. */
const AFTER_DELETE_MS = 10_000;
/** Held by the one process that sweeps; any number of them may share the folder. */
const LOCK = 'bulkhead blob sweep';

export interface BlobUpkeep {
  /** Something was deleted: there may be something to remove soon. */
  request(): void;
  /** Sweeps now. @returns how many blobs were removed; null when another process is at it */
  sweep(): Promise<number | null>;
  /** Ends it after the sweep under way. */
  close(): Promise<void>;
}
export interface UpkeepDeps {
  readonly pool: Pool;
  readonly blobs: Blobs;
  onError(error: Error): void;
}

/** @param graceMs how long a blob that nothing names is spared */
export function openBlobUpkeep({ pool, blobs, onError }: UpkeepDeps, graceMs = GRACE_MS): BlobUpkeep {
  let running: Promise<number | null> | null = null;
  let soon: NodeJS.Timeout | undefined;
  const sweep = () => {
    running ??= sweepLocked(pool, blobs, graceMs).finally(() => {
      running = null;
    });
    return running;
  };
  const tick = () => void sweep().catch(onError);
  const timer = setInterval(tick, EVERY_MS).unref();
  return {
    sweep,
    request() {
      clearTimeout(soon);
      soon = setTimeout(tick, AFTER_DELETE_MS).unref();
    },
    async close() {
      clearInterval(timer);
      clearTimeout(soon);
      await running?.catch(() => undefined);
    },
  };
}

/** A lock of the session: it goes with the connection, however the process ends. */
async function sweepLocked(pool: Pool, blobs: Blobs, graceMs: number): Promise<number | null> {
  const client = await pool.connect();
  let broken = true;
  try {
    const { rows } = await client.query<{ ours: boolean }>('SELECT pg_try_advisory_lock(hashtext($1)) AS ours', [LOCK]);
    const removed = rows[0]?.ours
      ? await blobs.sweepUnused(graceMs, Date.now(), (names) => findUsedBlobs(client, names))
      : null;
    await client.query('SELECT pg_advisory_unlock_all()');
    broken = false;
    return removed;
  } finally {
    client.release(broken);
  }
}
