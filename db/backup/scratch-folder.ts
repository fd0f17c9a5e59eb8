/** A temporary folder for keys. The next call removes a folder that a killed process left behind. */
import { existsSync } from 'node:fs';
import { lstat, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeTemporaryFolder } from '../../sdk/cli/temporary-folder.ts';
import { type DataDirLock, tryLock } from '../files/data-dir.ts';
import type { Progress } from './format.ts';

const PREFIX = 'bulkhead-check-';
const NAME = /^bulkhead-check-\w{6}$/;
/** File that the process of the folder locks. */
const LOCK = 'lock';
/**
 * Age from which a folder without a lock file is removed: an older release made it. A younger one may be about to be locked.
 * Milliseconds.
 */
const UNLOCKED_AGE_MS = 86_400_000;

/** Creates a folder, runs `work` with it and removes it. Before that it removes those that killed processes left. */
export async function withScratchFolder<T>(onProgress: Progress, work: (folder: string) => Promise<T>): Promise<T> {
  await removeAbandoned(onProgress);
  const folder = await makeTemporaryFolder(PREFIX, 'the keys of the backup');
  const lock = tryLock(join(folder, LOCK));
  // Another process found the lock file before it was locked, and removes the folder.
  if (lock === null) return withScratchFolder(onProgress, work);
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
    lock.release();
  }
}

/** Removes this user's folders whose processes are gone. */
async function removeAbandoned(onProgress: Progress): Promise<void> {
  // Where this fails, the new folder cannot be created either, and that error says what to do.
  for (const name of await readdir(tmpdir()).catch(() => [])) {
    if (!NAME.test(name)) continue;
    const folder = join(tmpdir(), name);
    try {
      await removeIfAbandoned(folder);
    } catch (error) {
      onProgress(`the folder ${folder} of an interrupted check cannot be removed: ${(error as Error).message}`);
    }
  }
}

async function removeIfAbandoned(folder: string): Promise<void> {
  const found = await lstat(folder).catch(() => null);
  if (!found?.isDirectory() || found.uid !== process.getuid?.()) return;
  let lock: DataDirLock | null = null;
  if (existsSync(join(folder, LOCK))) {
    lock = tryLock(join(folder, LOCK));
    if (lock === null) return;
  } else if (Date.now() - found.mtimeMs < UNLOCKED_AGE_MS) return;
  await rm(folder, { recursive: true, force: true });
  lock?.release();
}
