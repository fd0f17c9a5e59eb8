/** A folder that is made from sources, made again when they have changed. Several at once do not disturb each other. */
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  globSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

/** Smaller files gain nothing. */
const COMPRESSED_MIN_BYTES = 1024;
/** Near the best; the best takes ten times as long for the editor's compiler. */
const BROTLI_QUALITY = 6;
/** File in a built folder that holds the hash of its sources. */
const MARK = '.sources';

/**
 * Makes the folder unless what is there was made from these very sources.
 *
 * @param dist the folder; beside it `.build-…` is where a new one grows
 * @param sources a hash of all that goes into it
 * @param make fills an empty folder
 */
export async function buildIfStale(
  dist: string,
  sources: string,
  make: (outDir: string) => Promise<void>,
): Promise<void> {
  if (isBuilt(dist, sources)) return;
  const outDir = mkdtempSync(join(dirname(dist), '.build-'));
  try {
    await make(outDir);
    writeFileSync(join(outDir, MARK), sources);
    makeReadable(outDir);
    takeOver(outDir, dist, sources);
  } finally {
    rmSync(outDir, { recursive: true, force: true });
  }
}

/** Sets the mode, which the umask or a temporary folder may have restricted: in an image another user runs the service. */
function makeReadable(folder: string): void {
  chmodSync(folder, 0o755);
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true }))
    chmodSync(join(entry.parentPath, entry.name), entry.isDirectory() ? 0o755 : 0o644);
}

function isBuilt(dist: string, sources: string): boolean {
  const mark = join(dist, MARK);
  return existsSync(mark) && readFileSync(mark, 'utf8') === sources;
}

/** A whole build takes the place of an old one, or of none. */
function takeOver(outDir: string, dist: string, sources: string): void {
  const old = `${outDir}-old`;
  if (existsSync(dist) && !isBuilt(dist, sources)) renameSync(dist, old);
  try {
    renameSync(outDir, dist);
  } catch (error) {
    // Another process built the same sources first.
    if (!isBuilt(dist, sources)) throw error;
  }
  rmSync(old, { recursive: true, force: true });
}

/** Hashes the names and contents of files. */
export function hashSources(root: string, globs: readonly string[], exclude: readonly string[] = []): string {
  const hash = createHash('sha256');
  const files = globSync([...globs], { cwd: root, exclude: [...exclude] });
  for (const file of files.sort()) hash.update(`${file}\0`).update(readFileSync(join(root, file)));
  return hash.digest('hex');
}

/** Writes a .br and a .gz copy beside each large file, so that files are compressed once and not per request. */
export function compress(outDir: string, glob: string): void {
  for (const file of globSync(glob, { cwd: outDir }).map((name) => join(outDir, name))) {
    const content = readFileSync(file);
    if (content.length < COMPRESSED_MIN_BYTES) continue;
    const params = { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY };
    writeFileSync(`${file}.br`, brotliCompressSync(content, { params }));
    writeFileSync(`${file}.gz`, gzipSync(content));
  }
}
