/** Operator commands that write, check and restore backups. */
import { resolve } from 'node:path';
import type { Pool } from 'pg';
import { openArchive } from '../../db/backup/archive-reader.ts';
import {
  type BlobCheck,
  type BlobCheckOptions,
  checkBlobs,
  describeLost,
  type OpenBlobs,
} from '../../db/backup/blob-check.ts';
import { checkBackup } from '../../db/backup/check.ts';
import { type BackupSummary, explainDenial, writeBackup } from '../../db/backup/create.ts';
import { BackupError, formatBytes, type Manifest } from '../../db/backup/format.ts';
import { beginRestore, restoreBackup } from '../../db/backup/restore.ts';
import { findDataDirMismatch } from '../../db/cluster/cluster-record.ts';
import { DataDirInUseError, makeDataDir } from '../../db/files/data-dir.ts';
import { openKeyFiles } from '../../db/files/key-files.ts';
import { isMissingObject } from '../../db/postgres/database-errors.ts';
import { findEmbedded, hasEmbedded, startEmbedded } from '../../db/postgres/embedded.ts';
import { listMissingMigrations } from '../../db/postgres/migrate.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { requireOneDatabase } from '../../service/lifecycle/database-addresses.ts';
import { pickSessionSetting, type SharedSettings } from '../../service/settings/settings.ts';
import { openConfiguredBlobs } from '../../service/storage/blob-stores.ts';
import { readClusterKey } from '../../service/storage/cluster-key.ts';
import type { CommandContext, OperatorCommand } from './command.ts';
import { abortOnInterruption } from './interruption.ts';
import { describeLostSecrets } from './keys.ts';

export const backup: OperatorCommand = {
  subjects: ['file'],
  doc: 'write tables, blobs, workspaces and keys to one new file, while the service runs; keep the file secret',
  options: { check: { type: 'boolean', doc: 'also check the file, as check-backup does' } },
  async run({ subjects: [file = ''], options }, context) {
    const { settings, database, printProgress } = context;
    const path = resolve(file);
    const { url, pool } = await database();
    await requireWholeDataDir(pool, settings);
    const done = await writeBackup(url, settings.DATA_DIR, path, printProgress);
    const checked = options.check === true ? await checkUntilInterrupted(context, path) : null;
    const verified =
      checked === null
        ? ''
        : ` A test restore succeeded and decrypted ${checked.secrets} secrets, and ${checked.blobs} blobs were read.${describeLostSecrets(checked.lostSecrets)}`;
    const what = `${done.rows} rows and ${done.files} files (${formatBytes(done.bytes)})`;
    const bucket = done.blobStore.startsWith('s3:')
      ? ` It does not hold the blobs: they are in ${done.blobStore}, which must keep deleted objects for as long as you keep this file.`
      : '';
    const lost = done.lostBlobs === null ? '' : ` Warning: ${describeLost(done.lostBlobs)}, and back up again.`;
    return {
      sentence: `${path} holds ${what} of ${done.at}, with ${describeWorkspaces(done)} and ${describeKeys(done)}.${bucket}${lost}${verified}`,
      fields: { path, ...done, checked },
    };
  },
};

export const checkBackupFile: OperatorCommand = {
  subjects: ['file'],
  doc: 'check a backup: read every byte, restore it into a temporary database and decrypt its secrets; no plugin runs',
  async run({ subjects: [file = ''] }, context) {
    const done = await checkUntilInterrupted(context, resolve(file));
    const what = `${done.rows} rows, ${done.files} files and ${done.secrets} secrets, which could be decrypted, and ${done.blobs} blobs were read`;
    return {
      sentence: `The backup of ${done.at} is good: ${what}.${describeLostSecrets(done.lostSecrets)}`,
      fields: { ...done },
    };
  },
};

export const restore: OperatorCommand = {
  subjects: ['file'],
  doc: 'restore a backup completely into an empty DATA_DIR and database, while the service is stopped',
  async run({ subjects: [file = ''] }, { settings, printProgress }) {
    // Both fail before a large file is read.
    await requireOneDatabase(settings);
    await refuseRunningService(settings);
    // Before anything is created, so that a damaged file leaves no empty database in DATA_DIR.
    await using archive = await openArchive(resolve(file), printProgress);
    const target = await openEmptyTarget(settings, archive.manifest);
    try {
      const folder = settings.DATA_DIR;
      const { manifest, ...done } = await restoreBackup(archive, target.url, folder, printProgress, target.setting);
      const options = { files: manifest.files, folder, openBlobs: blobsOf(settings), onProgress: printProgress };
      const blobs = await checkRestoredBlobs(target.url, options).catch(toUnchecked);
      const what = `${done.rows} rows and ${done.files} files of ${done.at} are restored`;
      return {
        sentence: `${what}. ${describeBlobs(blobs)} ${REPEAT_REVOCATIONS}`,
        fields: { ...done, blobs },
      };
    } finally {
      await target.release();
    }
  },
};

/** @throws BackupError if the backup would lack keys or blobs, and so could not be used */
async function requireWholeDataDir(pool: Pool, { DATA_DIR, OIDC_ISSUER }: SharedSettings): Promise<void> {
  const places = { dataDir: DATA_DIR, keyFiles: openKeyFiles(DATA_DIR), signsTokens: OIDC_ISSUER === undefined };
  const mismatch = await findDataDirMismatch(pool, places).catch(async (error: unknown) => {
    if (!isMissingObject(error)) throw explainDenial(error);
    // A backup before an upgrade: the tables are those of an older release. Without any table this fails, too: a file without
    // tables could not be restored.
    await listMissingMigrations(pool);
    return null;
  });
  if (mismatch !== null) throw new BackupError(`${mismatch} Nothing was written.`);
}

/** A count of none shows that no workspaces are mounted where the command runs. */
const describeWorkspaces = ({ workspaces }: BackupSummary): string =>
  workspaces === 0 ? 'no workspaces' : `${workspaces} workspace${workspaces === 1 ? '' : 's'}`;

/** After a first start with a cluster key, DATA_DIR/keys is still there. */
function describeKeys({ hasSealedKeys, keyFiles }: BackupSummary): string {
  if (!hasSealedKeys) return keyFiles === 0 ? 'no keys' : 'the keys to its secrets';
  const sealed = 'the keys to its secrets, sealed under the key of the cluster';
  return keyFiles === 0
    ? sealed
    : `${sealed}. Warning: it also has the unsealed keys of DATA_DIR/keys, which need no cluster key. Check it, then delete that folder and this file, and back up again`;
}

async function checkUntilInterrupted({ settings, database, printProgress }: CommandContext, path: string) {
  const { url } = await database();
  const clusterKey = await readClusterKey(settings);
  const options = { url, path, clusterKey, openBlobs: blobsOf(settings), onProgress: printProgress };
  return abortOnInterruption('The check did not finish. Its temporary database and folder are removed.', (signal) =>
    checkBackup({ ...options, signal }),
  );
}

const blobsOf =
  (settings: SharedSettings): OpenBlobs =>
  (store, pool, folder) =>
    openConfiguredBlobs(pool, { ...settings, BLOBS: store, DATA_DIR: folder, BLOB_CACHE_MEGABYTES: 1 });

/** The tables say what is revoked, suspended or blocked, so they say what was at the time of the backup. */
const REPEAT_REVOCATIONS =
  'What was revoked, suspended, demoted or blocked since then is accepted again. Before you start the service, repeat it, and run rotate-identity-key --revoke-old if a key that signs tokens was revoked (docs/operating.md, “Backup and restore”).';

/** The blobs could not be checked. */
interface Unchecked {
  readonly error: string;
}
/** The restore is complete, and cannot be repeated for the sake of the check: the bucket may be away, or its access keys not set yet. */
const toUnchecked = (error: unknown): Unchecked => ({ error: error instanceof Error ? error.message : String(error) });

function describeBlobs(check: BlobCheck | Unchecked): string {
  if ('error' in check)
    return `The blobs could not be checked: ${check.error.replace(/\.$/, '')}. Run check-backup when this is solved.`;
  return check.lost.length === 0
    ? `All ${check.blobs} blobs are in ${check.store}: set BLOBS=${check.store}.`
    : `${describeLost(check)}. Set BLOBS=${check.store}.`;
}

async function checkRestoredBlobs(url: string, options: Omit<BlobCheckOptions, 'pool'>): Promise<BlobCheck> {
  const { pool, close } = openPool(url, { name: 'bulkhead-restore', connections: 1, onError: () => undefined });
  try {
    return await checkBlobs({ pool, ...options });
  } finally {
    await close();
  }
}

/** @throws BackupError if a service runs on DATA_DIR; one of a DATABASE_URL cannot be found */
async function refuseRunningService({ DATABASE_URL, DATA_DIR }: SharedSettings): Promise<void> {
  if (DATABASE_URL === undefined && (await findEmbedded(DATA_DIR)) !== null) throw createRunningServiceError(DATA_DIR);
}

/**
 * Does not use the `database` function of the commands, which joins a running service and may create a database. A running
 * service would keep writing, and nothing may be created before the check.
 *
 * @param manifest of the backup
 */
async function openEmptyTarget(settings: SharedSettings, manifest: Manifest) {
  const { DATA_DIR } = settings;
  await makeDataDir(DATA_DIR);
  const setting = pickSessionSetting(settings);
  const url = settings[setting];
  if (url !== undefined) return { url, setting, release: async () => undefined };
  // A service must not start on the new, empty database if this command is killed now.
  if (!hasEmbedded(DATA_DIR)) await beginRestore(DATA_DIR, manifest);
  const own = await startEmbedded({ dataDir: DATA_DIR, purpose: 'command' }).catch((error: Error) => {
    throw error instanceof DataDirInUseError ? createRunningServiceError(DATA_DIR) : error;
  });
  return { url: own.url, setting: 'DATA_DIR', release: () => own.stop() };
}

const createRunningServiceError = (dataDir: string): Error =>
  new BackupError(`A service runs on ${dataDir}: stop it first.`);
