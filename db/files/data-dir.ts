/** The folder of all state on disk, and the lock that lets only one service use it. */
import { mkdir, open, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';

/** Another command that only borrows the folder is done well before this, milliseconds. */
const BORROWED_WAIT_MS = 60_000;
/** The winner of the lock has written its name into the folder by then, milliseconds. */
const OWNER_WRITTEN_MS = 500;
const POLL_MS = 50;

/** `service` keeps the folder as long as it runs; `command` has it for a moment and others wait for it. */
export type Purpose = 'service' | 'command';

export interface DataDirLock {
  release(): void;
}

/** DATA_DIR belongs to another running Bulkhead. */
export class DataDirInUseError extends Error {
  override readonly name = 'DataDirInUseError';
}

/**
 * Makes the folder, readable by its owner only.
 *
 * @throws with one sentence when it cannot be made
 */
export async function makeDataDir(dataDir: string): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`DATA_DIR ${dataDir} cannot be made (${error.code}).`);
  });
}

/**
 * Takes the folder for this process. The kernel drops the lock with the process, so `kill -9` leaves nothing stale.
 *
 * @throws DataDirInUseError when a service holds it, or a command does not give it back in time
 */
export async function lockDataDir(dataDir: string, purpose: Purpose): Promise<DataDirLock> {
  await makeDataDir(dataDir);
  const started = Date.now();
  for (;;) {
    const lock = tryLock(join(dataDir, 'lock'));
    if (lock !== null) {
      await replaceFile(join(dataDir, 'owner.json'), JSON.stringify({ pid: process.pid, purpose }));
      return lock;
    }
    const owner = await readOwner(dataDir);
    const waited = Date.now() - started;
    const patience = owner?.purpose === 'command' ? BORROWED_WAIT_MS : OWNER_WRITTEN_MS;
    if (waited > patience) {
      const who = owner === null ? 'another process' : `process ${owner.pid}`;
      throw new DataDirInUseError(`DATA_DIR ${dataDir} is in use by ${who}; stop it or set another DATA_DIR.`);
    }
    await sleep(POLL_MS);
  }
}

/** Writes a private file so that a reader, or a crash, sees the old content or the new, never a part. */
export async function replaceFile(path: string, content: string): Promise<void> {
  const next = `${path}.${process.pid}.new`;
  await writeFile(next, content, { mode: 0o600, flush: true });
  await rename(next, path);
}

/** Makes a file's content, or a folder's names, survive a power cut. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Node has no flock. SQLite's exclusive transaction is the same thing: a POSIX lock on the file, taken at once or not at
 * all, gone with the process, not inherited by children, good between containers and machines that share the folder. The
 * database stays empty.
 *
 * @returns null when another has it
 */
export function tryLock(path: string): DataDirLock | null {
  const file = new DatabaseSync(path, { timeout: 0 });
  try {
    file.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    file.close();
    if (error instanceof Error && /locked|busy/i.test(error.message)) return null;
    throw error;
  }
  return {
    release() {
      if (file.isOpen) file.close();
    },
  };
}

async function readOwner(dataDir: string): Promise<{ pid: number; purpose: Purpose } | null> {
  try {
    return JSON.parse(await readFile(join(dataDir, 'owner.json'), 'utf8'));
  } catch {
    return null;
  }
}
