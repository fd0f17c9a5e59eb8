/** Bundles the child program into one file at start-up, which avoids a stale build. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BuildOptions, Plugin } from 'esbuild';
import bundler from 'esbuild/package.json' with { type: 'json' };
import { type Built, buildOrReuse } from './kept-builds.ts';

/** Entry of the child program. Tests without wall L1 pass another one. */
const CHILD_ENTRY = fileURLToPath(new URL('main.ts', import.meta.url));

/** Entries of the inspectable child, of the programs that are loaded on first use, and of the inspector thread. */
const INSPECTED_ENTRY = fileURLToPath(new URL('inspected.ts', import.meta.url));
const SCHEMA_ENTRY = fileURLToPath(new URL('schema-program.ts', import.meta.url));
const WEB_ENTRY = fileURLToPath(new URL('web-program.ts', import.meta.url));
const RELAY_ENTRY = fileURLToPath(new URL('inspector-relay.ts', import.meta.url));

const SCOPE_END = fileURLToPath(new URL('scope-end.ts', import.meta.url));
/** Replaces parts of ses. */
const sesParts: Plugin = {
  name: 'ses-parts',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\/strict-scope-terminator\.js$/ }, ({ importer }) =>
      importer.endsWith('make-safe-evaluator.js') ? { path: SCOPE_END } : null,
    );
    // The engine makes Temporal when it is first touched, and most plugins never do.
    onLoad({ filter: /\/ses\/src\/(?:commons|permits)\.js$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      const without = text.replace(/^ {2}Temporal(?:: '%\w+%')?,.*\n/gm, '');
      return { contents: path.endsWith('commons.js') ? `${without}\nexport const Temporal = undefined;\n` : without };
    });
    // It replaces methods of ArrayBuffer by slower ones, for immutable buffers, which the language does not have.
    onLoad({ filter: /\/immutable-arraybuffer\/src\/shim\.js$/ }, () => ({ contents: '' }));
  },
};

/** Null until the first build: a process that finds its programs kept does without the bundler. */
let esbuild: typeof import('esbuild') | null = null;

/** Stops the bundler's process, which would wait for further builds. */
export async function endBuilds(): Promise<void> {
  await esbuild?.stop();
}

/** Bundles the program of an inspectable child. */
export async function buildInspectedChild(): Promise<string> {
  return buildChild(INSPECTED_ENTRY, { INSPECTOR_RELAY: JSON.stringify(await bundleProgram(RELAY_ENTRY)) });
}

/**
 * @param entry a TypeScript file that calls `serve`
 * @param define JavaScript expressions that replace names
 * @returns one strict CommonJS script that imports only Node's built-in modules
 */
export async function buildChild(
  entry: string = CHILD_ENTRY,
  define: Readonly<Record<string, string>> = {},
): Promise<string> {
  return bundleProgram(entry, {
    SCHEMA_PROGRAM: JSON.stringify(await bundleProgram(SCHEMA_ENTRY, {}, 'iife')),
    WEB_PROGRAM: JSON.stringify(await bundleProgram(WEB_ENTRY, {}, 'iife')),
    ...define,
  });
}

/** @param format `iife` for a program without Node's `module` and `require`, whose exports become the variable `web` */
async function bundleProgram(
  entry: string,
  define: Readonly<Record<string, string>> = {},
  format: 'cjs' | 'iife' = 'cjs',
): Promise<string> {
  const options = {
    entryPoints: [entry],
    define: { ...define },
    bundle: true,
    platform: 'node',
    format,
    ...(format === 'iife' ? { globalName: 'web' } : {}),
    target: 'node26',
    minify: true,
    // A crashing Node prints the source line to stderr, of which only 8 kB are kept.
    lineLimit: 160,
    // esbuild drops the directive that ses requires.
    banner: { js: '"use strict";' },
    legalComments: 'none',
    logLevel: 'silent',
  } as const satisfies BuildOptions;
  return buildOrReuse(JSON.stringify([bundler.version, options]), () => runBuild(options));
}

async function runBuild(options: BuildOptions): Promise<Built> {
  esbuild ??= await import('esbuild');
  const { outputFiles, metafile } = await esbuild.build({
    ...options,
    plugins: [sesParts],
    write: false,
    metafile: true,
  });
  const [file] = outputFiles;
  if (!file) throw new Error('the child program was not built');
  // This file says how parts of ses are replaced.
  const inputs = [fileURLToPath(import.meta.url), ...Object.keys(metafile.inputs).map((path) => resolve(path))];
  return { text: file.text, inputs };
}
