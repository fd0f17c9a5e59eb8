/** Keeps built programs, so that a process builds only what has changed: a supervisor starts 0.3 s of processor time earlier. */
import { createHash, hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { keepFile, readKeptFile } from './kept-files.ts';

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
  const name = `${hash('sha256', recipe)}.json`;
  const kept = await readKept(name);
  if (kept !== null) return kept;
  const built = await build();
  const inputsHash = await hashFiles(built.inputs);
  if (inputsHash !== null) await keepFile(name, Buffer.from(JSON.stringify({ ...built, hash: inputsHash })));
  return built.text;
}

/** Null if nothing is kept, or a file has changed since. */
async function readKept(name: string): Promise<string | null> {
  const file = await readKeptFile(name);
  if (file === null) return null;
  const { text, inputs, hash: inputsHash } = JSON.parse(file.toString()) as Kept;
  return (await hashFiles(inputs)) === inputsHash ? text : null;
}

/** Returns a digest of the files. Does not use their times, because npm sets the same time for all files. Null if a file cannot be read. */
async function hashFiles(paths: readonly string[]): Promise<string | null> {
  try {
    const contents = await Promise.all(paths.map((path) => readFile(path)));
    const digest = createHash('sha256');
    for (const [at, content] of contents.entries()) digest.update(`${paths[at]}\0${content.length}\0`).update(content);
    return digest.digest('hex');
  } catch {
    return null;
  }
}
