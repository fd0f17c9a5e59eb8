/** Builds the console into `dist/`, unless `dist/` was built from the same sources. `npm start` runs this at each start. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildIfStale, compress, hashSources } from './built-folder.ts';
import { NOT_SOURCES, SOURCES } from './sources.ts';

const root = fileURLToPath(new URL('.', import.meta.url));
/**
 * The first browsers with `light-dark()`, of 2024. For older ones, Vite would replace it by code that needs `color-scheme` in the
 * same file.
 */
const CSS_TARGET = ['chrome123', 'firefox120', 'safari17.5'];
/** The package that reads `&amp;` in Markdown. */
const CHARACTER_NAMES = 'decode-named-character-reference';

await buildIfStale(join(root, 'dist'), hashSources(root, SOURCES, NOT_SOURCES), async (outDir) => {
  await buildInto(outDir);
  // Their names contain a hash of their content, so they are compressed once and cached.
  compress(outDir, 'assets/*.{js,css,ttf}');
});

async function buildInto(outDir: string): Promise<void> {
  // Loaded only for a build: loading Vite takes a second.
  const [{ build }, { default: react }] = await Promise.all([import('vite'), import('@vitejs/plugin-react')]);
  await build({
    root,
    configFile: false,
    logLevel: process.argv.includes('--verbose') ? 'info' : 'error',
    plugins: [react()],
    // The worker of the editor's compiler is built as ES modules, like the pages.
    worker: { format: 'es' },
    resolve: {
      // Another React may be installed one folder up, by the tools of the tests.
      dedupe: ['react', 'react-dom'],
      // Its file for browsers needs `document`, which the worker that parses Markdown has not.
      alias: { [CHARACTER_NAMES]: fileURLToPath(import.meta.resolve(CHARACTER_NAMES)) },
    },
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2022',
      cssTarget: CSS_TARGET,
      assetsInlineLimit: 0,
      chunkSizeWarningLimit: 10_000,
      modulePreload: { polyfill: false },
      // What every page loads is one file: on a slow network, the first page would otherwise wait for some 40 requests.
      rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'common', tags: ['$initial'] }] } } },
    },
  });
}
