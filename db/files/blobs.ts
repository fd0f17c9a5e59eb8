/** Content-addressed store of package files and bundles: named by SHA-256, written once, verified when read. */
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { type BlobFolders, sweepUnused } from './blob-sweep.ts';
import { syncPath } from './data-dir.ts';

/** Files written at once: hides the latency of fsync without filling the disk's queue. */
const COMMIT_CONCURRENCY = 16;
const SHA256 = /^[0-9a-f]{64}$/;

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
export interface Blobs {
  stage(): Promise<Staging>;
  /** Stores bytes durably. */
  put(bytes: Uint8Array): Promise<BlobName>;
  /** @throws Error when the blob is missing or its content does not match its name */
  read(sha256: string): Promise<Buffer>;
  /** Does not verify the content. */
  stream(sha256: string): Readable;
  has(sha256: string): Promise<boolean>;
  /** Removes older staging directories, left by processes that were killed. */
  sweepStaging(olderThanMs: number, now: number): Promise<number>;
  /**
   * Removes older blobs that are not in use. Publishes may run at the same time, another sweep may not.
   *
   * @param findUsed returns those of the names that are in use
   */
  sweepUnused(
    olderThanMs: number,
    now: number,
    findUsed: (names: readonly string[]) => Promise<Set<string>>,
  ): Promise<number>;
}

/**
 * Opens the blob store of a data directory and creates its folders if missing.
 *
 * @param dataDir `DATA_DIR`; `blobs/` and `staging/` are on the same file system, so that a rename is atomic
 */
export async function openBlobs(dataDir: string): Promise<Blobs> {
  const root = join(dataDir, 'blobs');
  const stagingRoot = join(dataDir, 'staging');
  await mkdir(root, { recursive: true, mode: 0o700 });
  const folders = { root, condemned: join(dataDir, 'condemned') };
  await mkdir(stagingRoot, { recursive: true, mode: 0o700 });
  await mkdir(folders.condemned, { recursive: true, mode: 0o700 });
  const stage = () => openStaging(root, stagingRoot);
  return {
    stage,
    put: async (bytes) => {
      await using staging = await stage();
      const file = await staging.add([bytes]);
      await staging.commit([file]);
      return { sha256: file.sha256, sizeBytes: file.sizeBytes };
    },
    read: (sha256) => readVerified(folders, sha256),
    stream: (sha256) => createReadStream(joinPath(root, sha256)),
    has: async (sha256) => (await stat(joinPath(root, sha256)).catch(() => null)) !== null,
    sweepStaging: (olderThanMs, now) => sweepStaging(stagingRoot, now - olderThanMs),
    sweepUnused: (olderThanMs, now, findUsed) => sweepUnused(folders, now - olderThanMs, findUsed),
  };
}

async function openStaging(root: string, stagingRoot: string): Promise<Staging> {
  const directory = join(stagingRoot, randomUUID());
  await mkdir(directory, { mode: 0o700 });
  return {
    scratch: () => join(directory, randomUUID()),
    add: (source) => stageFile(join(directory, randomUUID()), source),
    commit: (files) => commit(root, files),
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
      await writeAll(file, chunk);
    }
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
  return { stagedAt: path, sha256: hash.digest('hex'), sizeBytes };
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let done = 0; done < chunk.byteLength; ) done += (await file.write(chunk, done)).bytesWritten;
}

async function commit(root: string, files: readonly StagedFile[]): Promise<void> {
  const distinct = [...new Map(files.map((file) => [file.sha256, file])).values()];
  const directories = new Set<string>();
  for (let start = 0; start < distinct.length; start += COMMIT_CONCURRENCY) {
    const batch = distinct.slice(start, start + COMMIT_CONCURRENCY);
    await Promise.all(batch.map((file) => storeFile(root, file, directories)));
  }
  // A rename is durable only after an fsync of its directory. The root too: a first blob creates its prefix directory.
  for (const directory of [...directories, root]) await syncPath(directory);
}

async function storeFile(root: string, file: StagedFile, directories: Set<string>): Promise<void> {
  const target = joinPath(root, file.sha256);
  const existing = await stat(target).catch(() => null);
  if (existing?.size === file.sizeBytes) {
    // Touched, so that the sweep spares it until the new version's row refers to it.
    const now = new Date();
    const isTouched = await utimes(target, now, now).then(
      () => true,
      // The sweep moved it away after the check.
      () => false,
    );
    if (isTouched) return;
  }
  await syncPath(file.stagedAt);
  const directory = join(root, file.sha256.slice(0, 2));
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await rename(file.stagedAt, target);
  directories.add(directory);
}

async function readVerified({ root, condemned }: BlobFolders, sha256: string): Promise<Buffer> {
  const path = joinPath(root, sha256);
  // A running sweep may hold the blob for a moment before it restores it.
  const bytes = await readFile(path)
    .catch(() => readFile(join(condemned, sha256)))
    .catch(() => readFile(path));
  const actual = createHash('sha256').update(bytes).digest('hex');
  if (actual !== sha256)
    throw new Error(`Blob ${sha256} is damaged on disk: its content has the hash ${actual}. Restore it from a backup.`);
  return bytes;
}

function joinPath(root: string, sha256: string): string {
  if (!SHA256.test(sha256)) throw new Error('The name of a blob must be 64 lower-case hex digits.');
  return join(root, sha256.slice(0, 2), sha256.slice(2));
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
