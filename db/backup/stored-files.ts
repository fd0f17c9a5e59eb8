/** Reads and restores the files of a backup: keys, blobs and workspaces in `DATA_DIR`. */
import { randomUUID } from 'node:crypto';
import type { Dirent } from 'node:fs';
import {
  constants,
  type FileHandle,
  lstat,
  open,
  readdir,
  readFile,
  readlink,
  realpath,
  rm,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { makeFolder } from '../../sdk/files/make-folder.ts';
import { explainDenied, ignoreMissing, WORKSPACE_STAGING } from '../files/data-dir.ts';
import { BackupError, FOLDERS } from './format.ts';

/** Exists during a restore and after an interrupted one. Contains the text that the restore commits with its rows. */
export const MARKER = 'restore.unfinished';

/** Called for a part of a workspace that is not in the backup. `reason` is a clause. */
export type LeaveOut = (path: string, reason: string) => void;

/** False for the folder of all workspaces. */
const isInWorkspace = (path: string): boolean => path.startsWith('workspaces/');
/** Key and blob stores write a file under such a name first. In a workspace, the name is an agent's. */
const isBeingWritten = (path: string): boolean =>
  isInWorkspace(path) ? path.startsWith(`${WORKSPACE_STAGING}/`) : path.endsWith('.new');

/**
 * Lists regular files as paths relative to `DATA_DIR`, separated by `/`. Skips links and devices, which plugins and agents
 * can create in workspaces.
 */
export async function* listFiles(dataDir: string, leaveOut: LeaveOut): AsyncGenerator<string> {
  const folders: string[] = [...FOLDERS];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    // Not `recursive`: one folder that an agent removes meanwhile would end the list.
    for (const entry of await readFolder(dataDir, folder, leaveOut)) {
      const path = `${folder}/${entry.name}`;
      if (!entry.isDirectory() && !entry.isFile()) continue;
      // In a zip file it would separate folders.
      if (entry.name.includes('\\')) leaveOut(path, 'its name has a backslash');
      else if (entry.isDirectory()) folders.push(path);
      else if (!isBeingWritten(path)) yield path;
    }
  }
}

async function readFolder(dataDir: string, folder: string, leaveOut: LeaveOut): Promise<readonly Dirent[]> {
  try {
    return await readdir(join(dataDir, folder), { withFileTypes: true });
  } catch (error) {
    const code = readCode(error);
    // It was never created, or is removed by now.
    if (code === 'ENOENT') return [];
    if (!isInWorkspace(folder)) throw await explainUnread(error, dataDir, folder);
    leaveOut(folder, `it cannot be read (${code})`);
    return [];
  }
}

/** Opens a file of `listFiles`. Null: in a workspace, it may be gone at any time, or something else may have its name. */
export async function openFile(dataDir: string, path: string, leaveOut: LeaveOut): Promise<Readable | null> {
  // O_NONBLOCK: to open a named pipe would wait for a writer.
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  try {
    const file = await open(join(dataDir, path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!isInWorkspace(path) || ((await file.stat()).isFile() && (await isAt(file, dataDir, path))))
      return file.createReadStream();
    await file.close();
  } catch (error) {
    const code = readCode(error);
    if (!isInWorkspace(path)) throw await explainUnread(error, dataDir, path, ' Repeat the backup.');
    if (code !== 'ENOENT') leaveOut(path, `it cannot be read (${code})`);
  }
  return null;
}

/** False where a link has replaced a folder of the path since it was listed: the link could lead to the keys. */
async function isAt(file: FileHandle, dataDir: string, path: string): Promise<boolean> {
  const place = await readlink(`/proc/self/fd/${file.fd}`).catch(() => null);
  // Not Linux: a development machine.
  if (place === null) return true;
  const [folder = '', ...names] = path.split('/');
  return place === join(await realpath(join(dataDir, folder)), ...names);
}

async function explainUnread(error: unknown, dataDir: string, path: string, remedy = ''): Promise<unknown> {
  const explained = await explainDenied(error, dataDir);
  if (explained !== error) return explained;
  return new BackupError(`${join(dataDir, path)} cannot be read (${readCode(error)}).${remedy}`);
}

const readCode = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? String(error);

/**
 * Removes the files of an interrupted restore of the same backup and marks the restore as started.
 *
 * @param backup names the backup: the marker begins with it
 * @returns the marker
 * @throws BackupError naming a folder that is not empty
 */
export async function prepareRestore(dataDir: string, backup: string): Promise<string> {
  const found = await readMarker(dataDir);
  const isContinued = found?.startsWith(backup) ?? false;
  for (const folder of FOLDERS) {
    const path = join(dataDir, folder);
    // A service that used the workspaces has made their staging folder, which has no files of a workspace.
    const entries = ((await readdir(path).catch(ignoreMissing)) ?? []).filter(
      (name) => `${folder}/${name}` !== WORKSPACE_STAGING,
    );
    if (entries.length > 0 && !isContinued)
      throw new BackupError(
        found === null
          ? `${path} is not empty. Restore into a new DATA_DIR.`
          : `${path} is not empty, and the restore that ${join(dataDir, MARKER)} marks as interrupted is that of another backup. Restore that backup again, or restore into a new DATA_DIR.`,
      );
    // Not the folder itself: a file system may be mounted there.
    for (const name of entries) await rm(join(path, name), { recursive: true, force: true });
  }
  const marker = `${backup}${randomUUID()}`;
  await writeFile(join(dataDir, MARKER), marker, { mode: 0o600, flush: true });
  return marker;
}

/** Writes one file and flushes its content to the disk. */
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
