/**
 * Opens paths below an open directory one name at a time, as openat would: each step opens `/proc/self/fd/<n>/<name>`
 * and follows no link. So a link that appears between a check and an open cannot lead outside.
 */
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, rmdir } from 'node:fs/promises';
import { HostError } from '../host-call.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
/** Maximum depth of directories, and of those that a walk holds open. A file may lie in the deepest one, so its path has one name more. */
export const DEPTH_MAX = 32;
/** Maximum length of a name on common file systems. Bytes. */
const NAME_MAX_BYTES = 255;
// biome-ignore lint/suspicious/noControlCharactersInRegex: names with control characters are what is refused
const FORBIDDEN = /[\u0000-\u001f\u007f\\]/;

/**
 * Splits a path into names.
 *
 * @param max number of names
 * @throws HostError for a path that is absolute, goes up, is too deep, or has an invalid name
 */
export function splitPath(path: string, max: number): string[] {
  const names = path.split('/');
  if (path.startsWith('/')) throw new HostError('a path is relative to the workspace: leave out the first slash');
  if (names.length > max) throw new HostError(`the path has ${names.length} names, and at most ${max} are allowed`);
  for (const name of names) {
    if (name === '' || name === '.' || name === '..')
      throw new HostError('a path must not contain an empty name, . or ..');
    if (name.includes('\0') || !name.isWellFormed())
      throw new HostError('a name must not contain U+0000 or a lone surrogate');
    if (Buffer.byteLength(name) > NAME_MAX_BYTES) throw new HostError(`a name has ${NAME_MAX_BYTES} bytes at most`);
  }
  return names;
}

/** Agents and operators may have given files any names that the file system allows. @throws HostError for others */
export function requireNewName(name: string): void {
  if (FORBIDDEN.test(name)) throw new HostError('a new name must not contain a backslash or a control character');
}

/** The path of a name in an open directory, for one system call. Open it with `O_NOFOLLOW`. */
export const pathIn = (directory: FileHandle, name: string): string => `/proc/self/fd/${directory.fd}/${name}`;

/** The path of an open directory, for reading its names. */
export const listable = (directory: FileHandle): string => `/proc/self/fd/${directory.fd}`;

/** Opens an existing directory by a path that no plugin or agent can change. */
export const openRoot = (path: string): Promise<FileHandle> => open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

/** Opens a directory in an open one. @throws ENOENT, ENOTDIR (a file, or a link) */
export const openDirectory = (directory: FileHandle, name: string): Promise<FileHandle> =>
  open(pathIn(directory, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

/** Opens a file of any kind without blocking, so that its kind can be checked. @throws ENOENT, ELOOP (a link) */
export const openEntry = (directory: FileHandle, name: string): Promise<FileHandle> =>
  open(pathIn(directory, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);

/**
 * The name as the directory has it. Archives and programs of macOS write the decomposed form of Unicode (NFD), and most others the
 * composed one (NFC). New names are composed, so that two spellings are one file.
 */
export async function findSpelling(directory: FileHandle, name: string): Promise<string> {
  const composed = name.normalize('NFC');
  const spellings = new Set([name, composed, name.normalize('NFD')]);
  if (spellings.size === 1) return name;
  for (const spelling of spellings) if (await hasName(directory, spelling)) return spelling;
  return composed;
}

const hasName = (directory: FileHandle, name: string): Promise<boolean> =>
  lstat(pathIn(directory, name)).then(
    () => true,
    () => false,
  );

/**
 * Walks from a root along the names and runs work in the last directory, with the names as they are spelled there. Each directory
 * is closed when the next one is open, so that many walks at once do not use up the descriptors of the process.
 */
export async function inDirectory<T>(
  root: FileHandle,
  names: readonly string[],
  work: (directory: FileHandle, found: readonly string[]) => Promise<T>,
): Promise<T> {
  let directory = root;
  const found: string[] = [];
  try {
    for (const name of names) {
      const above = directory;
      found.push(await findSpelling(above, name));
      directory = await openDirectory(above, found.at(-1) as string);
      if (above !== root) await above.close();
    }
    return await work(directory, found);
  } finally {
    if (directory !== root) await directory.close();
  }
}

/** Open directories from a root on, so that work can prune them. */
export interface Trail {
  readonly directories: readonly FileHandle[];
  /** Of those below the root, as they are spelled on the disk. */
  readonly names: readonly string[];
  /** Number of those that were created. */
  readonly made: number;
}

/**
 * Walks from a root along the names and runs work with all directories of the way, which stay open meanwhile.
 *
 * @param make creates missing directories durably
 */
export async function onTrail<T>(
  root: FileHandle,
  names: readonly string[],
  make: boolean,
  work: (trail: Trail) => Promise<T>,
): Promise<T> {
  const directories = [root];
  const found: string[] = [];
  let made = 0;
  try {
    for (const name of names) {
      const above = directories.at(-1) as FileHandle;
      const spelled = await findSpelling(above, name);
      if (make && (await makeDirectory(above, spelled))) made += 1;
      directories.push(await openDirectory(above, spelled));
      found.push(spelled);
    }
    return await work({ directories, names: found, made });
  } catch (error) {
    // Only those that were created: an agent may have put the others there.
    if (made > 0) await prune({ directories: directories.slice(-made - 1), names: found.slice(-made) });
    throw error;
  } finally {
    for (const opened of directories.slice(1)) await opened.close();
  }
}

/** @returns false: it exists. @throws HostError for a name that a new directory must not have */
async function makeDirectory(above: FileHandle, name: string): Promise<boolean> {
  try {
    if (await hasName(above, name)) return false;
    requireNewName(name);
    await mkdir(pathIn(above, name), { mode: 0o700 });
  } catch (error) {
    if (readCode(error) === 'EEXIST') return false;
    throw error;
  }
  await above.sync();
  return true;
}

/** Removes the empty directories at the end of a trail. @returns the number of removed ones */
export async function prune({ directories, names }: Omit<Trail, 'made'>): Promise<number> {
  let removed = 0;
  for (let depth = directories.length - 1; depth > 0; depth -= 1) {
    const [above, name] = [directories[depth - 1], names[depth - 1]];
    if (!above || name === undefined) break;
    const isGone = await rmdir(pathIn(above, name)).then(
      () => true,
      () => false,
    );
    if (!isGone) break;
    removed += 1;
  }
  return removed;
}

/** The code of a system error. */
export const readCode = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;
