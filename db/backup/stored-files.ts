/** The files of `DATA_DIR` that belong to a backup: keys, blobs and workspaces. */
import { constants, lstat, mkdir, open, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import type { Readable } from 'node:stream';
import { BackupError, FOLDERS } from './format.ts';

/** There while a restore is at work, and after one that was cut off. */
const MARKER = 'restore.unfinished';

/**
 * The regular files, as paths below `DATA_DIR` with `/` between their parts.
 *
 * Plugins and agents write in workspaces: links and devices there are left out, and never followed.
 */
export async function* listFiles(dataDir: string): AsyncGenerator<string> {
  for (const folder of FOLDERS) {
    const entries = await readdir(join(dataDir, folder), { withFileTypes: true, recursive: true }).catch(() => []);
    for (const entry of entries) {
      if (!entry.isFile() || entry.name.endsWith('.new')) continue;
      const path = join(entry.parentPath, entry.name).slice(dataDir.length + 1);
      yield path.split(sep).join('/');
    }
  }
}

/** Opens a file for reading, but no link. Null: it is gone, as a file of a workspace may be at any moment. */
export async function openFile(dataDir: string, path: string): Promise<Readable | null> {
  try {
    const handle = await open(join(dataDir, path), constants.O_RDONLY | constants.O_NOFOLLOW);
    return handle.createReadStream();
  } catch (error) {
    if (['ENOENT', 'ELOOP'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}

/**
 * Makes a data directory ready to take files: nothing of ours may be there, but what a restore that was cut off left.
 *
 * @throws BackupError naming the folder that is not empty
 */
export async function prepareRestore(dataDir: string): Promise<void> {
  const cutOff = await isUnfinished(dataDir);
  for (const folder of FOLDERS) {
    const path = join(dataDir, folder);
    if (cutOff) await rm(path, { recursive: true, force: true });
    const [first] = await readdir(path).catch(() => []);
    if (first !== undefined) throw new BackupError(`${path} is not empty: restore into a new DATA_DIR.`);
  }
  await writeFile(join(dataDir, MARKER), '', { mode: 0o600, flush: true });
}

/** Writes one file durably. */
export async function restoreFile(dataDir: string, path: string, source: Readable): Promise<void> {
  const target = join(dataDir, path);
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  await writeFile(target, source, { mode: 0o600, flag: 'wx', flush: true });
}

/** The restore is over. */
export function finishRestore(dataDir: string): Promise<void> {
  return rm(join(dataDir, MARKER), { force: true });
}

/** Whether a restore into this data directory was begun and not finished. */
export async function isUnfinished(dataDir: string): Promise<boolean> {
  return (await lstat(join(dataDir, MARKER)).catch(() => null)) !== null;
}
