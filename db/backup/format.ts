/** Defines the format of a backup: a zip file of tables, files and, as the last entry, a manifest with the name and hash of each. */
import { z } from 'zod';

export const FORMAT = 1;
export const MANIFEST = 'manifest.json';
/** Limits memory: the manifest has about 150 bytes per file. */
export const MANIFEST_MAX_BYTES = 1024 ** 3;
/** Folders of `DATA_DIR` in a backup. The rest is recreated or belongs to PostgreSQL. */
export const FOLDERS = ['keys', 'blobs', 'workspaces'] as const;

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const identifier = z.string().regex(/^[a-z_][a-z0-9_]{0,62}$/);
const partition = z.object({
  name: identifier,
  /** As PostgreSQL prints it. Validated strictly, because it becomes part of a statement. */
  bound: z.string().regex(/^FOR VALUES FROM \('[0-9 :.+-]+'\) TO \('[0-9 :.+-]+'\)$/),
});

export const manifest = z.object({
  format: z.literal(FORMAT),
  /** ISO 8601: the time of the snapshot. */
  at: z.string(),
  /** Applied migrations, in order. */
  migrations: z.array(z.string()).min(1),
  /** How many of the migrations, the newest ones, the last upgrade applied. Default: all. Earlier releases did not write it. */
  lastUpgrade: z.number().int().nonnegative().optional(),
  tables: z.array(
    z.object({
      name: identifier,
      columns: z.array(identifier).min(1),
      partitions: z.array(partition),
      rows: z.number().int().nonnegative(),
      bytes: z.number().int().nonnegative(),
      sha256,
    }),
  ),
  /** Paths relative to `DATA_DIR`. */
  files: z.array(
    z.object({
      // No part is `.` or `..`, also behind a line break, which the name of a file may have.
      path: z.string().regex(/^(keys|blobs|workspaces)(?!.*\/\.{1,2}(\/|$))\/[^\\\0]+$/s),
      bytes: z.number().int().nonnegative(),
      sha256,
    }),
  ),
});
export type Manifest = z.output<typeof manifest>;
export type StoredTable = Manifest['tables'][number];
export type StoredFile = Manifest['files'][number];

export const tableEntryName = (name: string): string => `tables/${name}.copy`;
export const fileEntryName = (path: string): string => `files/${path}`;

/** The backup, or the target of a restore, cannot be used. The message is for the operator. */
export class BackupError extends Error {
  override readonly name = 'BackupError';
}

export type Progress = (line: string) => void;

/** A progress line is printed after each of these. Bytes. */
const PROGRESS_EVERY = 512 * 1024 ** 2;

/** Returns a counter of bytes. It calls `report` with the sum so far, once for each `PROGRESS_EVERY`. */
export function createByteCounter(report: (sum: string) => void): (bytes: number) => void {
  let sum = 0;
  let reported = 0;
  return (bytes) => {
    sum += bytes;
    if (sum - reported < PROGRESS_EVERY) return;
    reported = sum;
    report(formatBytes(sum));
  };
}

const UNITS = ['bytes', 'kB', 'MB', 'GB', 'TB'] as const;

export function formatBytes(bytes: number): string {
  const power = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  const value = bytes / 1000 ** power;
  return `${value >= 10 || power === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`;
}
