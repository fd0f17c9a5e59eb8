/**
 * Copies of blobs that are stored elsewhere, as files named by their hash. Bounded, and safe for several processes: a copy
 * is checked at each read, and any copy may vanish at any time.
 */
import { hash, randomUUID } from 'node:crypto';
import { readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../../sdk/files/make-folder.ts';

/** The oldest copies go until this share of the limit is left. */
const KEPT_SHARE = 0.9;
/** The folder is looked through after this share of the limit was written. */
const TRIM_SHARE = 1 / 16;
/** A copy that is being written is younger. Milliseconds. */
const UNFINISHED_MS = 60 * 60_000;
const UNFINISHED = '.new';

export interface BlobCache {
  /** Null: there is no undamaged copy. @param maxBytes a larger copy counts as none */
  read(sha256: string, maxBytes?: number): Promise<Buffer | null>;
  /** A copy that cannot be written is not an error. */
  save(sha256: string, bytes: Uint8Array): Promise<void>;
  /** As `save`, with a file of the same file system, which is moved. One that is too large stays. */
  adopt(sha256: string, path: string, sizeBytes: number): Promise<void>;
}

/**
 * @param maxBytes the folder may exceed it by a sixteenth for each process. 0: copies are only read, and none is removed
 */
export async function openBlobCache(folder: string, maxBytes: number): Promise<BlobCache> {
  await makeFolder(folder);
  const locate = (sha256: string): string => join(folder, sha256.slice(0, 2), sha256.slice(2));
  let written = 0;
  let trimming: Promise<void> = Promise.resolve();
  const startTrim = (): Promise<void> => {
    // Where it fails, the next one tries again.
    trimming = trimming.then(() => trim(folder, maxBytes)).catch(() => undefined);
    return trimming;
  };
  async function add(sha256: string, sizeBytes: number, write: (path: string) => Promise<void>): Promise<void> {
    if (maxBytes === 0 || sizeBytes > maxBytes * TRIM_SHARE) return;
    const path = locate(sha256);
    const unfinished = `${path}.${randomUUID()}${UNFINISHED}`;
    try {
      await makeFolder(join(folder, sha256.slice(0, 2)));
      await write(unfinished);
      await rename(unfinished, path);
    } catch {
      await rm(unfinished, { force: true }).catch(() => undefined);
    }
    written += sizeBytes;
    if (written < maxBytes * TRIM_SHARE) return;
    written = 0;
    await startTrim();
  }
  if (maxBytes > 0) await startTrim();
  return {
    async read(sha256, maxBytes = Number.POSITIVE_INFINITY) {
      const path = locate(sha256);
      if (((await stat(path).catch(() => null))?.size ?? 0) > maxBytes) return null;
      const bytes = await readFile(path).catch(() => null);
      if (bytes === null) return null;
      if (hashBytes(bytes) !== sha256) {
        await rm(path, { force: true }).catch(() => undefined);
        return null;
      }
      const now = new Date();
      await utimes(path, now, now).catch(() => undefined);
      return bytes;
    },
    save: (sha256, bytes) => add(sha256, bytes.byteLength, (path) => writeFile(path, bytes, { mode: 0o600 })),
    adopt: (sha256, from, sizeBytes) => add(sha256, sizeBytes, (path) => rename(from, path)),
  };
}

export const hashBytes = (bytes: Uint8Array): string => hash('sha256', bytes);

/** Removes what is beyond the limit, longest unused first. */
async function trim(folder: string, maxBytes: number): Promise<void> {
  const copies: { path: string; bytes: number; usedAt: number }[] = [];
  for (const prefix of await readdir(folder)) {
    for (const name of await readdir(join(folder, prefix)).catch(() => [])) {
      const path = join(folder, prefix, name);
      const found = await stat(path).catch(() => null);
      if (found === null) continue;
      if (!name.endsWith(UNFINISHED)) copies.push({ path, bytes: found.size, usedAt: found.mtimeMs });
      else if (Date.now() - found.mtimeMs > UNFINISHED_MS) await rm(path, { force: true });
    }
  }
  let total = copies.reduce((sum, { bytes }) => sum + bytes, 0);
  if (total <= maxBytes) return;
  for (const { path, bytes } of copies.sort((a, b) => a.usedAt - b.usedAt)) {
    if (total <= maxBytes * KEPT_SHARE) return;
    // An entry that cannot be removed, such as a folder, must not protect the others.
    const isRemoved = await rm(path, { force: true }).then(
      () => true,
      () => false,
    );
    if (isRemoved) total -= bytes;
  }
}
