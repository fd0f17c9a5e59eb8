/**
 * Builds the console into `dist/`, unless what is there was built from these very sources. `npm start` runs it, so a
 * newcomer needs no build command and nobody waits for one twice.
 */
import { createHash } from 'node:crypto';
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { build } from 'vite';

const root = fileURLToPath(new URL('.', import.meta.url));
const MARK = join(root, 'dist', '.sources');

const sources = sourcesHash();
if (!existsSync(MARK) || readFileSync(MARK, 'utf8') !== sources) {
  await build({
    root,
    configFile: false,
    logLevel: process.argv.includes('--verbose') ? 'info' : 'error',
    plugins: [react()],
    // The tests' tools bring another React, one folder up.
    resolve: { dedupe: ['react', 'react-dom'] },
    build: {
      target: 'es2022',
      modulePreload: { polyfill: false },
      assetsInlineLimit: 0,
      chunkSizeWarningLimit: 10_000,
    },
  });
  writeFileSync(MARK, sources);
}

/** Of everything that goes into a build: the sources, the SDK's types that the editor shows, the packages' versions. */
function sourcesHash(): string {
  const hash = createHash('sha256');
  const files = globSync(['**/*.{ts,tsx,css,html,svg,json}', '../sdk/globals.d.ts', '../package-lock.json'], {
    cwd: root,
    exclude: ['node_modules/**', 'dist/**'],
  });
  for (const file of files.sort()) hash.update(`${file}\0`).update(readFileSync(join(root, file)));
  return hash.digest('hex');
}
