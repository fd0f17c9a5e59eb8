/** The id of the cluster in its blob store. It tells the store from that of another cluster, and from an empty one. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Pool } from 'pg';
import { makeFolder } from '../../sdk/files/make-folder.ts';
import { PRIVATE_FILE, replaceFile } from '../../sdk/files/replace-file.ts';
import { findValue } from '../postgres/rows.ts';
import { ignoreMissing } from './data-dir.ts';
import { type ObjectStore, toContent } from './s3.ts';
import { hasStoredBlobs } from './stored-blobs.ts';

/** Where a cluster keeps its blobs. */
export interface BlobPlace {
  /** The name of the store in the cluster's row. */
  readonly store: string;
  /** For messages: the place, and the setting that names it. */
  readonly description: string;
  readonly setting: 'DATA_DIR' | 'BLOBS';
  /** @returns the id of the cluster whose blobs these are; null: no cluster marked them */
  readMark(): Promise<string | null>;
  writeMark(clusterId: string): Promise<void>;
  /** Whether there are blobs; null: no service ever used this place. */
  hasBlobs(): Promise<boolean | null>;
}

const MARK = 'cluster';
/** A longer one is not a mark. Bytes. */
const MARK_MAX_BYTES = 100;

/** Blobs as files below a data directory. */
export function openBlobFolder(dataDir: string): BlobPlace {
  const folder = join(dataDir, 'blobs');
  const mark = join(folder, MARK);
  return {
    store: 'files',
    description: `DATA_DIR ${dataDir}`,
    setting: 'DATA_DIR',
    readMark: () => readFile(mark, 'utf8').catch(ignoreMissing),
    async writeMark(clusterId) {
      await makeFolder(folder);
      await replaceFile(mark, clusterId, PRIVATE_FILE);
    },
    hasBlobs: () =>
      readdir(folder).then(
        (names) => names.some((name) => name !== MARK),
        () => null,
      ),
  };
}

/** Blobs as rows of the database, which always belong to it. */
export const openBlobRows = (pool: Pool): BlobPlace => ({
  store: 'database',
  description: 'the database',
  setting: 'BLOBS',
  readMark: () => findValue(pool, 'SELECT id FROM cluster'),
  writeMark: async () => undefined,
  hasBlobs: async () => (await hasStoredBlobs(pool)) || null,
});

/** Blobs as objects of a bucket. */
export const openBlobObjects = (objects: ObjectStore): BlobPlace => ({
  store: objects.address,
  description: objects.address,
  setting: 'BLOBS',
  readMark: async () => (await objects.get(MARK, MARK_MAX_BYTES))?.toString('utf8') ?? null,
  writeMark: (clusterId) => objects.put(MARK, toContent(Buffer.from(clusterId))),
  hasBlobs: async () => null,
});
