/**
 * Opens paths below an open directory one name at a time, as openat would: each step opens `/proc/self/fd/<n>/<name>`
 * and follows no link. So a link that appears between a check and an open cannot lead outside.
 */
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, rmdir } from 'node:fs/promises';
import { HostError } from '../host-call.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
/** Maximum depth of directories, and of those that a walk holds open. */
export const DEPTH_MAX = 32;
/** Maximum length of a name on common file systems. Bytes. */
const NAME_MAX_BYTES = 255;
// biome-ignore lint/suspicious/noControlCharactersInRegex: names with control characters are what is refused
const FORBIDDEN = /[\u0000-\u001f\u007f\\]/;

/**
 * Splits a path into names.
 *
 * @throws HostError for a path that is absolute, goes up, is too deep, or has an invalid name
 */
export function splitPath(path: string): string[] {
  const names = path.normalize('NFC').split('/');
  if (path.startsWith('/')) throw new HostError('a path is relative to the workspace: leave out the first slash');
  if (names.length > DEPTH_MAX) throw new HostError(`a path has ${DEPTH_MAX} names at most`);
  for (const name of names) {
    if (name === '' || name === '.' || name === '..')
      throw new HostError('a path must not contain an empty name, . or ..');
    if (FORBIDDEN.test(name) || !name.isWellFormed())
      throw new HostError('a name must not contain a backslash, a control character or a lone surrogate');
    if (Buffer.byteLength(name) > NAME_MAX_BYTES) throw new HostError(`a name has ${NAME_MAX_BYTES} bytes at most`);
  }
  return names;
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
 * Walks from a root along the names and runs work in the last directory. Each directory is closed when the next one is open, so that
 * many walks at once do not use up the descriptors of the process.
 */
export async function inDirectory<T>(
  root: FileHandle,
  names: readonly string[],
  work: (directory: FileHandle) => Promise<T>,
): Promise<T> {
  let directory = root;
  try {
    for (const name of names) {
      const above = directory;
      directory = await openDirectory(above, name);
      if (above !== root) await above.close();
    }
    return await work(directory);
  } finally {
    if (directory !== root) await directory.close();
  }
}

/**
 * Walks from a root along the names and runs work with all directories of the way, so that it can prune them. They stay open meanwhile.
 *
 * @param make creates missing directories durably
 * @param work gets the number of created ones, too
 */
export async function onTrail<T>(
  root: FileHandle,
  names: readonly string[],
  make: boolean,
  work: (trail: readonly FileHandle[], made: number) => Promise<T>,
): Promise<T> {
  const trail = [root];
  let made = 0;
  try {
    for (const name of names) {
      const above = trail.at(-1) as FileHandle;
      if (make && (await makeDirectory(above, name))) made += 1;
      trail.push(await openDirectory(above, name));
    }
    return await work(trail, made);
  } catch (error) {
    if (make) await prune(trail, names);
    throw error;
  } finally {
    for (const opened of trail.slice(1)) await opened.close();
  }
}

/** @returns false: it exists */
async function makeDirectory(above: FileHandle, name: string): Promise<boolean> {
  try {
    await mkdir(pathIn(above, name), { mode: 0o700 });
  } catch (error) {
    if (readCode(error) === 'EEXIST') return false;
    throw error;
  }
  await above.sync();
  return true;
}

/** Removes the empty directories at the end of a trail. `names`: those of the trail. @returns the number of removed ones */
export async function prune(trail: readonly FileHandle[], names: readonly string[]): Promise<number> {
  let removed = 0;
  for (let depth = trail.length - 1; depth > 0; depth -= 1) {
    const [above, name] = [trail[depth - 1], names[depth - 1]];
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
