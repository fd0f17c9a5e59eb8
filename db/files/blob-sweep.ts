/**
 * Removes blobs that no row refers to. A concurrent publish may reuse one: it touches the file first and inserts its
 * row afterwards. So the sweep moves a blob aside, checks its modification time again and restores it if it was touched
 * in between. A later publish finds no file to touch and writes a new copy.
 */
import { readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { makeFolder } from '../../sdk/files/make-folder.ts';
import { IncompleteSweepError } from './blob-errors.ts';
import { ignoreMissing } from './data-dir.ts';

/** Number of blobs per query. */
const BATCH = 5_000;
const PREFIX = /^[0-9a-f]{2}$/;
const REST = /^[0-9a-f]{62}$/;

export interface BlobFolders {
  readonly root: string;
  /** On the same file system as the root. Empty except during a sweep, or after one that was killed. */
  readonly condemned: string;
}
type FindUsed = (names: readonly string[]) => Promise<Set<string>>;

export const locateBlobFolders = (dataDir: string): BlobFolders => ({
  root: join(dataDir, 'blobs'),
  condemned: join(dataDir, 'condemned'),
});

const joinPath = ({ root }: BlobFolders, name: string): string => join(root, name.slice(0, 2), name.slice(2));

/**
 * @returns how many were removed
 * @throws IncompleteSweepError if a folder cannot be read, or a blob not removed, after all others are swept
 */
export async function sweepUnused(folders: BlobFolders, before: number, findUsed: FindUsed): Promise<number> {
  await restoreCondemned(folders);
  let removed = 0;
  let names: string[] = [];
  let fault: Error | null = null;
  // One folder that root created must not keep the blobs of all others.
  const report = (error: Error): void => {
    fault ??= error;
  };
  for (const prefix of (await readdir(folders.root)).filter((name) => PREFIX.test(name))) {
    const rests = await readdir(join(folders.root, prefix)).catch((error: Error) => {
      report(error);
      return [];
    });
    for (const rest of rests) {
      if (REST.test(rest) && (await isOld(join(folders.root, prefix, rest), before))) names.push(`${prefix}${rest}`);
    }
    if (names.length < BATCH) continue;
    removed += await removeUnused(folders, before, names, findUsed, report);
    names = [];
  }
  removed += await removeUnused(folders, before, names, findUsed, report);
  if (fault !== null) throw new IncompleteSweepError(fault);
  return removed;
}

/** Restores the blobs that a killed sweep left aside. Call it only when no other sweep runs. */
export async function restoreCondemned(folders: BlobFolders): Promise<void> {
  for (const name of (await readdir(folders.condemned).catch(ignoreMissing)) ?? []) await restore(folders, name);
}

async function restore(folders: BlobFolders, name: string): Promise<void> {
  const path = joinPath(folders, name);
  await makeFolder(dirname(path));
  const aside = join(folders.condemned, name);
  // Touched, because with an old modification time this sweep would remove it before the publish that uses it inserts its row.
  const now = new Date();
  if ((await utimes(path, now, now).catch(ignoreMissing)) !== null) {
    // A publish wrote a copy meanwhile. It stays: its content was verified then, and the file that was moved aside may be damaged.
    await rm(aside, { force: true });
    return;
  }
  await utimes(aside, now, now);
  await rename(aside, path);
}

async function removeUnused(
  folders: BlobFolders,
  before: number,
  names: readonly string[],
  findUsed: FindUsed,
  report: (error: Error) => void,
): Promise<number> {
  if (names.length === 0) return 0;
  const used = await findUsed(names);
  let removed = 0;
  for (const name of names) {
    if (used.has(name)) continue;
    const isRemoved = await removeIfOld(folders, before, name).catch((error: Error) => {
      // The next sweep tries again.
      report(error);
      return false;
    });
    if (isRemoved) removed += 1;
  }
  return removed;
}

/** @returns false: it was touched meanwhile, or is missing */
async function removeIfOld(folders: BlobFolders, before: number, name: string): Promise<boolean> {
  const aside = join(folders.condemned, name);
  if ((await rename(joinPath(folders, name), aside).catch(ignoreMissing)) === null) return false;
  if (!(await isOld(aside, before))) {
    await restore(folders, name);
    return false;
  }
  await rm(aside, { force: true });
  return true;
}

/** False for a missing file. */
async function isOld(path: string, before: number): Promise<boolean> {
  const found = await stat(path).catch(() => null);
  return found !== null && found.mtimeMs < before;
}
