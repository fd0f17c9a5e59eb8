/**
 * Builds the console into `dist/`, unless what is there was built from these very sources. `npm start` runs it, so a
 * newcomer needs no build command and does not wait for a second build.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildIfStale, compress, hashSources } from './built-folder.ts';

const root = fileURLToPath(new URL('.', import.meta.url));
/** Everything that goes into a build, parts of the SDK and the locked package versions included. */
const SOURCES = [
  '**/*.{ts,tsx,css,html,svg,json}',
  '../sdk/globals.d.ts',
  '../sdk/tsconfig.plugin.json',
  '../sdk/session/{event-stream,pause}.ts',
  '../package-lock.json',
];
const NOT_SOURCES = ['node_modules/**', 'dist/**', '.build-*/**'];
/** The first browsers with `light-dark()`, of 2024: its replacement for older ones needs a colour scheme in the same file. */
const CSS_TARGET = ['chrome123', 'firefox120', 'safari17.5'];

await buildIfStale(join(root, 'dist'), hashSources(root, SOURCES, NOT_SOURCES), async (outDir) => {
  await buildInto(outDir);
  // Files of the console never change under their names.
  compress(outDir, 'assets/*.{js,css,ttf}');
});

async function buildInto(outDir: string): Promise<void> {
  // Loaded only when there is something to build: the bundler takes a second.
  const [{ build }, { default: react }] = await Promise.all([import('vite'), import('@vitejs/plugin-react')]);
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
      outDir,
      emptyOutDir: true,
      target: 'es2022',
      cssTarget: CSS_TARGET,
      assetsInlineLimit: 0,
      chunkSizeWarningLimit: 10_000,
      modulePreload: { polyfill: false },
    },
  });
}
