/** One directory for each account, below `DATA_DIR/workspaces`. Agents and operators may write there too: nothing in it is trusted. */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readdir, rename, rm, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { limits } from '../../../sdk/contract/limits.ts';
import { HostError } from '../host-call.ts';
import { codeOf, inDirectory, namesOf, openEntry, openRoot, prune, within } from './anchored-paths.ts';
import { listTree, measureTree, type TreeFile, type Usage } from './tree.ts';

/** Files one `list` answers at most. */
const LIST_FILES = 5_000;
/** How long a count of what a workspace holds is believed, with our own writes added to it. Milliseconds. */
const USAGE_BELIEVED_MS = 10_000;
/** A temporary file older than this was left by a process that was killed: a write ends within its row's time. Milliseconds. */
const LEFT_OVER_MS = 60_000;
const SWEEP_EVERY_MS = 5 * 60_000;
const ACCOUNT_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;

export interface WorkspaceQuota {
  readonly bytes: number;
  /** Files and directories. */
  readonly files: number;
}
export const defaultQuota: WorkspaceQuota = { bytes: limits.workspaceBytes, files: limits.workspaceFiles };
interface Known extends Usage {
  readonly at: number;
}

export class Workspaces {
  readonly #root: string;
  readonly #staging: string;
  readonly #quota: WorkspaceQuota;
  readonly #usage = new Map<string, Known>();
  /** The end of each account's last change: one after the other, so that two never see room for one. */
  readonly #changes = new Map<string, Promise<unknown>>();
  #sweptAt = 0;

  /** @param dataDir `DATA_DIR`: temporary files wait on the same file system, where no plugin sees them */
  constructor(dataDir: string, quota: WorkspaceQuota) {
    this.#root = join(dataDir, 'workspaces');
    this.#staging = join(dataDir, 'workspace-staging');
    this.#quota = quota;
  }

  /** The files below a directory, or of the whole workspace. @throws HostError */
  async list(accountId: string, path: string | undefined): Promise<TreeFile[]> {
    const names = path === undefined || path === '.' ? [] : namesOf(path);
    return this.#at(accountId, names, false, async (trail) => {
      const prefix = names.map((name) => `${name}/`).join('');
      const files = await listTree(trail.at(-1) as FileHandle, prefix, LIST_FILES);
      if (!files) throw new HostError(`there are more than ${LIST_FILES} files: list a directory below`);
      return files;
    });
  }

  /** The bytes of a regular file. @throws HostError */
  async read(accountId: string, path: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const { directories, name } = split(path);
    return this.#at(accountId, directories, false, async (trail) => {
      const file = await openEntry(trail.at(-1) as FileHandle, name);
      try {
        const found = await file.stat();
        if (!found.isFile()) throw new HostError('it is no regular file');
        // A second name may lie outside the workspace.
        if (found.nlink > 1) throw new HostError('the file has several names (hard links); copy it to read it');
        if (found.size > maxBytes) throw new HostError(`the file is larger than ${maxBytes} bytes`);
        signal.throwIfAborted();
        return await readAtMost(file, maxBytes);
      } finally {
        await file.close();
      }
    });
  }

  /** Writes a file at once: whoever reads it sees the old or the new bytes. Survives a power cut. @throws HostError */
  async write(accountId: string, path: string, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    const { directories, name } = split(path);
    return this.#alone(accountId, async () => {
      signal.throwIfAborted();
      await this.#sweepSometimes();
      await this.#room(accountId, bytes.byteLength, directories.length + 1);
      await this.#at(accountId, directories, true, async (trail) => {
        await this.#replace(accountId, trail.at(-1) as FileHandle, name, bytes, trail.length, signal);
      });
    });
  }

  /** Removes a file, and directories that it leaves empty. @throws HostError */
  async remove(accountId: string, path: string, signal?: AbortSignal): Promise<void> {
    const { directories, name } = split(path);
    return this.#alone(accountId, () =>
      this.#at(accountId, directories, false, async (trail) => {
        signal?.throwIfAborted();
        const directory = trail.at(-1) as FileHandle;
        const found = await lstat(within(directory, name));
        if (found.isDirectory()) throw new HostError('it is a directory: remove its files');
        await unlink(within(directory, name));
        await prune(trail, directories);
        this.#usage.delete(accountId);
      }),
    );
  }

  /** Removes temporary files that killed processes left. */
  async sweep(now = Date.now()): Promise<number> {
    this.#sweptAt = now;
    let removed = 0;
    for (const name of await readdir(this.#staging).catch(() => [])) {
      const path = join(this.#staging, name);
      const found = await stat(path).catch(() => null);
      if (!found || found.mtimeMs >= now - LEFT_OVER_MS) continue;
      await rm(path, { force: true });
      removed += 1;
    }
    return removed;
  }

  async #sweepSometimes(): Promise<void> {
    if (Date.now() - this.#sweptAt > SWEEP_EVERY_MS) await this.sweep();
  }

  async #replace(
    accountId: string,
    directory: FileHandle,
    name: string,
    bytes: Uint8Array,
    entries: number,
    signal: AbortSignal,
  ): Promise<void> {
    const before = await lstat(within(directory, name)).catch(() => null);
    if (before && !before.isFile()) throw new HostError('there is something at this path that is no regular file');
    await mkdir(this.#staging, { recursive: true, mode: 0o700 });
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
      // Replaces the name itself, whatever it is by now: what a link points to stays as it is.
      await rename(waiting, within(directory, name));
    } finally {
      await rm(waiting, { force: true });
    }
    await directory.sync();
    // Too many where directories were there before: a count that seems not to fit is taken again.
    this.#add(accountId, bytes.byteLength - (before?.size ?? 0), before ? 0 : entries);
  }

  #add(accountId: string, bytes: number, entries: number): void {
    const known = this.#usage.get(accountId);
    if (known) this.#usage.set(accountId, { ...known, bytes: known.bytes + bytes, entries: known.entries + entries });
  }

  /** @throws HostError when the workspace would hold more than its quota. What a file replaces does not make room for it. */
  async #room(accountId: string, bytes: number, entries: number): Promise<void> {
    const quota = this.#quota;
    let used = this.#usage.get(accountId);
    const fits = () => used !== undefined && used.bytes + bytes <= quota.bytes && used.entries + entries <= quota.files;
    if (used === undefined || Date.now() - used.at > USAGE_BELIEVED_MS || !fits()) {
      const measured = await this.#at(accountId, [], true, ([root]) => measureTree(root as FileHandle, quota.files));
      used = { ...measured, at: Date.now() };
      this.#usage.set(accountId, used);
    }
    if (!fits())
      throw new HostError(
        `the workspace is full: it holds ${quota.bytes} bytes in ${quota.files} files and directories`,
      );
  }

  /** Works in a directory of the account; what the file system refuses is said in the plugin's terms. */
  async #at<T>(
    accountId: string,
    names: readonly string[],
    make: boolean,
    work: (trail: readonly FileHandle[]) => Promise<T>,
  ): Promise<T> {
    if (!ACCOUNT_ID.test(accountId)) throw new Error('this account id is no name of a directory');
    const place = join(this.#root, accountId);
    await mkdir(place, { recursive: true, mode: 0o700 });
    const root = await openRoot(place);
    try {
      return await inDirectory(root, names, make, work);
    } catch (error) {
      throw said(error);
    } finally {
      await root.close();
    }
  }

  /** One change of an account's workspace after the other. */
  #alone<T>(accountId: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#changes.get(accountId) ?? Promise.resolve()).then(work, work);
    const end = turn.then(
      () => undefined,
      () => undefined,
    );
    this.#changes.set(accountId, end);
    void end.then(() => {
      if (this.#changes.get(accountId) === end) this.#changes.delete(accountId);
    });
    return turn;
  }
}

function split(path: string): { directories: string[]; name: string } {
  const names = namesOf(path);
  return { directories: names.slice(0, -1), name: names.at(-1) as string };
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
  ENOENT: 'there is no such file or directory',
  ENOTDIR: 'the path goes through something that is no directory',
  ELOOP: 'the path goes through a link, which nobody follows here',
  EISDIR: 'it is a directory',
  ENXIO: 'it is no regular file',
  ENAMETOOLONG: 'the name is too long',
  EACCES: 'the server may not touch it',
  ENOSPC: 'the disk is full',
};
function said(error: unknown): unknown {
  const words = error instanceof HostError ? undefined : WORDS[codeOf(error) ?? ''];
  return words === undefined ? error : new HostError(words);
}
