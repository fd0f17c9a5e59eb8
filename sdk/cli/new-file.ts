/** Writes the files of a package that a command creates. */
import { writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { makeFolder } from '../files/make-folder.ts';
import { CommandError } from './failure.ts';

/** The user's umask limits it. */
const SHARED = 0o777;

/**
 * Writes a file, and the folders above it that are missing.
 *
 * @param flag as for `open`
 * @throws CommandError with what to do
 */
export async function writeNewFile(path: string, content: string | Uint8Array, flag: 'w' | 'wx'): Promise<void> {
  try {
    await makeFolder(dirname(path), SHARED);
    await writeFile(path, content, { flag });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new CommandError(
      'failed',
      `${path} cannot be written (${code ?? message}). Pass a folder in which you can create files, on a disk with room.`,
    );
  }
}
