/** Checks that every blob which a database names is in its backup, or in the store outside of the backup. */
import type { Pool } from 'pg';
import { listUsedBlobs } from '../catalog/versions.ts';
import { isBlobStoreUnavailable } from '../files/blob-errors.ts';
import type { Blobs } from '../files/blobs.ts';
import { classifyDatabaseError } from '../postgres/database-errors.ts';
import { findValue, type Queryable } from '../postgres/rows.ts';
import { fileEntryName, type Progress, type StoredFile } from './format.ts';

/** Names per query, and per progress line. */
const PAGE = 1_000;

/** @param folder for copies */
export type OpenBlobs = (store: string, pool: Pool, folder: string) => Promise<Pick<Blobs, 'read'>>;
export interface BlobCheck {
  /** `files`, `database` or `s3://bucket/folder`. */
  readonly store: string;
  readonly blobs: number;
  /** Hashes of those that are missing, or whose content is another. */
  readonly lost: readonly string[];
}
export interface BlobCheckOptions {
  /** The database of the backup, restored. */
  readonly pool: Pool;
  /** The files of the backup, with the hashes of their content. */
  readonly files: readonly StoredFile[];
  /** For copies of blobs that are not files. */
  readonly folder: string;
  readonly openBlobs: OpenBlobs;
  readonly onProgress: Progress;
}

/**
 * Looks for blobs that are files among those of the backup, whose content was hashed already, and reads the others.
 *
 * @throws BlobStoreUnavailableError, and any other error that does not say that a blob is lost
 */
export async function checkBlobs({ pool, files, folder, openBlobs, onProgress }: BlobCheckOptions): Promise<BlobCheck> {
  const store = await findBlobStore(pool);
  if (store === 'files') return checkBlobFiles(await listUsed(pool), files);
  const blobs = await openBlobs(store, pool, folder);
  const canRead = (name: string): Promise<boolean> =>
    blobs.read(name).then(
      () => true,
      (error: unknown) => {
        // After a lost connection, or without room for a copy, the blob may be intact.
        if (!isBlobLost(error)) throw error;
        return false;
      },
    );
  return { store, ...(await findLost(pool, canRead, (read) => onProgress(`${read} blobs of ${store} read`))) };
}

/** Names of the blobs that a database uses. Null: they are not files. */
export async function listBlobFiles(db: Queryable): Promise<string[] | null> {
  return (await findBlobStore(db)) === 'files' ? listUsed(db) : null;
}

export async function findBlobStore(db: Queryable): Promise<string> {
  // Without a row, no release has started that can keep blobs elsewhere.
  return (await findValue<string>(db, 'SELECT blob_store FROM cluster')) ?? 'files';
}

/** @param names of the blobs that the database uses */
export function checkBlobFiles(names: readonly string[], files: readonly StoredFile[]): BlobCheck {
  const intact = new Set<string>();
  for (const { path, sha256 } of files) if (path === nameBlobFile(sha256)) intact.add(sha256);
  return { store: 'files', blobs: names.length, lost: names.filter((name) => !intact.has(name)) };
}

/** Path of a blob in `DATA_DIR`. */
const nameBlobFile = (sha256: string): string => `blobs/${sha256.slice(0, 2)}/${sha256.slice(2)}`;

async function findLost(
  db: Queryable,
  isIntact: (name: string) => Promise<boolean>,
  onPage: (checked: number) => void,
): Promise<Omit<BlobCheck, 'store'>> {
  const lost: string[] = [];
  let blobs = 0;
  for await (const names of pageUsed(db)) {
    for (const name of names) if (!(await isIntact(name))) lost.push(name);
    blobs += names.length;
    onPage(blobs);
  }
  return { blobs, lost };
}

async function listUsed(db: Queryable): Promise<string[]> {
  const used: string[] = [];
  for await (const names of pageUsed(db)) used.push(...names);
  return used;
}

async function* pageUsed(db: Queryable): AsyncGenerator<string[]> {
  for (let after: string | undefined = ''; after !== undefined; ) {
    const names = await listUsedBlobs(db, after, PAGE);
    after = names.at(-1);
    if (names.length > 0) yield names;
  }
}

/** Whether the error of `Blobs.read` says that the blob is missing, damaged or on a bad part of the disk. */
export function isBlobLost(error: unknown): boolean {
  if (isBlobStoreUnavailable(error) || classifyDatabaseError(error) === 'busy') return false;
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined || code === 'ENOENT' || code === 'EIO';
}

/**
 * Says what is lost and where it may be found, without a full stop.
 *
 * @param filesPlace where blobs that are files were looked for
 */
export function describeLost(
  { store, blobs, lost }: BlobCheck,
  filesPlace = 'the backup, as they were in DATA_DIR/blobs',
): string {
  const [first = ''] = lost;
  const place = store === 'files' ? filesPlace : store;
  return `${lost.length} of ${blobs} blobs are missing or damaged in ${place}, such as ${first}: ${describeRemedy(store, first)}`;
}

function describeRemedy(store: string, lost: string): string {
  if (store === 'database') return 'use an older backup';
  return store === 'files'
    ? `copy them to DATA_DIR/blobs from an older backup, which is a zip file (${fileEntryName(nameBlobFile(lost))})`
    : 'restore them from older versions of the objects or from a copy of the bucket';
}
