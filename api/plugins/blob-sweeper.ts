/**
 * Releases unused yanked versions, and removes files of killed publishes and unused blobs from disk: at start-up, every hour, and
 * after a deletion. Removes unused words of the catalog at start-up and every hour. Fills the words of plugins again at start-up.
 */
import type { Pool } from 'pg';
import { dropUsagePeriods } from '../../db/accounts/usage.ts';
import { refillPluginWords, sweepCatalogWords } from '../../db/catalog/catalog-words.ts';
import { releaseYankedVersions } from '../../db/catalog/versions.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import { SWEEP_GRACE_MS, sweepBlobs } from '../../db/files/unused-blobs.ts';
import { asService } from '../../db/postgres/shares.ts';
import { UPLOAD_MAX_MS } from '../package/upload.ts';

const EVERY_MS = 60 * 60_000;
/** Delay after a deletion, so that several share one sweep. Milliseconds. */
const AFTER_DELETE_MS = 10_000;
/** Minimum age of a staging directory that is removed: another API may still receive its upload, or build it. Milliseconds. */
const STAGING_MAX_AGE_MS = UPLOAD_MAX_MS + SWEEP_GRACE_MS;

interface BlobSweeper {
  /** Schedules a sweep soon after a deletion. */
  request(): void;
  /** Sweeps now. @returns how many blobs were removed; null when another process is sweeping */
  sweep(): Promise<number | null>;
  /** Stops after the running sweep. */
  close(): Promise<void>;
}
interface UpkeepDeps {
  readonly pool: Pool;
  readonly blobs: Blobs;
  onError(error: Error): void;
}

/** @param graceMs minimum age of a blob that is removed */
export function startBlobSweeper({ pool, blobs, onError }: UpkeepDeps, graceMs = SWEEP_GRACE_MS): BlobSweeper {
  let running: Promise<number | null> | null = null;
  let soon: NodeJS.Timeout | undefined;
  let areWordsDue = true;
  let isRefillDue = true;
  const removeUnused = async () => {
    const before = new Date(Date.now() - graceMs - EVERY_MS);
    await blobs.sweepStaging(STAGING_MAX_AGE_MS, Date.now());
    await releaseYankedVersions(pool, null);
    let removed: number | null = 0;
    try {
      removed = await sweepBlobs(pool, blobs, graceMs);
    } finally {
      // All unused files of these hours are removed, but those that the store refuses to remove: an account cannot free these by waiting.
      if (removed !== null) await dropUsagePeriods(pool, 'blobs', before);
    }
    // Another process sweeps.
    if (removed === null) return null;
    if (areWordsDue) {
      // It looks at every word of the catalog, so deletions do not repeat it.
      areWordsDue = false;
      await sweepCatalogWords(pool);
    }
    // Only an upgrade changes how texts are split into words.
    if (isRefillDue) {
      await refillPluginWords(pool);
      isRefillDue = false;
    }
    return removed;
  };
  const sweep = () => {
    running ??= asService(removeUnused).finally(() => {
      running = null;
    });
    return running;
  };
  const tick = () => void sweep().catch(onError);
  const timer = setInterval(() => {
    areWordsDue = true;
    tick();
  }, EVERY_MS).unref();
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
