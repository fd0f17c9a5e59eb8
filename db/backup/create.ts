/** Writes a backup while the service runs: a snapshot of the tables, then the files. */
import { Readable } from 'node:stream';
import type { Client } from 'pg';
import { MIB } from '../../sdk/contract/limits.ts';
import { locateBlobFolders, restoreCondemned } from '../files/blob-sweep.ts';
import { findLongRow } from '../files/stored-blobs.ts';
import { SWEEP_LOCK } from '../files/unused-blobs.ts';
import { isMissingObject, isPermissionDenied } from '../postgres/database-errors.ts';
import { withConnection } from '../postgres/dedicated-connection.ts';
import { findValue } from '../postgres/rows.ts';
import { type NewEntry, writeArchive } from './archive-writer.ts';
import { type BlobCheck, checkBlobFiles, findBlobStore, listBlobFiles } from './blob-check.ts';
import {
  BackupError,
  createByteCounter,
  FORMAT,
  fileEntryName,
  formatBytes,
  MANIFEST,
  type Manifest,
  type Progress,
  type StoredFile,
  type StoredTable,
  tableEntryName,
} from './format.ts';
import { type LeaveOut, listFiles, openFile } from './stored-files.ts';
import { countLastUpgrade, exportTable, listMigrations, listTables, type Table } from './tables.ts';

/** PostgreSQL exports a row as text of at most 1 GiB, in which each byte of a blob takes two characters. */
const EXPORTED_MAX_BYTES = 511 * MIB;

export interface BackupSummary {
  /** ISO 8601. */
  readonly at: string;
  readonly rows: number;
  readonly files: number;
  /** Those with files among them. */
  readonly workspaces: number;
  /** Keys among the files. They are not sealed. */
  readonly keyFiles: number;
  /** Its tables have keys that are sealed under the key of the cluster. */
  readonly hasSealedKeys: boolean;
  /** `files`, `database` or `s3://bucket/folder`. */
  readonly blobStore: string;
  /** Uncompressed. */
  readonly bytes: number;
  /** What it lacks. Null: the blobs are not files, or none is lost. */
  readonly lostBlobs: BlobCheck | null;
}

/**
 * Writes tables, blobs, workspaces and keys to one new file.
 *
 * @param url a `postgres://` address
 * @throws BackupError when `path` exists already or cannot be written, or when the role may not read the tables
 */
export async function writeBackup(
  url: string,
  dataDir: string,
  path: string,
  onProgress: Progress,
): Promise<BackupSummary> {
  return withConnection(url, { application_name: 'bulkhead-backup' }, async (client) => {
    // Prevents a sweep, which could remove blobs that the snapshot refers to.
    await client.query('SELECT pg_advisory_lock(hashtext($1))', [SWEEP_LOCK]);
    // The tables may name a blob that a killed sweep left aside. If it cannot be restored, the summary names it as lost.
    await restoreCondemned(locateBlobFolders(dataDir)).catch(() => undefined);
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const { rows } = await client.query<{ at: Date }>('SELECT now() AS at');
    const at = rows[0]?.at.toISOString() ?? '';
    const migrations = (await listMigrations(client)) ?? [];
    const lastUpgrade = (await readIfMigrated(client, () => countLastUpgrade(client))) ?? undefined;
    await readIfMigrated(client, () => requireShortRows(client));
    const written = { tables: [] as StoredTable[], files: [] as StoredFile[] };
    const tables = (await listTables(client)).map((table) =>
      createTableEntry(client, table, written.tables, onProgress),
    );
    const files = await createFileEntries(dataDir, written.files, onProgress);
    // In the snapshot: a blob that is published later may be missing.
    const blobFiles = await readIfMigrated(client, () => listBlobFiles(client));
    const blobStore = (await readIfMigrated(client, () => findBlobStore(client))) ?? 'files';
    const fingerprint = await readIfMigrated(client, () => findValue(client, 'SELECT key_fingerprint FROM cluster'));
    const getManifest = (): Manifest => ({ format: FORMAT, at, migrations, lastUpgrade, ...written });
    const rest = endSnapshotBefore(client, [...files, createManifestEntry(client, getManifest)]);
    await writeArchive(path, [...tables, ...rest]);
    return {
      ...summarize(getManifest()),
      hasSealedKeys: fingerprint !== null,
      blobStore,
      lostBlobs: findLostBlobs(blobFiles, written.files),
    };
  }).catch((error: unknown) => {
    throw explainDenial(error);
  });
}

/**
 * Earlier releases stored blobs of any size in rows.
 *
 * @throws BackupError for a row that PostgreSQL cannot export
 */
async function requireShortRows(client: Client): Promise<void> {
  const long = await findLongRow(client, EXPORTED_MAX_BYTES);
  if (long === null) return;
  throw new BackupError(
    `The blob ${long.sha256} has ${formatBytes(long.sizeBytes)}, and PostgreSQL cannot export a row of more than ${formatBytes(EXPORTED_MAX_BYTES)}. Stop the service, move the blobs out of the database with the operator command move-blobs (files or s3://bucket/folder), and repeat the backup.`,
  );
}

/** Says what the role lacks, if PostgreSQL denied a read. */
export const explainDenial = (error: unknown): unknown =>
  isPermissionDenied(error)
    ? new BackupError(
        `The backup needs the database role of the service, which owns the tables: ${(error as Error).message}.`,
      )
    : error;

/** Null: the tables are those of an older release, which `check-backup` migrates first. */
async function readIfMigrated<Value>(client: Client, read: () => Promise<Value>): Promise<Value | null> {
  // Without it, a statement that fails would end the transaction, in which the tables are read next.
  await client.query('SAVEPOINT reading');
  return read().catch(async (error: unknown) => {
    if (!isMissingObject(error)) throw error;
    await client.query('ROLLBACK TO SAVEPOINT reading');
    return null;
  });
}

function findLostBlobs(names: readonly string[] | null, files: readonly StoredFile[]): BlobCheck | null {
  const found = names && checkBlobFiles(names, files);
  return found === null || found.lost.length === 0 ? null : found;
}

/**
 * Ends the snapshot when the first of the entries is opened. Files can take hours, and until its end no partition of the
 * tables can be dropped, and no dead row removed.
 */
function endSnapshotBefore(client: Client, entries: readonly NewEntry[]): NewEntry[] {
  let ended: Promise<unknown> | undefined;
  return entries.map((entry) => ({
    ...entry,
    async open() {
      ended ??= client.query('COMMIT');
      await ended;
      return entry.open();
    },
  }));
}

function summarize({ at, tables, files }: Manifest): Omit<BackupSummary, 'lostBlobs' | 'hasSealedKeys' | 'blobStore'> {
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
  const bytes = sum([...tables, ...files].map((part) => part.bytes));
  const paths = files.map(({ path }) => path.split('/'));
  const keyFiles = paths.filter(([folder]) => folder === 'keys').length;
  const workspaces = new Set(paths.flatMap(([folder, name]) => (folder === 'workspaces' ? [name] : []))).size;
  return { at, rows: sum(tables.map(({ rows }) => rows)), files: files.length, workspaces, keyFiles, bytes };
}

function createTableEntry(client: Client, table: Table, done: StoredTable[], onProgress: Progress): NewEntry {
  let rows = () => 0;
  return {
    name: tableEntryName(table.name),
    compress: true,
    async open() {
      const copy = exportTable(client, table);
      rows = copy.rows;
      return copy.stream;
    },
    onWritten(written) {
      done.push({ ...table, ...written, rows: rows() });
      if (rows() > 0) onProgress(`${table.name}: ${rows()} rows, ${formatBytes(written.bytes)}`);
    },
  };
}

async function createFileEntries(dataDir: string, done: StoredFile[], onProgress: Progress): Promise<NewEntry[]> {
  const entries: NewEntry[] = [];
  const countWritten = createByteCounter((sum) => onProgress(`files: ${done.length} of ${entries.length}, ${sum}`));
  const leaveOut = createLeaveOut(onProgress);
  for await (const path of listFiles(dataDir, leaveOut)) {
    entries.push({
      name: fileEntryName(path),
      // Assets are mostly compressed already, and sources are small.
      compress: false,
      // An entry cannot be removed again, so a file that was deleted meanwhile becomes empty.
      open: async () => (await openFile(dataDir, path, leaveOut)) ?? Readable.from([]),
      onWritten(written) {
        done.push({ path, ...written });
        countWritten(written.bytes);
      },
    });
  }
  return entries;
}

/** Lines about what is left out: an agent can create any number of such files. */
const LEFT_OUT_SHOWN = 10;

function createLeaveOut(onProgress: Progress): LeaveOut {
  let count = 0;
  return (path, reason) => {
    count += 1;
    // Quoted: an agent chooses the name.
    if (count <= LEFT_OUT_SHOWN) onProgress(`not in the backup: ${JSON.stringify(path)}, because ${reason}`);
    if (count === LEFT_OUT_SHOWN + 1) onProgress('not in the backup: more files and folders of workspaces');
  };
}

/** Opened last, when all files were read, and all sizes and hashes are known. */
const createManifestEntry = (client: Client, getManifest: () => Manifest): NewEntry => ({
  name: MANIFEST,
  compress: true,
  async open() {
    await releaseSweepLock(client);
    return Readable.from([Buffer.from(JSON.stringify(getManifest()))]);
  },
  onWritten: () => undefined,
});

/** Fails the archive, before it gets its name, if the lock was lost with its connection: a sweep may have removed blobs. */
async function releaseSweepLock(client: Client): Promise<void> {
  await client.query('SELECT pg_advisory_unlock(hashtext($1))', [SWEEP_LOCK]).catch((error: Error) => {
    throw new BackupError(
      `The connection to the database was lost while files were copied (${error.message}), so a sweep may have removed files that the backup needs. Nothing was kept: run the backup again.`,
    );
  });
}
