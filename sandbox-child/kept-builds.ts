/**
 * Keeps built programs in the folder of Node's compile cache, so that a process builds only what has changed: a supervisor
 * starts 0.3 s of processor time earlier. Without a compile cache (`NODE_COMPILE_CACHE`) every process builds.
 */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { getCompileCacheDir } from 'node:module';
import { join } from 'node:path';

export interface Built {
  readonly text: string;
  /** Absolute paths of the files that it was built from. */
  readonly inputs: readonly string[];
}
interface Kept extends Built {
  /** Hash of the names and contents of `inputs`. */
  readonly hash: string;
}

/**
 * Returns the kept text, or builds and keeps it.
 *
 * @param recipe everything besides files that the text depends on
 */
export async function buildOrReuse(recipe: string, build: () => Promise<Built>): Promise<string> {
  const cache = getCompileCacheDir();
  if (cache === undefined) return (await build()).text;
  const folder = join(cache, 'child-programs');
  const file = join(folder, `${createHash('sha256').update(recipe).digest('hex')}.json`);
  const kept = await readKept(file);
  if (kept !== null) return kept;
  const { text, inputs } = await build();
  const hash = await hashFiles(inputs);
  if (hash !== null) await storeBuild(folder, file, { text, inputs, hash });
  return text;
}

/** Null if nothing is kept, or a file has changed since. */
async function readKept(file: string): Promise<string | null> {
  try {
    const { text, inputs, hash } = JSON.parse(await readFile(file, 'utf8')) as Kept;
    return (await hashFiles(inputs)) === hash ? text : null;
  } catch {
    return null;
  }
}

/** Returns a digest of the files. Does not use their times, because npm sets the same time for all files. Null if a file cannot be read. */
async function hashFiles(paths: readonly string[]): Promise<string | null> {
  try {
    const contents = await Promise.all(paths.map((path) => readFile(path)));
    const hash = createHash('sha256');
    for (const [at, content] of contents.entries()) hash.update(`${paths[at]}\0${content.length}\0`).update(content);
    return hash.digest('hex');
  } catch {
    return null;
  }
}

async function storeBuild(folder: string, file: string, kept: Kept): Promise<void> {
  // Another process may read or write it at the same time.
  const whole = `${file}.${randomUUID()}`;
  try {
    await mkdir(folder, { recursive: true });
    await writeFile(whole, JSON.stringify(kept));
    await rename(whole, file);
  } catch {
    // The folder may be read-only, or the disk full: the next process builds again.
    await rm(whole, { force: true }).catch(() => undefined);
  }
}
