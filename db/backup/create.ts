/** Writes a backup beside the running service: the tables of one moment, then every file they name. */
import { Readable } from 'node:stream';
import type { Client } from 'pg';
import { SWEEP_LOCK } from '../files/unused-blobs.ts';
import { withConnection } from '../postgres/dedicated-connection.ts';
import { type NewEntry, writeArchive } from './archive-writer.ts';
import {
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
import { listFiles, openFile } from './stored-files.ts';
import { copyOut, listMigrations, listTables, type Table } from './tables.ts';

/** Bytes of files between two lines of progress. */
const PROGRESS_EVERY = 512 * 1024 ** 2;

export interface BackupSummary {
  /** ISO 8601. */
  readonly at: string;
  readonly rows: number;
  readonly files: number;
  /** Before packing. */
  readonly bytes: number;
}

/**
 * Writes tables, blobs, workspaces and keys to one new file.
 *
 * @param url a `postgres://` address
 * @param path must not exist
 * @throws BackupError when it does
 */
export async function writeBackup(
  url: string,
  dataDir: string,
  path: string,
  onProgress: Progress,
): Promise<BackupSummary> {
  return withConnection(url, { application_name: 'bulkhead-backup' }, async (client) => {
    // A sweep would take blobs that the tables of our moment still name.
    await client.query('SELECT pg_advisory_lock(hashtext($1))', [SWEEP_LOCK]);
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const { rows } = await client.query<{ at: Date }>('SELECT now() AS at');
    const at = rows[0]?.at.toISOString() ?? '';
    const migrations = (await listMigrations(client)) ?? [];
    const written = { tables: [] as StoredTable[], files: [] as StoredFile[] };
    const tables = (await listTables(client)).map((table) => entryOf(client, table, written.tables, onProgress));
    const files = await fileEntries(dataDir, written.files, onProgress);
    const summary = (): Manifest => ({ format: FORMAT, at, migrations, ...written });
    await writeArchive(path, [...tables, ...files, manifestEntry(summary)]);
    return describe(summary());
  });
}

function describe({ at, tables, files }: Manifest): BackupSummary {
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
  const bytes = sum([...tables, ...files].map((part) => part.bytes));
  return { at, rows: sum(tables.map(({ rows }) => rows)), files: files.length, bytes };
}

function entryOf(client: Client, table: Table, done: StoredTable[], onProgress: Progress): NewEntry {
  let rows = () => 0;
  return {
    name: tableEntryName(table.name),
    compress: true,
    async open() {
      const copy = copyOut(client, table);
      rows = copy.rows;
      return copy.stream;
    },
    onWritten(written) {
      done.push({ ...table, ...written, rows: rows() });
      if (rows() > 0) onProgress(`${table.name}: ${rows()} rows, ${formatBytes(written.bytes)}`);
    },
  };
}

async function fileEntries(dataDir: string, done: StoredFile[], onProgress: Progress): Promise<NewEntry[]> {
  const entries: NewEntry[] = [];
  let bytes = 0;
  let told = 0;
  for await (const path of listFiles(dataDir)) {
    entries.push({
      name: fileEntryName(path),
      // Assets are mostly packed already, and sources are small.
      compress: false,
      // A file that has gone since is kept as an empty one: entries cannot be taken back.
      open: async () => (await openFile(dataDir, path)) ?? Readable.from([]),
      onWritten(written) {
        done.push({ path, ...written });
        bytes += written.bytes;
        if (bytes - told < PROGRESS_EVERY) return;
        told = bytes;
        onProgress(`files: ${done.length} of ${entries.length}, ${formatBytes(bytes)}`);
      },
    });
  }
  return entries;
}

/** Made when everything else is written. */
const manifestEntry = (summary: () => Manifest): NewEntry => ({
  name: MANIFEST,
  compress: true,
  open: async () => Readable.from([Buffer.from(JSON.stringify(summary()))]),
  onWritten: () => undefined,
});
