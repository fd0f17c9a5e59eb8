/** Restores a backup into an empty database and data directory. */

import { join } from 'node:path';
import { type Client, escapeLiteral } from 'pg';
import { withConnection } from '../postgres/dedicated-connection.ts';
import { listKnownMigrations, migrate } from '../postgres/migrate.ts';
import { findValue } from '../postgres/rows.ts';
import { requireSessionLock } from '../postgres/session-lock.ts';
import type { Archive } from './archive-reader.ts';
import { BackupError, fileEntryName, type Manifest, type Progress, tableEntryName } from './format.ts';
import { finishRestore, isUnfinished, MARKER, prepareRestore, readMarker, restoreFile } from './stored-files.ts';
import { importTables, listMigrations, listTables } from './tables.ts';

/** Files between two progress lines. */
const PROGRESS_EVERY = 1_000;
const CONNECTION = { application_name: 'bulkhead-restore' };
/** Held by a restore until it ends. */
const RESTORE_LOCK = 'bulkhead restore';

const NEWER_BACKUP = 'The backup was written by a newer release of Bulkhead. Use that release.';
const OTHER_TABLES =
  'The database has no rows, but the tables of another release than the backup. Restore into a database without tables: restore creates them.';

interface RestoreSummary {
  /** ISO 8601: the time of the backup. */
  readonly at: string;
  readonly rows: number;
  readonly files: number;
  /** Migrations applied after the restore. */
  readonly migrated: readonly string[];
  readonly manifest: Manifest;
}

/**
 * Marks the restore as started: the service refuses to start on this data directory until it is complete.
 *
 * @throws BackupError when the backup is of a newer release, or a folder is not empty
 */
export async function beginRestore(dataDir: string, manifest: Manifest): Promise<string> {
  await requireKnownMigrations(manifest);
  return prepareRestore(dataDir, markerPrefix(manifest));
}

/**
 * Restores a verified backup into an empty database and data directory, and applies the missing migrations. An interrupted
 * restore can be repeated.
 *
 * @param url a `postgres://` address of an empty database
 * @param setting that leads to the database, for the error
 * @throws BackupError, before any change, when the target is not empty or another restore into it is under way
 */
export function restoreBackup(
  archive: Archive,
  url: string,
  dataDir: string,
  onProgress: Progress,
  setting = 'DATABASE_URL',
): Promise<RestoreSummary> {
  return withConnection(url, CONNECTION, async (client) => {
    const sql = 'SELECT pg_try_advisory_lock(hashtextextended($1, 0))';
    if (await findValue<boolean>(client, sql, [RESTORE_LOCK]))
      return restoreLocked({
        archive,
        url,
        dataDir,
        onProgress,
        setting,
        requireAlone: () => requireLock(client, setting),
      });
    throw new BackupError(
      `Another restore into the database of ${setting} is under way. Wait until it ends, or restore into another empty database.`,
    );
  });
}

/** @throws BackupError */
const requireLock = (client: Client, setting: string): Promise<void> =>
  requireSessionLock(
    client,
    {
      kept: `other restores out of the database of ${setting}`,
      consequence: 'another one may have begun. No row was restored: run this again, if no other restore is under way.',
    },
    (message) => new BackupError(message),
  );

interface LockedRestore {
  readonly archive: Archive;
  readonly url: string;
  readonly dataDir: string;
  readonly onProgress: Progress;
  readonly setting: string;
  /** @throws BackupError if another restore into this database may have begun */
  requireAlone(): Promise<void>;
}

async function restoreLocked({
  archive,
  url,
  dataDir,
  onProgress,
  setting,
  requireAlone,
}: LockedRestore): Promise<RestoreSummary> {
  const { manifest } = archive;
  const { at, tables, files } = manifest;
  const filled = await findFilledTable(url);
  if (filled === null) {
    await requireMigratable(url, manifest);
    const marker = await beginRestore(dataDir, manifest);
    await restoreFiles(archive, dataDir, onProgress);
    // Files first, so that no row refers to a missing file.
    await restoreTables(archive, url, onProgress, { marker, requireAlone });
  } else if (await isCommitted(manifest, url, dataDir)) {
    onProgress('files and rows were restored before the interruption');
  } else {
    const acceptance = (await isUnfinished(dataDir))
      ? ` If an earlier release has run with ${dataDir} since a restore was interrupted, the rows are those of its users: keep them, and delete ${join(dataDir, MARKER)} as docs/operating.md, “Backup and restore”, says.`
      : '';
    throw new BackupError(
      `The database of ${setting} is not empty: table ${filled} has rows. Restore into an empty database.${acceptance}`,
    );
  }
  const migrated = await migrate(url);
  await finishRestore(dataDir);
  return { at, rows: tables.reduce((sum, table) => sum + table.rows, 0), files: files.length, migrated, manifest };
}

/**
 * Loads a backup's tables into an empty database, with the migrations of the backup.
 *
 * @param target of a restore. `marker`: of the data directory, committed with the rows, so that a repetition knows that they are there
 * @throws BackupError when the backup is of a newer release or a table has another number of rows, and as `target.requireAlone`
 */
export async function restoreTables(
  archive: Archive,
  url: string,
  onProgress: Progress,
  target: (Pick<LockedRestore, 'requireAlone'> & { readonly marker: string }) | null = null,
): Promise<number> {
  const { migrations, tables, lastUpgrade = migrations.length } = archive.manifest;
  await requireKnownMigrations(archive.manifest);
  const applied = await requireMigratable(url, archive.manifest);
  const missingBefore = Math.max(0, migrations.length - lastUpgrade - applied);
  // A run of its own, because the release before the last upgrade may start on this database.
  for (const count of [missingBefore, migrations.length - applied - missingBefore])
    if (count > 0) await migrate(url, { count });
  const rows = await withConnection(url, CONNECTION, async (client) => {
    await client.query('BEGIN');
    const counts = await importTables(client, tables, (table) => archive.read(tableEntryName(table.name)));
    for (const { name, rows } of tables) {
      if (counts.get(name) !== rows)
        throw new BackupError(`Table ${name} has ${counts.get(name)} rows instead of ${rows}.`);
    }
    if (target !== null) {
      // A comment, because the database has only the tables of the backup's release.
      await client.query(`COMMENT ON TABLE public.migrations IS ${escapeLiteral(target.marker)}`);
      // Last, because the import takes minutes.
      await target.requireAlone();
    }
    await client.query('COMMIT');
    return tables.reduce((sum, table) => sum + table.rows, 0);
  });
  onProgress(`${rows} rows restored`);
  return rows;
}

/** @throws BackupError when the backup is of a newer release, or of one with other migrations */
async function requireKnownMigrations({ migrations }: Manifest): Promise<void> {
  const known = await listKnownMigrations();
  const index = migrations.findIndex((name, position) => name !== known[position]);
  if (index === -1) return;
  if (known[index] === undefined) throw new BackupError(NEWER_BACKUP);
  throw new BackupError(
    `The backup has the migration ${migrations[index]} where this release has ${known[index]}, so this release cannot restore it. Use the release that wrote it.`,
  );
}

/**
 * @returns how many migrations of the backup a database without rows has
 * @throws BackupError when it also has others: there is no way back to the tables of the backup
 */
async function requireMigratable(url: string, { migrations }: Manifest): Promise<number> {
  const applied = (await withConnection(url, CONNECTION, listMigrations)) ?? [];
  if (applied.join() !== migrations.slice(0, applied.length).join()) throw new BackupError(OTHER_TABLES);
  return applied.length;
}

/** Another backup does not continue an interrupted restore. */
const markerPrefix = ({ at }: Manifest): string => `restored from the backup of ${at} as `;

/** Whether an interrupted restore of this backup into this data directory has committed its rows to this database. */
async function isCommitted(manifest: Manifest, url: string, dataDir: string): Promise<boolean> {
  const marker = await readMarker(dataDir);
  if (!marker?.startsWith(markerPrefix(manifest))) return false;
  const sql = `SELECT obj_description(to_regclass('public.migrations'), 'pg_class')`;
  return (await withConnection(url, CONNECTION, (client) => findValue(client, sql))) === marker;
}

async function restoreFiles({ manifest, read }: Archive, dataDir: string, onProgress: Progress): Promise<void> {
  for (const [index, { path }] of manifest.files.entries()) {
    await restoreFile(dataDir, path, await read(fileEntryName(path)));
    if ((index + 1) % PROGRESS_EVERY === 0) onProgress(`files: ${index + 1} of ${manifest.files.length}`);
  }
  onProgress(`${manifest.files.length} files restored`);
}

/** Null: the database has no tables, or empty ones because it was only migrated or a restore was interrupted. */
function findFilledTable(url: string): Promise<string | null> {
  return withConnection(url, CONNECTION, async (client) => {
    if ((await listMigrations(client)) === null) return null;
    for (const { name } of await listTables(client)) {
      const { rowCount } = await client.query(`SELECT FROM "${name}" LIMIT 1`);
      if (rowCount !== 0) return name;
    }
    return null;
  });
}
