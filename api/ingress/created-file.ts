/** Creates the files in which webhook requests wait. */
import { type FileHandle, open } from 'node:fs/promises';

/**
 * Creates a file that only its owner can read, then runs `complete`, such as the sync of its folder. If that fails, closes the file:
 * Node ends a process that leaves a FileHandle to the garbage collector.
 */
export async function createFile(
  path: string,
  flags: 'ax' | 'wx+',
  complete: () => Promise<void>,
): Promise<FileHandle> {
  const file = await open(path, flags, 0o600);
  try {
    await complete();
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}
