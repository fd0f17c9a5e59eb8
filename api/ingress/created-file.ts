/** Creates the files in which webhook requests wait. */
import { type FileHandle, open } from 'node:fs/promises';

/** Creates a file that others cannot read. Where `complete` fails, the file is closed: Node ends a process that forgets to. */
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
