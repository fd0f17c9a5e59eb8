/**
 * Files that a later process uses again, in the folder of Node's compile cache. Without a compile cache (`NODE_COMPILE_CACHE`) no file
 * is kept.
 */
import { hash, randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { getCompileCacheDir } from 'node:module';
import { join } from 'node:path';

const FOLDER = 'child-programs';
const HASH_BYTES = 32;

const hashContent = (content: Uint8Array): Buffer => hash('sha256', content, 'buffer');

/** Returns null if no file is kept under this name, or if it is damaged: children would crash with a damaged program. */
export async function readKeptFile(name: string): Promise<Buffer | null> {
  const cache = getCompileCacheDir();
  if (cache === undefined) return null;
  try {
    const file = await readFile(join(cache, FOLDER, name));
    const content = file.subarray(HASH_BYTES);
    return hashContent(content).equals(file.subarray(0, HASH_BYTES)) ? content : null;
  } catch {
    return null;
  }
}

/** Never rejects: the folder may be read-only, or the disk full. */
export async function keepFile(name: string, content: Uint8Array): Promise<void> {
  const cache = getCompileCacheDir();
  if (cache === undefined) return;
  const folder = join(cache, FOLDER);
  // Renamed into place, because another process may read or write the file at the same time.
  const temporary = join(folder, `${name}.${randomUUID()}`);
  try {
    await mkdir(folder, { recursive: true });
    await writeFile(temporary, Buffer.concat([hashContent(content), content]));
    await rename(temporary, join(folder, name));
  } catch {
    await rm(temporary, { force: true }).catch(() => undefined);
  }
}
