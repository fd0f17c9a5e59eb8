/** Checks a backup by restoring it into a temporary database and folder. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openKeyFiles } from '../files/key-files.ts';
import { openSealedKeys } from '../files/sealed-keys.ts';
import { openSecretKeys } from '../files/secrets.ts';
import { isPermissionDenied } from '../postgres/database-errors.ts';
import { withConnection } from '../postgres/dedicated-connection.ts';
import { findRow } from '../postgres/rows.ts';
import { type Archive, openArchive } from './archive-reader.ts';
import { BackupError, fileEntryName, type Progress } from './format.ts';
import { restoreTables } from './restore.ts';
import { restoreFile } from './stored-files.ts';

const CONNECTION = { application_name: 'bulkhead-backup' };

interface CheckSummary {
  readonly at: string;
  readonly rows: number;
  readonly files: number;
  /** Secrets that the backup's own keys decrypt. */
  readonly secrets: number;
}

/**
 * Verifies a backup, loads its tables into a new database on the same server, decrypts every secret with the backup's keys,
 * and removes the database and folder.
 *
 * @param url a `postgres://` address whose role may create databases
 * @param clusterKey opens keys that are sealed in the backup's tables; null: they are files
 * @throws BackupError when the backup is unusable
 */
export async function checkBackup(
  url: string,
  path: string,
  clusterKey: Buffer | null,
  onProgress: Progress,
): Promise<CheckSummary> {
  await using archive = await openArchive(path, onProgress);
  onProgress('the file is complete and undamaged; restoring it into a temporary database');
  const folder = await mkdtemp(join(tmpdir(), 'bulkhead-check-'));
  const name = `bulkhead_check_${randomUUID().replaceAll('-', '')}`;
  const scratch = new URL(url);
  scratch.pathname = `/${name}`;
  try {
    return await withConnection(url, CONNECTION, async (client) => {
      await client.query(`CREATE DATABASE ${name} TEMPLATE template0`).catch((error: Error) => {
        const remedy = isPermissionDenied(error)
          ? ' Allow it to the role with ALTER ROLE … CREATEDB, or check the backup on another server.'
          : '';
        throw new BackupError(`Cannot create a temporary database: ${error.message}.${remedy}`);
      });
      try {
        const { rows } = await restoreTables(archive, scratch.href, onProgress);
        const secrets = await decryptSecrets(archive, scratch.href, folder, clusterKey);
        return { at: archive.manifest.at, rows, files: archive.manifest.files.length, secrets };
      } finally {
        await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      }
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function decryptSecrets(
  { manifest, read }: Archive,
  url: string,
  folder: string,
  clusterKey: Buffer | null,
): Promise<number> {
  const keys = manifest.files.filter(({ path }) => path.startsWith('keys/'));
  for (const { path } of keys) await restoreFile(folder, path, await read(fileEntryName(path)));
  return withConnection(url, CONNECTION, async (client) => {
    const sealedUnder = await findRow<{ fingerprint: string | null }>(
      client,
      'SELECT key_fingerprint AS fingerprint FROM cluster',
    );
    const store = clusterKey === null ? openKeyFiles(folder) : openSealedKeys(client, clusterKey);
    const expected = sealedUnder?.fingerprint ?? null;
    if (expected !== null && expected !== store.fingerprint)
      throw new BackupError(
        `The keys of the backup are sealed: set CLUSTER_KEY_FILE to the key with the fingerprint ${expected}.`,
      );
    const ring = await openSecretKeys(folder, store);
    const found = await client.query<{ id: string; name: string; keyId: string; sealed: Buffer }>(
      'SELECT owner AS id, name, key_id AS "keyId", sealed FROM sealed_values',
    );
    for (const { id, name, ...sealed } of found.rows) {
      await ring.open(id, name, sealed).catch(() => {
        throw new BackupError(`The backup's keys cannot decrypt the secret ${name} of ${id}.`);
      });
    }
    return found.rows.length;
  });
}
