/** Operator command that moves all blobs to another store. */
import type { Pool } from 'pg';
import { describeLost, isBlobLost } from '../../db/backup/blob-check.ts';
import { findLongFile, listUsedBlobs } from '../../db/catalog/versions.ts';
import { markNewPlace, requireClusterForCommand, setBlobPlace } from '../../db/cluster/cluster-record.ts';
import { excludeProcesses } from '../../db/cluster/running-processes.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import { ROW_MAX_BYTES } from '../../db/files/shared-blobs.ts';
import { type SharedSettings, sharedSettings } from '../../service/settings/settings.ts';
import { describeBlobPlace, openConfiguredBlobs } from '../../service/storage/blob-stores.ts';
import { describeMember } from '../../service/storage/membership.ts';
import { type OperatorCommand, type Outcome, UsageError } from './command.ts';

/** Names per query. */
const PAGE = 1_000;
/** The disk of DATA_DIR may be full: that is why its blobs move. */
const WITHOUT_COPIES = { BLOB_CACHE_MEGABYTES: 0 };

export const moveBlobs: OperatorCommand = {
  subjects: ['store'],
  doc: 'copy all blobs from BLOBS to files, database or s3://bucket/folder while the service is stopped',
  options: { 'without-lost': { type: 'boolean', doc: 'leave out the blobs that are missing or damaged' } },
  async run({ subjects: [store = ''], options }, { settings, currentDatabase, printProgress }) {
    const parsed = sharedSettings.BLOBS.safeParse(store);
    if (!parsed.success) throw new UsageError('The store must be files, database or s3://bucket/folder.');
    const to = { ...settings, BLOBS: parsed.data };
    const { pool } = await currentDatabase();
    // After a move whose BLOBS was not set, this names the setting.
    const unread = await requireClusterForCommand(pool, await describeMember(pool, settings));
    if (unread !== null) throw unread;
    if (to.BLOBS === settings.BLOBS) throw new Error(`The blobs are in ${to.BLOBS} already.`);
    // Rows name the key of an object, not its bucket.
    if (to.BLOBS.startsWith('s3:') && settings.BLOBS.startsWith('s3:'))
      throw new Error('Blobs cannot be moved from one bucket to another: move them to database or files first.');
    const exclusion = await excludeProcesses(pool);
    if (exclusion === null)
      throw new Error(
        'An API or a supervisor runs, or was killed seconds ago: stop the service on all machines, then run this again.',
      );
    try {
      const leavesOutLost = options['without-lost'] === true;
      return await move(pool, settings, { to, leavesOutLost, printProgress, requireStopped: exclusion.requireHeld });
    } finally {
      await exclusion.release();
    }
  },
};

interface Move {
  readonly to: SharedSettings;
  /** Whether to move also if blobs are missing or damaged. */
  readonly leavesOutLost: boolean;
  printProgress(line: string): void;
  /** @throws Error if an API or a supervisor may have run since the move began */
  requireStopped(): Promise<void>;
}

async function move(
  pool: Pool,
  settings: SharedSettings,
  { to, leavesOutLost, printProgress, requireStopped }: Move,
): Promise<Outcome> {
  if (to.BLOBS === 'database') await requireShortFiles(pool);
  const place = describeBlobPlace(pool, to);
  await markNewPlace(pool, place);
  const source = await openConfiguredBlobs(pool, { ...settings, ...WITHOUT_COPIES });
  const target = await openConfiguredBlobs(pool, { ...to, ...WITHOUT_COPIES });
  let moved = 0;
  const copied: string[] = [];
  const lost: string[] = [];
  for (let after = ''; ; ) {
    const names = await listUsedBlobs(pool, after, PAGE);
    for (const name of names) {
      if (await hasIntact(target, name)) continue;
      const bytes = await readIfIntact(source, name);
      if (bytes === null) {
        lost.push(name);
        continue;
      }
      await target.put(bytes);
      copied.push(name);
    }
    moved += names.length;
    const last = names.at(-1);
    if (last === undefined) break;
    after = last;
    printProgress(`${moved} blobs copied`);
  }
  const described = describeLost({ store: settings.BLOBS, blobs: moved, lost }, 'DATA_DIR/blobs');
  if (lost.length > 0 && !leavesOutLost)
    throw new Error(
      `${described}. All others are copied, but BLOBS stays ${settings.BLOBS}. Get them back and run this again, or set --without-lost: the versions and media that use them stay broken.`,
    );
  await setBlobPlace(pool, place, copied, requireStopped);
  return {
    sentence: `${moved - lost.length} blobs are in ${to.BLOBS} now. Set BLOBS=${to.BLOBS} for every process and start the service. ${describeOldCopies(settings.BLOBS)}${lost.length === 0 ? '' : ` Left out: ${described}.`}`,
    fields: { store: to.BLOBS, blobs: moved - lost.length, lostBlobs: lost.length },
  };
}

/** Reads the blob: a file of an earlier move may be damaged by now, and the copy in the old store is then the last whole one. */
async function hasIntact(target: Blobs, name: string): Promise<boolean> {
  if (!(await target.has(name))) return false;
  return (await readIfIntact(target, name)) !== null;
}

/** Null: the blob is missing or damaged. */
const readIfIntact = (blobs: Blobs, name: string): Promise<Buffer | null> =>
  blobs.read(name).catch((error: unknown) => {
    if (!isBlobLost(error)) throw error;
    return null;
  });

/** @throws Error for a file that the database cannot take, before hours of copying */
async function requireShortFiles(pool: Pool): Promise<void> {
  const long = await findLongFile(pool, ROW_MAX_BYTES);
  if (long === null) return;
  const { slug, semVer, path, sizeBytes } = long;
  throw new Error(
    `The file ${path} of ${slug} ${semVer ?? '(a draft)'} has ${sizeBytes} bytes. In the database, a file may have at most ${ROW_MAX_BYTES}. Move the blobs to files or to a bucket instead.`,
  );
}

/** What became of the blobs in the old store. */
function describeOldCopies(store: string): string {
  if (store === 'database') return 'The copies in the database were removed.';
  if (store === 'files') return 'The files in DATA_DIR/blobs stay: remove them when the service runs.';
  return `The objects in ${store} stay, but Bulkhead no longer names or removes them: remove them when the service runs.`;
}
