/** Saves a file of a package that `bulkhead dev` watches. */
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Replaces the file in one step, from beside the folder: half-written files would be saves of their own on a busy machine. */
export async function saveFile(folder: string, name: string, text: string): Promise<void> {
  const next = `${folder}.next`;
  await writeFile(next, text);
  await rename(next, join(folder, name));
}
