/** Package files and bundles on disk, named by their SHA-256: written once, verified when read, never changed. */
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { type Places, sweepUnused } from './blob-sweep.ts';
import { syncPath } from './data-dir.ts';

/** Files that are made durable at once: hides the latency of fsync without filling the disk's queue. */
const COMMIT_CONCURRENCY = 16;
const SHA256 = /^[0-9a-f]{64}$/;

export interface BlobName {
  /** Lower-case hex. */
  readonly sha256: string;
  readonly sizeBytes: number;
}
/** A file that waits in a staging directory. */
export interface StagedFile extends BlobName {
  /** Where it waits on disk. */
  readonly stagedAt: string;
}
/** A directory of files that are not kept yet. Disposing it removes whatever was not committed. */
export interface Staging extends AsyncDisposable {
  /** A path in the directory for scratch files of the caller. */
  scratch(): string;
  /** Writes and hashes a file. The source's own errors pass through, and leave nothing behind. */
  add(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<StagedFile>;
  /** Keeps these files as blobs, durably: after it resolves they survive a power cut. */
  commit(files: readonly StagedFile[]): Promise<void>;
}
export interface Blobs {
  stage(): Promise<Staging>;
  /** Keeps bytes durably. */
  put(bytes: Uint8Array): Promise<BlobName>;
  /** The bytes of a blob, checked against its name. @throws Error when it is missing or does not match. */
  read(sha256: string): Promise<Buffer>;
  /** An unchecked stream of a blob. */
  stream(sha256: string): Readable;
  has(sha256: string): Promise<boolean>;
  /** Removes staging directories older than this, left by processes that were killed. */
  sweepStaging(olderThanMs: number, now: number): Promise<number>;
  /**
   * Removes blobs older than this that nothing names. One sweep at a time; publishes may go on meanwhile.
   *
   * @param findUsed which of these names something names
   */
  sweepUnused(
    olderThanMs: number,
    now: number,
    findUsed: (names: readonly string[]) => Promise<Set<string>>,
  ): Promise<number>;
}

/**
 * Opens the blob store of a data directory, making it if need be.
 *
 * @param dataDir `DATA_DIR`; blobs go below `blobs/`, staging below `staging/` on the same file system, so that a rename is atomic
 */
export async function openBlobs(dataDir: string): Promise<Blobs> {
  const root = join(dataDir, 'blobs');
  const stagingRoot = join(dataDir, 'staging');
  await mkdir(root, { recursive: true, mode: 0o700 });
  const places = { root, condemned: join(dataDir, 'condemned') };
  await mkdir(stagingRoot, { recursive: true, mode: 0o700 });
  await mkdir(places.condemned, { recursive: true, mode: 0o700 });
  const stage = () => openStaging(root, stagingRoot);
  return {
    stage,
    put: async (bytes) => {
      await using staging = await stage();
      const file = await staging.add([bytes]);
      await staging.commit([file]);
      return { sha256: file.sha256, sizeBytes: file.sizeBytes };
    },
    read: (sha256) => readVerified(places, sha256),
    stream: (sha256) => createReadStream(pathOf(root, sha256)),
    has: async (sha256) => (await stat(pathOf(root, sha256)).catch(() => null)) !== null,
    sweepStaging: (olderThanMs, now) => sweep(stagingRoot, now - olderThanMs),
    sweepUnused: (olderThanMs, now, findUsed) => sweepUnused(places, now - olderThanMs, findUsed),
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
    await Promise.all(batch.map((file) => keep(root, file, directories)));
  }
  // A rename is durable only once its directory is: both levels, since the first blob of a prefix makes its directory.
  for (const directory of [...directories, root]) await syncPath(directory);
}

async function keep(root: string, file: StagedFile, directories: Set<string>): Promise<void> {
  const target = pathOf(root, file.sha256);
  const known = await stat(target).catch(() => null);
  if (known?.size === file.sizeBytes) {
    // Fresh again, so that a sweep of unused blobs by age leaves it to the version about to name it.
    const now = new Date();
    const touched = await utimes(target, now, now).then(
      () => true,
      () => false,
    );
    // A sweep may have taken it since the look.
    if (touched) return;
  }
  await syncPath(file.stagedAt);
  const directory = join(root, file.sha256.slice(0, 2));
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await rename(file.stagedAt, target);
  directories.add(directory);
}

async function readVerified({ root, condemned }: Places, sha256: string): Promise<Buffer> {
  const path = pathOf(root, sha256);
  // A sweep that takes one, sees that it was just put to use and gives it back, has it for a moment.
  const bytes = await readFile(path)
    .catch(() => readFile(join(condemned, sha256)))
    .catch(() => readFile(path));
  const actual = createHash('sha256').update(bytes).digest('hex');
  if (actual !== sha256) throw new Error(`blob ${sha256} is damaged on disk: its content hashes to ${actual}`);
  return bytes;
}

function pathOf(root: string, sha256: string): string {
  if (!SHA256.test(sha256)) throw new Error('a blob is named by 64 lower-case hex digits');
  return join(root, sha256.slice(0, 2), sha256.slice(2));
}

async function sweep(stagingRoot: string, before: number): Promise<number> {
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
