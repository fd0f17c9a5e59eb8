/** Puts a backup into an empty place, all of it or nothing. */

import { withConnection } from '../postgres/dedicated-connection.ts';
import { MIGRATIONS, migrate } from '../postgres/migrate.ts';
import { type Archive, openArchive } from './archive-reader.ts';
import { BackupError, fileEntryName, type Progress, tableEntryName } from './format.ts';
import { finishRestore, prepareRestore, restoreFile } from './stored-files.ts';
import { copyIn, listMigrations, listTables } from './tables.ts';

/** Files between two lines of progress. */
const PROGRESS_EVERY = 1_000;
const CONNECTION = { application_name: 'bulkhead-restore' };

const OTHER_RELEASE =
  'The backup is of a newer release of Bulkhead, or the database was prepared by one: use that release.';

export interface RestoreSummary {
  /** ISO 8601: the moment that is back. */
  readonly at: string;
  readonly rows: number;
  readonly files: number;
  /** Migrations that this release applied on top. */
  readonly migrated: readonly string[];
}

/**
 * Reads a backup through, then puts it into an empty database and data directory, and brings it to this release. One that
 * was cut off can be made again over what it left.
 *
 * @param url a `postgres://` address of an empty database
 * @throws BackupError when the backup is damaged, of a newer release, or the place is not empty; nothing was changed then
 */
export async function restoreBackup(
  url: string,
  dataDir: string,
  path: string,
  onProgress: Progress,
): Promise<RestoreSummary> {
  await using archive = await openArchive(path, onProgress);
  await refuseUsed(url);
  await prepareRestore(dataDir);
  await restoreFiles(archive, dataDir, onProgress);
  // The files are there before the rows that name them.
  const { rows, migrated } = await restoreTables(archive, url, onProgress);
  await finishRestore(dataDir);
  return { at: archive.manifest.at, rows, files: archive.manifest.files.length, migrated };
}

/**
 * Loads a backup's tables into an empty database and brings them to this release.
 *
 * @throws BackupError when the backup is of a newer release, or a table has not the rows it had
 */
export async function restoreTables(
  archive: Archive,
  url: string,
  onProgress: Progress,
): Promise<{ rows: number; migrated: readonly string[] }> {
  const { migrations, tables } = archive.manifest;
  const known = (await withConnection(url, CONNECTION, listMigrations)) ?? [];
  if (known.length < migrations.length) await migrate(url, MIGRATIONS, migrations.length - known.length);
  const rows = await withConnection(url, CONNECTION, async (client) => {
    if ((await listMigrations(client))?.join() !== migrations.join()) throw new BackupError(OTHER_RELEASE);
    await client.query('BEGIN');
    const counts = await copyIn(client, tables, (table) => archive.read(tableEntryName(table.name)));
    for (const { name, rows } of tables) {
      if (counts.get(name) !== rows) throw new BackupError(`${name} has ${counts.get(name)} rows instead of ${rows}.`);
    }
    await client.query('COMMIT');
    return tables.reduce((sum, table) => sum + table.rows, 0);
  });
  onProgress(`${rows} rows are back`);
  return { rows, migrated: await migrate(url) };
}

async function restoreFiles({ manifest, read }: Archive, dataDir: string, onProgress: Progress): Promise<void> {
  for (const [index, { path }] of manifest.files.entries()) {
    await restoreFile(dataDir, path, await read(fileEntryName(path)));
    if ((index + 1) % PROGRESS_EVERY === 0) onProgress(`files: ${index + 1} of ${manifest.files.length}`);
  }
  onProgress(`${manifest.files.length} files are back`);
}

/** A database that was only prepared, or to which a restore was cut off, is as good as a new one. */
function refuseUsed(url: string): Promise<void> {
  return withConnection(url, CONNECTION, async (client) => {
    if ((await listMigrations(client)) === null) return;
    for (const { name } of await listTables(client)) {
      const { rowCount } = await client.query(`SELECT FROM "${name}" LIMIT 1`);
      if (rowCount === 0) continue;
      throw new BackupError(`The database is in use (${name} has rows): restore into an empty one.`);
    }
  });
}
