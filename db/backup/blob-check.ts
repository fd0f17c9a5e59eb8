/** Reads the blobs that a restored database names, where a backup does not contain them as files. */
import type { Pool } from 'pg';
import { listUsedBlobs } from '../catalog/versions.ts';
import { BlobStoreUnavailableError } from '../files/blob-errors.ts';
import type { Blobs } from '../files/blobs.ts';
import { findRow } from '../postgres/rows.ts';
import type { Progress } from './format.ts';

/** Names per query, and per progress line. */
const PAGE = 1_000;

/** @param folder for copies; where blobs are read that are files */
export type OpenBlobs = (store: string, pool: Pool, folder: string) => Promise<Pick<Blobs, 'read'>>;
export interface BlobCheck {
  /** `files`, `database` or `s3://bucket/folder`. */
  readonly store: string;
  readonly blobs: number;
  /** Hashes of those that are missing, or whose content is another. */
  readonly lost: readonly string[];
}

/**
 * @returns null: they are files, which the backup contains and hashes
 * @throws BlobStoreUnavailableError
 */
export async function checkBlobs(
  pool: Pool,
  folder: string,
  openBlobs: OpenBlobs,
  onProgress: Progress,
): Promise<BlobCheck | null> {
  const cluster = await findRow<{ store: string }>(pool, 'SELECT blob_store AS store FROM cluster');
  if (cluster === null || cluster.store === 'files') return null;
  const { store } = cluster;
  const blobs = await openBlobs(store, pool, folder);
  const lost: string[] = [];
  let read = 0;
  for (let after = ''; ; ) {
    const names = await listUsedBlobs(pool, after, PAGE);
    const last = names.at(-1);
    if (last === undefined) return { store, blobs: read, lost };
    after = last;
    for (const name of names) {
      await blobs.read(name).catch((error: unknown) => {
        if (error instanceof BlobStoreUnavailableError) throw error;
        lost.push(name);
      });
    }
    read += names.length;
    onProgress(`${read} blobs of ${store} read`);
  }
}
