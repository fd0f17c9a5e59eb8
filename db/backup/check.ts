/** Checks a backup by restoring it into a temporary database and folder. */
import { openKeyFiles } from '../files/key-files.ts';
import { listLostKeys } from '../files/recorded-keys.ts';
import { openSealedKeys } from '../files/sealed-keys.ts';
import { openSecretKeys } from '../files/secrets.ts';
import { withConnection } from '../postgres/dedicated-connection.ts';
import { migrate } from '../postgres/migrate.ts';
import { openPool } from '../postgres/pool.ts';
import { findValue } from '../postgres/rows.ts';
import { type Archive, openArchive } from './archive-reader.ts';
import { type BlobCheckOptions, checkBlobs, describeLost, type OpenBlobs } from './blob-check.ts';
import { BackupError, fileEntryName, type Progress } from './format.ts';
import { restoreTables } from './restore.ts';
import { withScratchDatabase } from './scratch-database.ts';
import { withScratchFolder } from './scratch-folder.ts';
import { restoreFile } from './stored-files.ts';

const CONNECTION = { application_name: 'bulkhead-backup' };

interface CheckSummary {
  readonly at: string;
  readonly rows: number;
  readonly files: number;
  /** Secrets that the backup's own keys decrypt. */
  readonly secrets: number;
  /** Secrets whose keys the operator gave up before the backup. */
  readonly lostSecrets: number;
  /** Blobs that the backup names. All are in it, or in the bucket. */
  readonly blobs: number;
}
interface CheckOptions {
  /** A `postgres://` address whose role may create databases. */
  readonly url: string;
  readonly path: string;
  /** Opens keys that are sealed in the backup's tables. Null: this process has no cluster key. */
  readonly clusterKey: Buffer | null;
  readonly openBlobs: OpenBlobs;
  readonly onProgress: Progress;
  /** Ends the check; the database and folder are removed then, too. */
  readonly signal?: AbortSignal;
}

/**
 * Verifies a backup, loads its tables into a new database on the same server, decrypts every secret with the backup's keys,
 * checks that the blobs that it names are in it or in the bucket, and removes the database and folder. Those of a check that
 * was killed are removed by the next one.
 *
 * @throws BackupError when the backup is unusable, or when blobs that it names are lost
 */
export async function checkBackup({
  url,
  path,
  clusterKey,
  openBlobs,
  onProgress,
  signal,
}: CheckOptions): Promise<CheckSummary> {
  await using archive = await openArchive(path, onProgress, signal);
  onProgress('the file is complete and undamaged; restoring it into a temporary database');
  return await withScratchFolder(onProgress, (folder) =>
    withScratchDatabase(url, onProgress, signal, async (scratchUrl) => {
      const rows = await restoreTables(archive, scratchUrl, onProgress);
      await migrate(scratchUrl);
      const opened = await decryptSecrets(archive, scratchUrl, folder, clusterKey);
      const { at, files } = archive.manifest;
      const blobs = await checkNamedBlobs(scratchUrl, { files, folder, openBlobs, onProgress });
      return { at, rows, files: files.length, ...opened, blobs };
    }),
  );
}

async function checkNamedBlobs(url: string, options: Omit<BlobCheckOptions, 'pool'>): Promise<number> {
  const { pool, close } = openPool(url, {
    name: CONNECTION.application_name,
    connections: 1,
    onError: () => undefined,
  });
  try {
    const found = await checkBlobs({ pool, ...options });
    if (found.lost.length > 0) throw new BackupError(`${describeLost(found)}.`);
    return found.blobs;
  } finally {
    await close();
  }
}

async function decryptSecrets(
  { manifest, read }: Archive,
  url: string,
  folder: string,
  clusterKey: Buffer | null,
): Promise<Pick<CheckSummary, 'secrets' | 'lostSecrets'>> {
  const keys = manifest.files.filter(({ path }) => path.startsWith('keys/'));
  for (const { path } of keys) await restoreFile(folder, path, await read(fileEntryName(path)));
  return withConnection(url, CONNECTION, async (client) => {
    const expected = await findValue<string>(client, 'SELECT key_fingerprint FROM cluster');
    // As the backup says: one from before this process had a cluster key holds key files.
    const store = expected === null || clusterKey === null ? openKeyFiles(folder) : openSealedKeys(client, clusterKey);
    if (expected !== null && expected !== store.fingerprint)
      throw new BackupError(
        `The keys of the backup are sealed: set CLUSTER_KEY_FILE to the key with the fingerprint ${expected}.`,
      );
    const ring = await openSecretKeys(folder, store);
    const found = await client.query<{ id: string; name: string; keyId: string; sealed: Buffer }>(
      'SELECT owner AS id, name, key_id AS "keyId", sealed FROM sealed_values',
    );
    const lostKeys = new Set(await listLostKeys(client, ring.ids));
    const left = found.rows.filter(({ keyId }) => !lostKeys.has(keyId));
    for (const { id, name, ...sealed } of left) {
      await ring.open(id, name, sealed).catch(() => {
        throw new BackupError(`The backup's keys cannot decrypt the secret ${name} of ${id}.`);
      });
    }
    return { secrets: left.length, lostSecrets: found.rows.length - left.length };
  });
}
