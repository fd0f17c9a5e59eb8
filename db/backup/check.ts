/** Proves a backup by restoring it beside everything else: into a database and a folder that are thrown away afterwards. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSecretKeys } from '../files/secrets.ts';
import { withConnection } from '../postgres/dedicated-connection.ts';
import { type Archive, openArchive } from './archive-reader.ts';
import { BackupError, fileEntryName, type Progress } from './format.ts';
import { restoreTables } from './restore.ts';
import { restoreFile } from './stored-files.ts';

const CONNECTION = { application_name: 'bulkhead-backup' };

export interface CheckSummary {
  readonly at: string;
  readonly rows: number;
  readonly files: number;
  /** Sealed values that the backup's own keys open. */
  readonly secrets: number;
}

/**
 * Reads a backup through, loads its tables into a new database of the same server, opens every secret with the keys it
 * holds, and removes both again.
 *
 * @param url a `postgres://` address whose role may make databases
 * @throws BackupError with what is wrong with it
 */
export async function checkBackup(url: string, path: string, onProgress: Progress): Promise<CheckSummary> {
  await using archive = await openArchive(path, onProgress);
  onProgress('every byte is as written; restoring it into a database of its own');
  const folder = await mkdtemp(join(tmpdir(), 'bulkhead-check-'));
  const name = `bulkhead_check_${randomUUID().replaceAll('-', '')}`;
  const scratch = new URL(url);
  scratch.pathname = `/${name}`;
  try {
    return await withConnection(url, CONNECTION, async (client) => {
      await client.query(`CREATE DATABASE ${name} TEMPLATE template0`).catch((error: Error) => {
        throw new BackupError(`A database to try it in cannot be made: ${error.message}.`);
      });
      try {
        const { rows } = await restoreTables(archive, scratch.href, onProgress);
        const secrets = await openAll(archive, scratch.href, folder);
        return { at: archive.manifest.at, rows, files: archive.manifest.files.length, secrets };
      } finally {
        await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      }
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function openAll({ manifest, read }: Archive, url: string, folder: string): Promise<number> {
  const keys = manifest.files.filter(({ path }) => path.startsWith('keys/'));
  for (const { path } of keys) await restoreFile(folder, path, await read(fileEntryName(path)));
  const ring = await openSecretKeys(folder);
  return withConnection(url, CONNECTION, async (client) => {
    const found = await client.query<{ id: string; name: string; keyId: string; sealed: Buffer }>(
      'SELECT installation_id AS id, name, key_id AS "keyId", sealed FROM installation_secrets',
    );
    for (const { id, name, ...sealed } of found.rows) {
      await ring.open(id, name, sealed).catch(() => {
        throw new BackupError(`The keys in the backup do not open the secret ${name} of installation ${id}.`);
      });
    }
    return found.rows.length;
  });
}
