/**
 * Builds the console into `dist/`, unless what is there was built from these very sources. `npm start` runs it, so a
 * newcomer needs no build command and nobody waits for one twice. Several at once do not disturb each other.
 */
import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import react from '@vitejs/plugin-react';
import { build } from 'vite';

const root = fileURLToPath(new URL('.', import.meta.url));
const DIST = join(root, 'dist');
/** Smaller files gain nothing. */
const COMPRESSED_MIN_BYTES = 1024;
/** Near the best; the best takes ten times as long for the editor's compiler. */
const BROTLI_QUALITY = 6;
/** In a build: what it was made of. */
const MARK = '.sources';

const sources = sourcesHash();
if (!isBuilt()) {
  const outDir = mkdtempSync(join(root, '.build-'));
  try {
    await buildInto(outDir);
    compress(outDir);
    writeFileSync(join(outDir, MARK), sources);
    takeOver(outDir);
  } finally {
    rmSync(outDir, { recursive: true, force: true });
  }
}

function isBuilt(): boolean {
  const mark = join(DIST, MARK);
  return existsSync(mark) && readFileSync(mark, 'utf8') === sources;
}

async function buildInto(outDir: string): Promise<void> {
  await build({
    root,
    configFile: false,
    logLevel: process.argv.includes('--verbose') ? 'info' : 'error',
    plugins: [react()],
    // The tests' tools bring another React, one folder up.
    // The editor's compiler runs in a worker, and so comes as modules, too.
    worker: { format: 'es' },
    resolve: { dedupe: ['react', 'react-dom'] },
    build: {
      ...{ outDir, emptyOutDir: true, target: 'es2022', assetsInlineLimit: 0, chunkSizeWarningLimit: 10_000 },
      modulePreload: { polyfill: false },
    },
  });
}

/** Beside each file that is worth it, the same smaller: files never change under their names, so this is done once. */
function compress(outDir: string): void {
  for (const file of globSync('assets/*.{js,css,ttf}', { cwd: outDir }).map((name) => join(outDir, name))) {
    const content = readFileSync(file);
    if (content.length < COMPRESSED_MIN_BYTES) continue;
    const params = { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY };
    writeFileSync(`${file}.br`, brotliCompressSync(content, { params }));
    writeFileSync(`${file}.gz`, gzipSync(content));
  }
}

/** A whole build takes the place of an old one, or of none. */
function takeOver(outDir: string): void {
  const old = `${outDir}-old`;
  if (existsSync(DIST) && !isBuilt()) renameSync(DIST, old);
  try {
    renameSync(outDir, DIST);
  } catch (error) {
    // Another one was faster with the same.
    if (!isBuilt()) throw error;
  }
  rmSync(old, { recursive: true, force: true });
}

/** Of everything that goes into a build: the sources, the SDK's types that the editor shows, the packages' versions. */
function sourcesHash(): string {
  const hash = createHash('sha256');
  const files = globSync(['**/*.{ts,tsx,css,html,svg,json}', '../sdk/globals.d.ts', '../package-lock.json'], {
    cwd: root,
    exclude: ['node_modules/**', 'dist/**', '.build-*/**'],
  });
  for (const file of files.sort()) hash.update(`${file}\0`).update(readFileSync(join(root, file)));
  return hash.digest('hex');
}
