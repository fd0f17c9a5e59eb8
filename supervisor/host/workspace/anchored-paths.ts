/**
 * Paths below a directory that is held open, walked one name at a time. Each step opens the next directory by its name in
 * the open one before (`/proc/self/fd/<n>/<name>`, as openat would) and follows no link, so a link that is put in the way
 * between a look and an open leads nowhere: there is no look.
 */
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, rmdir } from 'node:fs/promises';
import { HostError } from '../host-call.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
/** Directories inside each other at most: also how many a walk holds open. */
export const DEPTH_MAX = 32;
/** What file systems take, bytes. */
const NAME_MAX_BYTES = 255;
// biome-ignore lint/suspicious/noControlCharactersInRegex: names with control characters are what is refused
const FORBIDDEN = /[\u0000-\u001f\u007f\\]/;

/**
 * The names of a path.
 *
 * @throws HostError for a path that is absolute, goes up, is too deep, or has a name that no file should have
 */
export function namesOf(path: string): string[] {
  const names = path.normalize('NFC').split('/');
  if (path.startsWith('/')) throw new HostError('a path is relative to the workspace: leave out the first slash');
  if (names.length > DEPTH_MAX) throw new HostError(`a path has ${DEPTH_MAX} names at most`);
  for (const name of names) {
    if (name === '' || name === '.' || name === '..') throw new HostError('a path holds no empty name, no . and no ..');
    if (FORBIDDEN.test(name) || !name.isWellFormed())
      throw new HostError('a name holds no backslash, no control character and no half surrogate pair');
    if (Buffer.byteLength(name) > NAME_MAX_BYTES) throw new HostError(`a name has ${NAME_MAX_BYTES} bytes at most`);
  }
  return names;
}

/** A name in an open directory, as a path for one system call. The last name of it must be opened with `O_NOFOLLOW`. */
export const within = (directory: FileHandle, name: string): string => `/proc/self/fd/${directory.fd}/${name}`;

/** The path of an open directory, for reading its names. */
export const listable = (directory: FileHandle): string => `/proc/self/fd/${directory.fd}`;

/** Opens a directory that exists, by a path nobody else can change. */
export const openRoot = (path: string): Promise<FileHandle> => open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

/** Opens a directory in an open one. @throws ENOENT, ENOTDIR (a file, or a link) */
export const openDirectory = (directory: FileHandle, name: string): Promise<FileHandle> =>
  open(within(directory, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

/** Opens whatever has this name, waiting for nobody, so that its kind can be asked. @throws ENOENT, ELOOP (a link) */
export const openEntry = (directory: FileHandle, name: string): Promise<FileHandle> =>
  open(within(directory, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);

/**
 * Walks from a root to the directory of these names and works there. Every directory on the way stays open while it does.
 *
 * @param make directories that are missing, each made durable
 */
export async function inDirectory<T>(
  root: FileHandle,
  names: readonly string[],
  make: boolean,
  work: (trail: readonly FileHandle[]) => Promise<T>,
): Promise<T> {
  const trail = [root];
  try {
    for (const name of names) {
      const above = trail.at(-1) as FileHandle;
      if (make) await makeDirectory(above, name);
      trail.push(await openDirectory(above, name));
    }
    return await work(trail);
  } catch (error) {
    if (make) await prune(trail, names);
    throw error;
  } finally {
    for (const opened of trail.slice(1)) await opened.close();
  }
}

async function makeDirectory(above: FileHandle, name: string): Promise<void> {
  try {
    await mkdir(within(above, name), { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return;
    throw error;
  }
  await above.sync();
}

/** Removes the directories of a trail that are empty, from its end. `names`: what the trail walked along. */
export async function prune(trail: readonly FileHandle[], names: readonly string[]): Promise<void> {
  for (let depth = trail.length - 1; depth > 0; depth -= 1) {
    const [above, name] = [trail[depth - 1], names[depth - 1]];
    if (!above || name === undefined) return;
    const isGone = await rmdir(within(above, name)).then(
      () => true,
      () => false,
    );
    if (!isGone) return;
  }
}

/** The name of a system error. */
export const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;
