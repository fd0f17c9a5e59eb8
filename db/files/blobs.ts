/** Content-addressed store of package files, bundles and media: named by SHA-256, written once, verified when read. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, rename, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeFolder } from '../../sdk/files/make-folder.ts';
import { hashBytes } from './blob-cache.ts';
import { createRemovedError } from './blob-errors.ts';
import { type BlobFolders, locateBlobFolders, sweepUnused } from './blob-sweep.ts';
import { ignoreMissing, syncPath } from './data-dir.ts';
import { type BlobName, openStagingFolder, type StagedFile, type StagingFolder } from './staging.ts';

/** Files written at once: hides the latency of fsync without filling the disk's queue. */
const COMMIT_CONCURRENCY = 16;
/**
 * How long a blob may be missing because a sweep holds it, milliseconds: it does so for a few system calls. One that a killed sweep
 * left aside is missing for longer.
 */
const HELD_MAX_MS = 1_000;
const HELD_POLL_MS = 5;
const SHA256 = /^[0-9a-f]{64}$/;

export interface Blobs extends StagingFolder {
  /** Stores bytes durably. Replaces a damaged blob. */
  put(bytes: Uint8Array): Promise<BlobName>;
  /** @throws Error when the blob is missing or its content does not match its name */
  read(sha256: string): Promise<Buffer>;
  /**
   * Reads the blob in pieces while the stream is read. A shared store verifies the content: before the last piece, the stream of a
   * damaged blob fails. Files are not verified.
   */
  stream(sha256: string): Readable;
  has(sha256: string): Promise<boolean>;
  /**
   * Makes the sweep spare blobs that were stored, for as long as it spares new ones.
   *
   * @throws BlobStoreUnavailableError when one of them was removed meanwhile
   */
  keep(names: readonly string[]): Promise<void>;
  /**
   * Removes older blobs that are not in use. Publishes may run at the same time, another sweep may not.
   *
   * @param findUsed returns those of the names that are in use
   * @throws IncompleteSweepError after all others are swept, if a blob cannot be removed, or a folder not read
   */
  sweepUnused(
    olderThanMs: number,
    now: number,
    findUsed: (names: readonly string[]) => Promise<Set<string>>,
  ): Promise<number>;
}

/**
 * Opens blobs as files of a data directory and creates its folders if missing.
 *
 * @param dataDir `DATA_DIR`; `blobs/` and `staging/` are on the same file system, so that a rename is atomic
 * @param syncFolder makes renames in a folder durable
 */
export async function openBlobs(dataDir: string, syncFolder = syncPath): Promise<Blobs> {
  const folders = locateBlobFolders(dataDir);
  const { root, condemned } = folders;
  await makeFolder(root);
  await makeFolder(condemned);
  const staging = await openStagingFolder(dataDir, (files) => commit(root, files, syncFolder));
  return {
    ...staging,
    put: async (bytes) => {
      await using staged = await staging.stage();
      const file = await staged.add([bytes]);
      await staged.commit([file]);
      return { sha256: file.sha256, sizeBytes: file.sizeBytes };
    },
    read: (sha256) => readVerified(folders, sha256),
    stream: (sha256) => createReadStream(joinPath(root, sha256)),
    has: async (sha256) => (await stat(joinPath(root, sha256)).catch(() => null)) !== null,
    keep: (names) => keep(folders, names),
    sweepUnused: (olderThanMs, now, findUsed) => sweepUnused(folders, now - olderThanMs, findUsed),
  };
}

async function commit(root: string, files: readonly StagedFile[], syncFolder: typeof syncPath): Promise<void> {
  const distinct = [...new Map(files.map((file) => [file.sha256, file])).values()];
  const directories = new Set<string>();
  for (let start = 0; start < distinct.length; start += COMMIT_CONCURRENCY) {
    const batch = distinct.slice(start, start + COMMIT_CONCURRENCY);
    await Promise.all(batch.map((file) => storeFile(root, file, directories)));
  }
  // A rename is durable only after an fsync of its directory. The root too: a first blob creates its prefix directory.
  for (const directory of [...directories, root]) await syncFolder(directory);
}

async function keep(folders: BlobFolders, names: readonly string[]): Promise<void> {
  const distinct = [...new Set(names)];
  for (let start = 0; start < distinct.length; start += COMMIT_CONCURRENCY) {
    const batch = distinct.slice(start, start + COMMIT_CONCURRENCY);
    await Promise.all(batch.map((name) => keepFile(folders, name)));
  }
}

/** A running sweep may hold the blob for a moment: then it is touched when the sweep has restored it. */
async function keepFile({ root, condemned }: BlobFolders, name: string): Promise<void> {
  const path = joinPath(root, name);
  for (const until = performance.now() + HELD_MAX_MS; ; ) {
    if (await touch(path)) return;
    const isHeld = (await stat(join(condemned, name)).catch(ignoreMissing)) !== null;
    // It may have been restored between the two looks.
    if (!isHeld && (await touch(path))) return;
    if (!isHeld || performance.now() >= until) throw createRemovedError();
    await sleep(HELD_POLL_MS);
  }
}

/** @returns false where there is no such file */
async function touch(path: string): Promise<boolean> {
  const now = new Date();
  return (await utimes(path, now, now).catch(ignoreMissing)) !== null;
}

async function storeFile(root: string, file: StagedFile, directories: Set<string>): Promise<void> {
  const target = joinPath(root, file.sha256);
  const directory = dirname(target);
  // Also if the file is there already: a publish that is still running, or was killed, may have renamed it a moment ago.
  directories.add(directory);
  // A file that the disk changed is replaced: the bytes at hand may be the only whole copy.
  if (await isIntact(target, file)) {
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
  await makeFolder(directory);
  await rename(file.stagedAt, target);
}

/** False where it is missing or cannot be read, too. */
async function isIntact(path: string, { sha256, sizeBytes }: BlobName): Promise<boolean> {
  const found = await stat(path).catch(() => null);
  if (found?.size !== sizeBytes) return false;
  return hashFile(path).then(
    (actual) => actual === sha256,
    () => false,
  );
}

async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return hash.digest('hex');
}

async function readVerified({ root, condemned }: BlobFolders, sha256: string): Promise<Buffer> {
  const path = joinPath(root, sha256);
  // A running sweep may hold the blob for a moment before it restores it.
  const bytes = await readFile(path)
    .catch(() => readFile(join(condemned, sha256)))
    .catch(() => readFile(path));
  const actual = hashBytes(bytes);
  if (actual !== sha256)
    throw new Error(
      `Blob ${sha256} is damaged on disk: its content has the hash ${actual}. Restore it from a backup, or publish a version with the same file: that replaces it.`,
    );
  return bytes;
}

/** @throws Error for anything but a hash, which could name another file */
export function requireHash(sha256: string): void {
  if (!SHA256.test(sha256)) throw new Error('The name of a blob must be 64 lower-case hex digits.');
}

function joinPath(root: string, sha256: string): string {
  requireHash(sha256);
  return join(root, sha256.slice(0, 2), sha256.slice(2));
}
