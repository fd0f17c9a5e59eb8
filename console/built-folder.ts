/** Builds a folder from sources, again when they have changed. Several processes may do so at once. */
import { createHash } from 'node:crypto';
import {
  chmodSync,
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

/** Smaller files are not compressed: they would hardly be smaller. */
const COMPRESSED_MIN_BYTES = 1024;
/** Compresses nearly as well as the highest quality, which takes ten times as long for the editor's compiler. */
const BROTLI_QUALITY = 6;
/** File in a built folder that holds the hash of its sources. */
const MARK = '.sources';

/**
 * Builds the folder unless it was built from the same sources.
 *
 * @param dist the folder; the build runs in a folder `.build-…` beside it
 * @param sources a hash of the sources
 * @param make builds into an empty folder
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

/** Makes all files readable by all users, whatever the umask: root builds an image, and another user runs the service in it. */
function makeReadable(folder: string): void {
  chmodSync(folder, 0o755);
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true }))
    chmodSync(join(entry.parentPath, entry.name), entry.isDirectory() ? 0o755 : 0o644);
}

function isBuilt(dist: string, sources: string): boolean {
  try {
    return readFileSync(join(dist, MARK), 'utf8') === sources;
  } catch {
    return false;
  }
}

/** Replaces the old build, if there is one, by the new one. */
function takeOver(outDir: string, dist: string, sources: string): void {
  const old = `${outDir}-old`;
  try {
    if (!isBuilt(dist, sources)) renameSync(dist, old);
  } catch (error) {
    // There is no old build, or another process is replacing it.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
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
