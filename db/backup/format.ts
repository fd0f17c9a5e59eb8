/** What a backup is: one zip file of tables, files and, last, a manifest that names and hashes everything before it. */
import { z } from 'zod';

export const FORMAT = 1;
export const MANIFEST = 'manifest.json';
/** A manifest is read whole: a line of about 150 bytes for each file. */
export const MANIFEST_MAX_BYTES = 1024 ** 3;
/** Folders of `DATA_DIR` that are part of a backup. Everything else there is made anew, or is PostgreSQL's own. */
export const FOLDERS = ['keys', 'blobs', 'workspaces'] as const;

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const identifier = z.string().regex(/^[a-z_][a-z0-9_]{0,62}$/);
const partition = z.object({
  name: identifier,
  /** As PostgreSQL prints it. It becomes a part of a statement again, so it may hold nothing else. */
  bound: z.string().regex(/^FOR VALUES FROM \('[0-9 :.+-]+'\) TO \('[0-9 :.+-]+'\)$/),
});

export const manifest = z.object({
  format: z.literal(FORMAT),
  /** ISO 8601: the moment the tables are of. */
  at: z.string(),
  /** Those the tables had, in order. */
  migrations: z.array(z.string()).min(1),
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
  /** Below `DATA_DIR`. */
  files: z.array(
    z.object({
      path: z.string().regex(/^(keys|blobs|workspaces)\/(?!.*(^|\/)\.{1,2}(\/|$))[^\\\0]+$/),
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

/** What is wrong with a backup, or with the place it is to go to: one sentence for the operator. */
export class BackupError extends Error {
  override readonly name = 'BackupError';
}

/** Told what is done, for a line of progress. */
export type Progress = (line: string) => void;

const UNITS = ['bytes', 'kB', 'MB', 'GB', 'TB'] as const;

/** A size as people read it. */
export function formatBytes(bytes: number): string {
  const power = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  const value = bytes / 1000 ** power;
  return `${value >= 10 || power === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`;
}
