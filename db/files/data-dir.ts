/** DATA_DIR, the folder of all state on disk, and the lock that reserves it for one service. */
import { accessSync, constants, existsSync } from 'node:fs';
import { open, readFile, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDiskFull } from '../../sdk/files/disk-full.ts';
import { makeFolder } from '../../sdk/files/make-folder.ts';
import { PRIVATE_FILE, replaceFile } from '../../sdk/files/replace-file.ts';

/** Maximum wait for a command that holds the lock. Milliseconds. */
const COMMAND_WAIT_MS = 60_000;
/** The holder of the lock has written `owner.json` after this time. Milliseconds. */
const OWNER_WRITE_MS = 500;
const POLL_MS = 50;
/** Why this user may not write a file although the user owns it, and what to do, by the code of the error. */
const REFUSALS: Readonly<Record<string, string>> = {
  EROFS: 'the file system is read-only. Mount it for writing',
  EPERM:
    'it is immutable or append-only, or a security policy protects it. Run chattr -i -a on it as root, or change the policy',
};

/**
 * Folder in `DATA_DIR` of files of workspaces that are being written: below `workspaces`, so that a rename from it works when a file system
 * is mounted there. The id of an account does not begin with a dot.
 */
export const WORKSPACE_STAGING = 'workspaces/.staging';

/** A `service` holds the lock while it runs; a `command` holds it briefly, so others wait for it. */
export type Purpose = 'service' | 'command';

export interface DataDirLock {
  release(): void;
}

export class DataDirInUseError extends Error {
  override readonly name = 'DataDirInUseError';
}

/**
 * Creates the folder, readable by its owner only, and tries to write in it.
 *
 * @throws Error when it cannot be created or written
 */
export async function makeDataDir(dataDir: string): Promise<void> {
  await createDataDir(dataDir);
  // Written, because a full disk and a file system that is read-only say so only then.
  const probe = join(dataDir, `probe.${process.pid}.new`);
  try {
    await writeFile(probe, '1', { mode: 0o600 });
  } catch (error) {
    const code = readCode(error);
    const remedy = REFUSALS[code] ?? (isDiskFull(error) ? 'make room there' : 'run this as its owner');
    throw new Error(
      `DATA_DIR ${dataDir} cannot be written (${code}): ${remedy}, or set DATA_DIR to a folder that this user can write.`,
    );
  } finally {
    await rm(probe, { force: true }).catch(() => undefined);
  }
}

async function createDataDir(dataDir: string): Promise<void> {
  await makeFolder(resolve(dataDir)).catch((error: NodeJS.ErrnoException) => {
    throw new Error(
      `DATA_DIR ${dataDir} cannot be created (${error.code}); set DATA_DIR to a folder that this user can create.`,
    );
  });
}

/**
 * Locks the folder for this process. The kernel releases the lock when the process dies, so no stale lock remains.
 *
 * @throws DataDirInUseError when a service holds it, or a command does not release it in time
 */
export async function lockDataDir(dataDir: string, purpose: Purpose): Promise<DataDirLock> {
  await createDataDir(dataDir);
  const started = performance.now();
  for (;;) {
    const lock = tryLock(join(dataDir, 'lock'));
    if (lock !== null) {
      await replaceFile(join(dataDir, 'owner.json'), JSON.stringify({ pid: process.pid, purpose }), PRIVATE_FILE);
      return lock;
    }
    const owner = await readOwner(dataDir);
    const waited = performance.now() - started;
    const maxWait = owner?.purpose === 'command' ? COMMAND_WAIT_MS : OWNER_WRITE_MS;
    if (waited > maxWait) {
      const holder = owner === null ? 'another process' : `process ${owner.pid}`;
      throw new DataDirInUseError(`DATA_DIR ${dataDir} is in use by ${holder}; stop it or set another DATA_DIR.`);
    }
    await sleep(POLL_MS);
  }
}

/** Free and total space of the file system that holds a folder, as an ordinary user may use it. Bytes. */
export async function readFreeSpace(
  folder: string,
): Promise<{ readonly freeBytes: number; readonly totalBytes: number }> {
  const { bavail, blocks, bsize } = await statfs(folder);
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
}

const readCode = (error: unknown): string => (error as NodeJS.ErrnoException | undefined)?.code ?? '';

/** Whether a file could not be written because its file system is full or read-only, until the operator repairs it. */
export const isDiskUnwritable = (error: unknown): boolean => isDiskFull(error) || readCode(error) === 'EROFS';

/**
 * Names the file of another user because of which a file in `DATA_DIR` could not be used. A command of root creates such files if it ran
 * before `DATA_DIR` had its owner.
 *
 * @returns other errors as they are
 */
export async function explainDenied(error: unknown, dataDir: string): Promise<unknown> {
  const path = (error as NodeJS.ErrnoException | undefined)?.path ?? '';
  const folder = resolve(dataDir);
  if (readCode(error) !== 'EACCES' || !`${resolve(path)}/`.startsWith(`${folder}/`)) return error;
  const place = await findVisible(resolve(path));
  const [{ uid }, { uid: owner }] = [await stat(place), await stat(folder)];
  if (uid === process.geteuid?.()) return error;
  const remedy =
    uid === owner
      ? `Run this as that user, who owns ${folder}.`
      : `Run chown -R <user> ${folder} as root, with the user who runs the service.`;
  return new Error(`${path} cannot be used (EACCES): ${place} belongs to user ${uid}. ${remedy}`, { cause: error });
}

/** The path, or the nearest folder above it that exists and that this user can see. */
const findVisible = (path: string): Promise<string> =>
  stat(path).then(
    () => path,
    () => findVisible(dirname(path)),
  );

/** For `catch` of a read: null if the file or folder does not exist. */
export function ignoreMissing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null;
  throw error;
}

export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Locks a file without waiting. Node has no flock, so this uses an exclusive transaction of SQLite: a POSIX lock that ends
 * with the process, is not inherited by children and works between containers and machines that share the folder. The
 * database stays empty.
 *
 * @returns null when another process holds the lock
 * @throws Error; `explainDenied` explains it if this user may not use the file
 */
export function tryLock(path: string): DataDirLock | null {
  refuseDenied(path);
  // Not an import: the command line uses other functions of this file, also on a Node that has no SQLite.
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
  const file = new DatabaseSync(path, { open: false, timeout: 0 });
  try {
    file.open();
    file.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    if (file.isOpen) file.close();
    const message = error instanceof Error ? error.message : String(error);
    if (/locked|busy/i.test(message)) return null;
    // SQLite does not name the file.
    throw new Error(
      `The file ${path} cannot be locked (${message}): it must be a file, on a file system that has locks.`,
      { cause: error },
    );
  }
  return {
    release() {
      if (file.isOpen) file.close();
    },
  };
}

/**
 * SQLite locks a file that this user may only read as a reader, beside others, and does not say why it cannot open one.
 *
 * @throws Error that says what to do, or that `explainDenied` explains
 */
function refuseDenied(path: string): void {
  const place = existsSync(path) ? path : dirname(path);
  try {
    accessSync(place, constants.R_OK | constants.W_OK);
  } catch (error) {
    const code = readCode(error);
    if (code === 'EACCES') throw error;
    const refusal = REFUSALS[code];
    if (refusal === undefined) return;
    throw new Error(
      `The file ${path} cannot be locked, because ${place} cannot be written (${code}): ${refusal}, or use another folder.`,
      { cause: error },
    );
  }
}

async function readOwner(dataDir: string): Promise<{ pid: number; purpose: Purpose } | null> {
  try {
    return JSON.parse(await readFile(join(dataDir, 'owner.json'), 'utf8'));
  } catch {
    // Missing, or another process is replacing it.
    return null;
  }
}
