/** The id of the cluster in its blob store. It tells the store from that of another cluster, and from an empty one. */
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from './data-dir.ts';

/** Where a cluster keeps its blobs. */
export interface BlobPlace {
  /** As the cluster's row names it. */
  readonly store: string;
  /** For messages. */
  readonly description: string;
  /** @returns the id of the cluster whose blobs these are; null: no cluster marked them */
  readMark(): Promise<string | null>;
  writeMark(clusterId: string): Promise<void>;
  /** Whether there are blobs; null: no service ever used this place. */
  hasBlobs(): Promise<boolean | null>;
}

const MARK = 'cluster';

/** Blobs as files below a data directory. */
export function openBlobFolder(dataDir: string): BlobPlace {
  const folder = join(dataDir, 'blobs');
  const mark = join(folder, MARK);
  return {
    store: 'files',
    description: `DATA_DIR ${dataDir}`,
    readMark: () =>
      readFile(mark, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null;
        throw error;
      }),
    async writeMark(clusterId) {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await replaceFile(mark, clusterId);
    },
    hasBlobs: () =>
      readdir(folder).then(
        (names) => names.some((name) => name !== MARK),
        () => null,
      ),
  };
}
