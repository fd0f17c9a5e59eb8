/** Creates folders in any file system. */
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Readable by their owner only. */
const PRIVATE = 0o700;

/**
 * Creates the folder and those above it that are missing. Idempotent.
 *
 * Not `mkdir` with `recursive`: in a file system without new folders, such as /proc, Node repeats it for ever.
 */
export async function makeFolder(path: string, mode = PRIVATE): Promise<void> {
  if (await isFolder(path)) return;
  const parent = dirname(path);
  if (parent !== path) await makeFolder(parent, mode);
  await mkdir(path, { mode }).catch(async (error: NodeJS.ErrnoException) => {
    // Another process may have created it since.
    if (error.code !== 'EEXIST' || !(await isFolder(path))) throw error;
  });
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
