/** Lists and measures the regular files of a workspace through open directories. */
import { type FileHandle, lstat, opendir } from 'node:fs/promises';
import { TIME_MAX_MS, TIME_MIN_MS } from '../../../sdk/contract/payloads.ts';
import { HostError } from '../host-call.ts';
import { DEPTH_MAX, listable, openDirectory, pathIn, readCode } from './anchored-paths.ts';

export interface TreeFile {
  readonly path: string;
  readonly sizeBytes: number;
  readonly updatedAt: string;
}
export interface Usage {
  readonly bytes: number;
  /** Files, directories and everything else with a name. */
  readonly entries: number;
}
interface Visitor {
  /** Return false to stop. */
  file(path: string, found: { readonly size: number; readonly mtimeMs: number }): boolean;
  /** Called for every name. Return false to stop. */
  entry(): boolean;
  /** Called for what the service has no permission to look at: agents may be other users of the machine. */
  denied(path: string): void;
}

interface ListBounds {
  readonly files: number;
  /** Files, directories and everything else with a name. */
  readonly entries: number;
  /** Called for every name. */
  onEntry(): void;
}

/**
 * Lists the files below a directory, sorted by path. Stops at the bounds.
 *
 * @param names of the directory and those above it, below the root
 * @returns null: there are more
 * @throws HostError where the service may not look
 */
export async function listTree(
  directory: FileHandle,
  names: readonly string[],
  bounds: ListBounds,
): Promise<TreeFile[] | null> {
  const prefix = names.map((name) => `${name}/`).join('');
  const files: TreeFile[] = [];
  let entries = 0;
  const complete = await walk(directory, prefix, names.length, {
    entry: () => {
      bounds.onEntry();
      return ++entries <= bounds.entries;
    },
    file: (path, { size, mtimeMs }) =>
      files.push({ path, sizeBytes: size, updatedAt: formatFileTime(mtimeMs) }) <= bounds.files,
    denied: (path) => {
      throw new HostError(`the server may not read ${path}: change its permissions, or list a directory beside it`);
    },
  });
  return complete ? files.sort((a, b) => (a.path < b.path ? -1 : 1)) : null;
}

/** Archives and programs may set any time. The nearest one that an answer can hold is used, so that one file does not fail the list. */
export const formatFileTime = (ms: number): string =>
  new Date(Math.min(Math.max(ms, TIME_MIN_MS), TIME_MAX_MS)).toISOString();

/** Measures a workspace. Stops at `maxEntries`. What the service may not look at has no size: one such file must not fail all writes. */
export async function measureTree(root: FileHandle, maxEntries: number): Promise<Usage> {
  let [bytes, entries] = [0, 0];
  await walk(root, '', 0, {
    entry: () => ++entries <= maxEntries,
    file: (_path, { size }) => {
      bytes += size;
      return true;
    },
    denied: () => undefined,
  });
  return { bytes, entries };
}

async function walk(directory: FileHandle, prefix: string, depth: number, visitor: Visitor): Promise<boolean> {
  // opendir closes the directory when the loop ends for any reason.
  for await (const found of await opendir(listable(directory))) {
    if (!visitor.entry()) return false;
    const path = `${prefix}${found.name}`;
    if (found.isDirectory()) {
      if (depth >= DEPTH_MAX) continue;
      const below = await look(() => openDirectory(directory, found.name), path, visitor);
      if (!below) continue;
      try {
        if (!(await walk(below, `${path}/`, depth + 1, visitor))) return false;
      } finally {
        await below.close();
      }
    } else if (found.isFile()) {
      const stats = await look(() => lstat(pathIn(directory, found.name)), path, visitor);
      if (stats?.isFile() && !visitor.file(path, stats)) return false;
    }
  }
  return true;
}

/** Null: it was removed or replaced between reading its name and opening it, or is denied. */
async function look<T>(work: () => Promise<T>, path: string, { denied }: Visitor): Promise<T | null> {
  try {
    return await work();
  } catch (error) {
    const code = readCode(error) ?? '';
    if (code === 'EACCES') denied(path);
    else if (!['ENOENT', 'ENOTDIR', 'ELOOP'].includes(code)) throw error;
    return null;
  }
}
