/** Reads and restores the files of a backup: keys, blobs and workspaces in `DATA_DIR`. */
import { constants, lstat, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import type { Readable } from 'node:stream';
import { ignoreMissing, makeFolder } from '../files/data-dir.ts';
import { BackupError, FOLDERS } from './format.ts';

/** Exists during a restore and after an interrupted one. Contains the text that the restore commits with its rows. */
const MARKER = 'restore.unfinished';

/**
 * Lists regular files as paths relative to `DATA_DIR`, separated by `/`. Skips links and devices, which plugins and agents
 * can create in workspaces.
 */
export async function* listFiles(dataDir: string): AsyncGenerator<string> {
  for (const folder of FOLDERS) {
    // A folder that does not exist yet has no files.
    const entries = await readdir(join(dataDir, folder), { withFileTypes: true, recursive: true }).catch(ignoreMissing);
    for (const entry of entries ?? []) {
      if (!entry.isFile() || entry.name.endsWith('.new')) continue;
      const path = join(entry.parentPath, entry.name).slice(dataDir.length + 1);
      yield path.split(sep).join('/');
    }
  }
}

/** Does not follow links. Null: the file is gone, which can happen at any time in a workspace. */
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
 * Removes the files of an interrupted restore and marks the restore as started.
 *
 * @throws BackupError naming a folder that is not empty
 */
export async function prepareRestore(dataDir: string, marker: string): Promise<void> {
  const wasInterrupted = await isUnfinished(dataDir);
  for (const folder of FOLDERS) {
    const path = join(dataDir, folder);
    if (wasInterrupted) await rm(path, { recursive: true, force: true });
    const [first] = (await readdir(path).catch(ignoreMissing)) ?? [];
    if (first !== undefined) throw new BackupError(`${path} is not empty. Restore into a new DATA_DIR.`);
  }
  await writeFile(join(dataDir, MARKER), marker, { mode: 0o600, flush: true });
}

/** Writes one file durably. */
export async function restoreFile(dataDir: string, path: string, source: Readable): Promise<void> {
  const target = join(dataDir, path);
  await makeFolder(dirname(target));
  await writeFile(target, source, { mode: 0o600, flag: 'wx', flush: true });
}

export function finishRestore(dataDir: string): Promise<void> {
  return rm(join(dataDir, MARKER), { force: true });
}

/** Whether a restore into this data directory was interrupted. */
export async function isUnfinished(dataDir: string): Promise<boolean> {
  return (await lstat(join(dataDir, MARKER)).catch(() => null)) !== null;
}

/** Reads what an interrupted restore committed with its rows, if it got that far. Null: no restore was interrupted. */
export function readMarker(dataDir: string): Promise<string | null> {
  return readFile(join(dataDir, MARKER), 'utf8').catch(ignoreMissing);
}
