/** Writes the files of a package that a command creates. */
import { open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { makeFolder } from '../files/make-folder.ts';
import { replaceFile } from '../files/replace-file.ts';
import { CommandError } from './failure.ts';

/** The user's umask limits it. */
const SHARED = 0o777;

interface NewFile {
  readonly path: string;
  readonly read: () => string | Promise<Uint8Array>;
}

/**
 * Writes files below a folder, one after the other. If one fails, removes those that were written, and throws what `writeNewFile` or
 * `read` threw.
 */
export async function writeNewFiles(folder: string, files: readonly NewFile[], flag: 'w' | 'wx'): Promise<void> {
  const written: string[] = [];
  try {
    for (const { path, read } of files) {
      await writeNewFile(join(folder, path), await read(), flag);
      written.push(join(folder, path));
    }
  } catch (error) {
    await Promise.all(written.map((path) => rm(path, { force: true }).catch(() => undefined)));
    throw error;
  }
}

/**
 * Writes a file, and the folders above it that are missing. If that fails, it leaves the file that was there before, or none.
 *
 * @param flag as for `open`
 * @throws CommandError with what to do
 */
async function writeNewFile(path: string, content: string | Uint8Array, flag: 'w' | 'wx'): Promise<void> {
  try {
    await makeFolder(dirname(path), SHARED);
    await (flag === 'w' ? replaceFile(path, content) : createFile(path, content));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new CommandError(
      'failed',
      `${path} cannot be written (${code ?? message}). Pass a folder in which you can create files, on a disk with room.`,
    );
  }
}

/** Fails if the file exists, and then leaves it as it is. */
async function createFile(path: string, content: string | Uint8Array): Promise<void> {
  // Until the file is open, it may be of another: EMFILE says nothing about whether it exists.
  const file = await open(path, 'wx');
  try {
    await file.writeFile(content);
    await file.close();
  } catch (error) {
    await file.close().catch(() => undefined);
    await rm(path, { force: true }).catch(() => undefined);
    throw error;
  }
}
