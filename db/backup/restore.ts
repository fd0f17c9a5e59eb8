/** Restores a backup into an empty database and data directory. */

import { withConnection } from '../postgres/dedicated-connection.ts';
import { MIGRATIONS, migrate } from '../postgres/migrate.ts';
import { type Archive, openArchive } from './archive-reader.ts';
import { BackupError, fileEntryName, type Progress, tableEntryName } from './format.ts';
import { finishRestore, prepareRestore, restoreFile } from './stored-files.ts';
import { importTables, listMigrations, listTables } from './tables.ts';

/** Files between two progress lines. */
const PROGRESS_EVERY = 1_000;
const CONNECTION = { application_name: 'bulkhead-restore' };

const OTHER_RELEASE =
  'The backup was written, or the database was migrated, by a newer release of Bulkhead. Use that release.';

interface RestoreSummary {
  /** ISO 8601: the time of the backup. */
  readonly at: string;
  readonly rows: number;
  readonly files: number;
  /** Migrations applied after the restore. */
  readonly migrated: readonly string[];
}

/**
 * Verifies a backup, restores it into an empty database and data directory, and applies the missing migrations. An
 * interrupted restore can be repeated.
 *
 * @param url a `postgres://` address of an empty database
 * @throws BackupError, before any change, when the backup is unusable or the target is not empty
 */
export async function restoreBackup(
  url: string,
  dataDir: string,
  path: string,
  onProgress: Progress,
): Promise<RestoreSummary> {
  await using archive = await openArchive(path, onProgress);
  await requireEmptyDatabase(url);
  await prepareRestore(dataDir);
  await restoreFiles(archive, dataDir, onProgress);
  // Files first, so that no row refers to a missing file.
  const { rows, migrated } = await restoreTables(archive, url, onProgress);
  await finishRestore(dataDir);
  return { at: archive.manifest.at, rows, files: archive.manifest.files.length, migrated };
}

/**
 * Loads a backup's tables into an empty database and applies the missing migrations.
 *
 * @throws BackupError when the backup is of a newer release or a table has another number of rows
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
    const counts = await importTables(client, tables, (table) => archive.read(tableEntryName(table.name)));
    for (const { name, rows } of tables) {
      if (counts.get(name) !== rows)
        throw new BackupError(`Table ${name} has ${counts.get(name)} rows instead of ${rows}.`);
    }
    await client.query('COMMIT');
    return tables.reduce((sum, table) => sum + table.rows, 0);
  });
  onProgress(`${rows} rows restored`);
  return { rows, migrated: await migrate(url) };
}

async function restoreFiles({ manifest, read }: Archive, dataDir: string, onProgress: Progress): Promise<void> {
  for (const [index, { path }] of manifest.files.entries()) {
    await restoreFile(dataDir, path, await read(fileEntryName(path)));
    if ((index + 1) % PROGRESS_EVERY === 0) onProgress(`files: ${index + 1} of ${manifest.files.length}`);
  }
  onProgress(`${manifest.files.length} files restored`);
}

/** Accepts a database with empty tables: it was only migrated, or a restore was interrupted. */
function requireEmptyDatabase(url: string): Promise<void> {
  return withConnection(url, CONNECTION, async (client) => {
    if ((await listMigrations(client)) === null) return;
    for (const { name } of await listTables(client)) {
      const { rowCount } = await client.query(`SELECT FROM "${name}" LIMIT 1`);
      if (rowCount === 0) continue;
      throw new BackupError(`The database is not empty: table ${name} has rows. Restore into an empty database.`);
    }
  });
}
