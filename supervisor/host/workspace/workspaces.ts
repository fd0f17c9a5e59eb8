/**
 * One workspace directory per account, below `DATA_DIR/workspaces`. Agents and operators may write there too, so
 * nothing in it is trusted.
 */
import { randomUUID } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, readdir, rename, rm, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { WORKSPACE_STAGING } from '../../../db/files/data-dir.ts';
import { KeyedLocks } from '../../../db/timing/keyed-locks.ts';
import { limits } from '../../../sdk/contract/limits.ts';
import { isDiskFull } from '../../../sdk/files/disk-full.ts';
import { makeFolder } from '../../../sdk/files/make-folder.ts';
import { TokenBuckets } from '../../../service/timing/token-bucket.ts';
import { HostError } from '../host-call.ts';
import {
  DEPTH_MAX,
  findSpelling,
  inDirectory,
  onTrail,
  openEntry,
  openRoot,
  pathIn,
  prune,
  readCode,
  requireNewName,
  splitPath,
  type Trail,
} from './anchored-paths.ts';
import { listTree, measureTree, type TreeFile, type Usage } from './tree.ts';

/** Reads of one account at a time: each holds a buffer of the largest file, and open files. */
const READS_AT_ONCE = 4;
const LIST_FILES: number = limits.workspaceListFiles;
/** Maximum number of names that one list looks at. */
const LIST_ENTRIES = 2 * LIST_FILES;
/**
 * Names that the lists of one account look at, also those that fail. A file takes 20 microseconds of processor time, a directory 50.
 * The measurements of its workspace look at as many a second, without the burst.
 */
const NAME_RATE = { burst: 10 * LIST_FILES, perSecond: LIST_FILES };
/** How long a measured size is reused. Bulkhead's own writes are added to it; those of agents are seen at the next measurement. Milliseconds. */
const USAGE_REUSED_MS = 10_000;
/** The same of a full workspace, in which an agent or operator may have made room. Measuring 10,000 files takes 0.3 s. Milliseconds. */
const FULL_REUSED_MS = 2_000;
/**
 * Older temporary files were left by a killed process. A write takes seconds, but another machine may be writing the file to a shared file
 * system, and the clocks of the machines and of the file server differ. Milliseconds.
 */
const LEFT_OVER_MS = 60 * 60_000;
const SECOND_MS = 1_000;
const SWEEP_EVERY_MS = 5 * 60_000;
/** Folder in `DATA_DIR` of the temporary files of earlier releases. */
const EARLIER_STAGING = 'workspace-staging';
const ACCOUNT_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;

export interface WorkspaceQuota {
  readonly bytes: number;
  /** Number of files and directories. */
  readonly files: number;
}
interface Known extends Usage {
  readonly measuredAt: number;
}

export class Workspaces {
  readonly #root: string;
  readonly #staging: string;
  readonly #earlierStaging: string;
  readonly #quota: WorkspaceQuota;
  readonly #record: (accountId: string, bytes: number) => Promise<void>;
  readonly #usage = new Map<string, Known>();
  /** Changes of an account run one after the other, so that two cannot use the same free space. */
  readonly #changes = new KeyedLocks();
  /** A list looks at thousands of files, so each account makes one at a time. */
  readonly #lists = new KeyedLocks();
  readonly #reads = new KeyedLocks();
  #readCount = 0;
  readonly #nameRates: TokenBuckets;
  readonly #namesPerSecond: number;
  readonly #now: () => number;
  #sweptAt = 0;

  /**
   * @param dataDir `DATA_DIR`, which contains the workspaces
   * @param record called with the size of a workspace after each change
   * @param nameRate in names
   * @param now milliseconds of a monotonic clock
   */
  constructor(
    dataDir: string,
    quota: WorkspaceQuota,
    record: (accountId: string, bytes: number) => Promise<void> = async () => undefined,
    nameRate = NAME_RATE,
    now: () => number = () => performance.now(),
  ) {
    this.#root = join(dataDir, 'workspaces');
    this.#staging = join(dataDir, WORKSPACE_STAGING);
    this.#earlierStaging = join(dataDir, EARLIER_STAGING);
    this.#quota = quota;
    this.#record = record;
    this.#nameRates = new TokenBuckets(nameRate, now);
    this.#namesPerSecond = nameRate.perSecond;
    this.#now = now;
  }

  /** Lists the files below a directory or of the whole workspace. @throws HostError */
  async list(accountId: string, path: string | undefined, signal?: AbortSignal): Promise<TreeFile[]> {
    const names = path === undefined || path === '.' ? [] : splitPath(path, DEPTH_MAX);
    return this.#lists.run(accountId, async () => {
      signal?.throwIfAborted();
      const rate = this.#nameRates.get(accountId);
      await rate.waitOutDebt(signal);
      return this.#in(accountId, names, async (directory, found) => {
        const bounds = { files: LIST_FILES, entries: LIST_ENTRIES, onEntry: () => void rate.overdraw(1) };
        const files = await listTree(directory, found, bounds);
        if (!files)
          throw new HostError(
            `there are more than ${LIST_FILES} files, or ${LIST_ENTRIES} files and directories: list a directory below`,
          );
        return files;
      });
    });
  }

  /** Reads a regular file. @throws HostError */
  async read(accountId: string, path: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const { directories, name } = splitFilePath(path);
    this.#readCount += 1;
    return this.#reads.run(`${accountId} ${this.#readCount % READS_AT_ONCE}`, async () => {
      signal.throwIfAborted();
      return this.#in(accountId, directories, async (directory) => {
        const file = await openEntry(directory, await findSpelling(directory, name));
        try {
          const found = await file.stat();
          if (!found.isFile()) throw new HostError('it is not a regular file');
          // A hard link may lead to a file outside the workspace.
          if (found.nlink > 1) throw new HostError('the file has several names (hard links); copy it to read it');
          if (found.size > maxBytes) throw new HostError(`the file is larger than ${maxBytes} bytes`);
          signal.throwIfAborted();
          return await readAtMost(file, maxBytes);
        } finally {
          await file.close();
        }
      });
    });
  }

  /** Writes a file atomically and durably. @throws HostError */
  async write(accountId: string, path: string, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    const { directories, name } = splitFilePath(path);
    return this.#changes.run(accountId, async () => {
      signal.throwIfAborted();
      if (Date.now() - this.#sweptAt > SWEEP_EVERY_MS) await this.sweep();
      const before = await this.#findFile(accountId, directories, name);
      if (before) await this.#requireRoom(accountId, bytes.byteLength - before.size, 0);
      else await this.#requireRoom(accountId, bytes.byteLength, directories.length + 1);
      await this.#along(accountId, directories, true, async (trail) => {
        const directory = trail.directories.at(-1) as FileHandle;
        await this.#replace(accountId, directory, await findSpelling(directory, name), bytes, trail.made, signal);
      });
      await this.#recordUsage(accountId);
    });
  }

  /** Removes a file and the directories it leaves empty. @throws HostError */
  async remove(accountId: string, path: string, signal?: AbortSignal): Promise<void> {
    const { directories, name } = splitFilePath(path);
    return this.#changes.run(accountId, async () => {
      await this.#along(accountId, directories, false, async (trail) => {
        signal?.throwIfAborted();
        const directory = trail.directories.at(-1) as FileHandle;
        const place = pathIn(directory, await findSpelling(directory, name));
        const found = await lstat(place);
        if (found.isDirectory()) throw new HostError('it is a directory: remove its files');
        await unlink(place);
        const pruned = await prune(trail);
        this.#add(accountId, found.isFile() ? -found.size : 0, -1 - pruned);
      });
      await this.#recordUsage(accountId);
    });
  }

  /** Removes temporary files that killed processes left. */
  async sweep(now = Date.now()): Promise<number> {
    this.#sweptAt = now;
    let removed = 0;
    for (const path of [...(await listPaths(this.#staging)), ...(await listPaths(this.#earlierStaging))]) {
      const found = await stat(path).catch(() => null);
      if (!found || found.mtimeMs >= now - LEFT_OVER_MS) continue;
      // What cannot be removed, such as a folder, must not fail a write, and not keep the others.
      const fault = await rm(path, { force: true }).catch((error: Error) => error);
      if (!fault) removed += 1;
    }
    return removed;
  }

  async #replace(
    accountId: string,
    directory: FileHandle,
    name: string,
    bytes: Uint8Array,
    madeDirectories: number,
    signal: AbortSignal,
  ): Promise<void> {
    const before = await lstat(pathIn(directory, name)).catch(() => null);
    if (before && !before.isFile()) throw new HostError('the path exists and is not a regular file');
    if (!before) requireNewName(name);
    await makeFolder(this.#staging);
    const waiting = join(this.#staging, randomUUID());
    try {
      const file = await open(waiting, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
      try {
        await file.writeFile(bytes);
        await file.sync();
      } finally {
        await file.close();
      }
      signal.throwIfAborted();
      // Replaces the name itself; the target of a link stays unchanged.
      await rename(waiting, pathIn(directory, name));
    } finally {
      await rm(waiting, { force: true });
    }
    await directory.sync();
    this.#add(accountId, bytes.byteLength - (before?.size ?? 0), madeDirectories + (before ? 0 : 1));
  }

  #add(accountId: string, bytes: number, entries: number): void {
    const known = this.#usage.get(accountId);
    if (known) this.#usage.set(accountId, { ...known, bytes: known.bytes + bytes, entries: known.entries + entries });
  }

  /** Finds the file that a write replaces. Null: the path has none, or the write will say what is wrong with it. */
  async #findFile(accountId: string, directories: readonly string[], name: string): Promise<Stats | null> {
    const found = this.#in(accountId, directories, async (directory) =>
      lstat(pathIn(directory, await findSpelling(directory, name))),
    );
    const before = await found.catch(() => null);
    return before?.isFile() ? before : null;
  }

  /**
   * @param bytes that the workspace gets more; negative: fewer
   * @throws HostError when it would exceed its quota. A change that adds nothing is allowed also above the quota
   */
  async #requireRoom(accountId: string, bytes: number, entries: number): Promise<void> {
    const quota = this.#quota;
    let used = this.#usage.get(accountId);
    const hasRoom = () =>
      used !== undefined &&
      (bytes <= 0 || used.bytes + bytes <= quota.bytes) &&
      (entries <= 0 || used.entries + entries <= quota.files);
    const reusedMs = hasRoom() ? USAGE_REUSED_MS : FULL_REUSED_MS;
    if (used === undefined || this.#now() - used.measuredAt > Math.max(reusedMs, this.#spreadMs(used)))
      used = await this.#measure(accountId);
    if (!hasRoom())
      throw new HostError(
        `the workspace is full: it holds ${quota.bytes} bytes in ${quota.files} files and directories`,
      );
  }

  /** A large workspace is measured less often: a write that waited for the rate instead would pass the deadline of its call. Milliseconds. */
  #spreadMs({ entries }: Usage): number {
    return (entries / this.#namesPerSecond) * SECOND_MS;
  }

  async #measure(accountId: string): Promise<Known> {
    const measured = await this.#in(accountId, [], (root) => measureTree(root, this.#quota.files));
    const used = { ...measured, measuredAt: this.#now() };
    this.#usage.set(accountId, used);
    return used;
  }

  async #recordUsage(accountId: string): Promise<void> {
    const { bytes } = this.#usage.get(accountId) ?? (await this.#measure(accountId));
    await this.#record(accountId, bytes);
  }

  /** Runs work in a directory of the account. */
  #in<T>(
    accountId: string,
    names: readonly string[],
    work: (directory: FileHandle, found: readonly string[]) => Promise<T>,
  ): Promise<T> {
    return this.#inRoot(accountId, (root) => inDirectory(root, names, work));
  }

  /** Runs work with all directories of a path of the account. */
  #along<T>(
    accountId: string,
    names: readonly string[],
    make: boolean,
    work: (trail: Trail) => Promise<T>,
  ): Promise<T> {
    return this.#inRoot(accountId, (root) => onTrail(root, names, make, work));
  }

  /** Runs work in the account's workspace and translates file system errors. */
  async #inRoot<T>(accountId: string, work: (root: FileHandle) => Promise<T>): Promise<T> {
    if (!ACCOUNT_ID.test(accountId)) throw new Error('The account id is not a valid directory name.');
    const place = join(this.#root, accountId);
    await makeFolder(place);
    const root = await openRoot(place);
    try {
      return await work(root);
    } catch (error) {
      throw describeFault(error);
    } finally {
      await root.close();
    }
  }
}

function splitFilePath(path: string): { directories: string[]; name: string } {
  const names = splitPath(path, DEPTH_MAX + 1);
  return { directories: names.slice(0, -1), name: names.at(-1) as string };
}

/** None, if there is no such directory. */
async function listPaths(directory: string): Promise<string[]> {
  const names = await readdir(directory).catch(() => []);
  return names.map((name) => join(directory, name));
}

/** A file may grow while it is read. */
async function readAtMost(file: FileHandle, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const buffer = new Uint8Array(maxBytes + 1);
  let length = 0;
  for (;;) {
    const { bytesRead } = await file.read(buffer, length, buffer.length - length, length);
    if (bytesRead === 0) return buffer.slice(0, length);
    length += bytesRead;
    if (length > maxBytes) throw new HostError(`the file is larger than ${maxBytes} bytes`);
  }
}

const WORDS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or directory',
  ENOTDIR: 'a part of the path is not a directory',
  ELOOP: 'the path goes through a link, and links are not followed',
  EISDIR: 'it is a directory',
  ENXIO: 'it is not a regular file',
  ENAMETOOLONG: 'the name is too long',
  EACCES: 'the server may not touch it',
  EROFS: 'the disk is read-only',
};
function describeFault(error: unknown): unknown {
  if (isDiskFull(error)) return new HostError('the disk is full');
  const words = error instanceof HostError ? undefined : WORDS[readCode(error) ?? ''];
  return words === undefined ? error : new HostError(words);
}
