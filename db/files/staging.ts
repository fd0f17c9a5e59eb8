/** Files that are not blobs yet: in a directory of DATA_DIR for each publish, which ends with it. */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../../sdk/files/make-folder.ts';

export interface BlobName {
  /** Lower-case hex. */
  readonly sha256: string;
  readonly sizeBytes: number;
}
/** A file in a staging directory. */
export interface StagedFile extends BlobName {
  readonly stagedAt: string;
}
/** A directory of files that are not blobs yet. Disposing it removes all files that were not committed. */
export interface Staging extends AsyncDisposable {
  /** Returns a new path in the directory for a scratch file. */
  scratch(): string;
  /** Writes and hashes a file. If the source throws, the file is removed. */
  add(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<StagedFile>;
  /** Turns these files into blobs durably (fsync). */
  commit(files: readonly StagedFile[]): Promise<void>;
}
export interface StagingFolder {
  stage(): Promise<Staging>;
  /** Removes older staging directories, left by processes that were killed. */
  sweepStaging(olderThanMs: number, now: number): Promise<number>;
}

/** @param commit turns staged files into blobs */
export async function openStagingFolder(dataDir: string, commit: Staging['commit']): Promise<StagingFolder> {
  const root = join(dataDir, 'staging');
  await makeFolder(root);
  return {
    stage: () => openStaging(root, commit),
    sweepStaging: (olderThanMs, now) => sweepStaging(root, now - olderThanMs),
  };
}

async function openStaging(stagingRoot: string, commit: Staging['commit']): Promise<Staging> {
  const directory = join(stagingRoot, randomUUID());
  await mkdir(directory, { mode: 0o700 });
  return {
    scratch: () => join(directory, randomUUID()),
    add: (source) => stageFile(join(directory, randomUUID()), source),
    commit,
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
}

async function stageFile(path: string, source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<StagedFile> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  const file = await open(path, 'wx', 0o600);
  try {
    for await (const chunk of source) {
      hash.update(chunk);
      sizeBytes += chunk.byteLength;
      await file.appendFile(chunk);
    }
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
  return { stagedAt: path, sha256: hash.digest('hex'), sizeBytes };
}

async function sweepStaging(stagingRoot: string, before: number): Promise<number> {
  let removed = 0;
  for (const name of await readdir(stagingRoot)) {
    const path = join(stagingRoot, name);
    const found = await stat(path).catch(() => null);
    if (!found || found.mtimeMs >= before) continue;
    await rm(path, { recursive: true, force: true });
    removed += 1;
  }
  return removed;
}
