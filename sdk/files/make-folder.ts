/** Creates private folders in any file system. */
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Creates the folder and those above it that are missing, readable by their owner only. Idempotent.
 *
 * Not `mkdir` with `recursive`: in a file system without new folders, such as /proc, Node repeats it for ever.
 */
export async function makeFolder(path: string): Promise<void> {
  if (await isFolder(path)) return;
  const parent = dirname(path);
  if (parent !== path) await makeFolder(parent);
  await mkdir(path, { mode: 0o700 }).catch(async (error: NodeJS.ErrnoException) => {
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
