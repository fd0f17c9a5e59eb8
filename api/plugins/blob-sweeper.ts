/**
 * Releases unused yanked versions, and removes files of killed publishes and unused blobs from disk: at start-up, every hour, and
 * after a deletion. Removes unused words of the catalog at start-up and every hour. Fills the words of plugins again at start-up.
 */
import type { Pool } from 'pg';
import { dropUsagePeriods } from '../../db/accounts/usage.ts';
import { refillPluginWords, sweepCatalogWords } from '../../db/catalog/catalog-words.ts';
import { releaseYankedVersions } from '../../db/catalog/versions.ts';
import { IncompleteSweepError } from '../../db/files/blob-errors.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import { SWEEP_GRACE_MS, sweepBlobs } from '../../db/files/unused-blobs.ts';
import { asService } from '../../db/postgres/shares.ts';
import { UPLOAD_MAX_MS } from '../package/upload.ts';

const EVERY_MS = 60 * 60_000;
/** Delay after a deletion, so that several share one sweep. Milliseconds. */
export const AFTER_DELETE_MS = 10_000;
/**
 * Time without a sweep after one, unless the hourly one is due: a sweep looks at every blob of the service, so an account must not cause
 * one after the other by deletions. Milliseconds.
 */
export const PAUSE_MS = 10 * 60_000;
/** Minimum age of a staging directory that is removed: another API may still receive its upload, or build it. Milliseconds. */
const STAGING_MAX_AGE_MS = UPLOAD_MAX_MS + SWEEP_GRACE_MS;

interface BlobSweeper {
  /** Schedules a sweep soon after a deletion, `PAUSE_MS` after the end of the last one at the earliest. */
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
  /** A monotonic clock, milliseconds. Default: `performance.now`. */
  now?(): number;
}

/** @param graceMs minimum age of a blob that is removed */
export function startBlobSweeper(
  { pool, blobs, onError, now = () => performance.now() }: UpkeepDeps,
  graceMs = SWEEP_GRACE_MS,
): BlobSweeper {
  let running: Promise<number | null> | null = null;
  let endedAt = Number.NEGATIVE_INFINITY;
  let soon: NodeJS.Timeout | undefined;
  let areWordsDue = true;
  let isRefillDue = true;
  const updateWords = async () => {
    if (areWordsDue) {
      // It looks at every word of the catalog, so deletions do not repeat it.
      areWordsDue = false;
      await sweepCatalogWords(pool);
    }
    // Only an upgrade changes how texts are split into words.
    if (!isRefillDue) return;
    await refillPluginWords(pool);
    isRefillDue = false;
  };
  const removeUnused = async () => {
    const before = new Date(Date.now() - graceMs - EVERY_MS);
    await blobs.sweepStaging(STAGING_MAX_AGE_MS, Date.now());
    await releaseYankedVersions(pool, null);
    const swept = await sweepBlobs(pool, blobs, graceMs).catch((error) => {
      if (error instanceof IncompleteSweepError) return error;
      throw error;
    });
    // Another process sweeps.
    if (swept === null) return null;
    // All unused files of these hours are removed, but those that the store refuses to remove: waiting does not free these.
    await dropUsagePeriods(pool, 'blobs', before);
    await updateWords();
    if (swept instanceof IncompleteSweepError) throw swept;
    return swept;
  };
  const sweep = () => {
    running ??= asService(removeUnused).finally(() => {
      running = null;
      endedAt = now();
    });
    return running;
  };
  const tick = () => void sweep().catch(onError);
  const timer = setInterval(() => {
    areWordsDue = true;
    tick();
  }, EVERY_MS).unref();
  const request = () => {
    clearTimeout(soon);
    const sweepIfPaused = () => {
      // A sweep that was running, or the hourly one, has ended meanwhile.
      if (endedAt + PAUSE_MS > now()) request();
      else tick();
    };
    soon = setTimeout(sweepIfPaused, Math.max(AFTER_DELETE_MS, endedAt + PAUSE_MS - now())).unref();
  };
  return {
    sweep,
    request,
    async close() {
      clearInterval(timer);
      clearTimeout(soon);
      await running?.catch(() => undefined);
    },
  };
}
