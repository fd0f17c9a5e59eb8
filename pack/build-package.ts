/**
 * Builds `@bulkhead/sdk` for publishing: the files of sdk/ for authors, and dist/ with JavaScript and the committed
 * declarations. `sh deploy/node.sh pack/build-package.ts <folder>` creates a folder with the whole package. `npm pack ./sdk` takes the
 * files of sdk/ itself, and runs this with `--dist <folder>` for the files of dist/ only.
 */
import { chmod, copyFile, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type BuildOptions, build } from 'esbuild';
import { buildChild } from '../sandbox-child/build-child.ts';
import { CHILD_FILE } from './child-program.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Copied from sdk/ unchanged. */
const COPIED = ['globals.d.ts', 'tsconfig.plugin.json', 'REFERENCE.md', 'README.md'];
const ADAPTERS = ['ai-sdk', 'langchain', 'openai-agents'];
/** Bundles for Node only, with code of the host. */
const NODE_ENTRIES = {
  bulkhead: 'pack/start-bulkhead.ts',
  'command-line': 'pack/bulkhead.ts',
  testing: 'pack/testing/testing.ts',
  // The jail starts it from the folder of its bundle.
  'spawner-process': 'supervisor/jail/spawner-process.ts',
};
/** Bundles for every platform with `fetch`. */
const PORTABLE_ENTRIES = {
  session: 'sdk/session/session.ts',
  ...Object.fromEntries(ADAPTERS.map((name) => [`adapters/${name}`, `sdk/adapters/${name}.ts`])),
};
const common: BuildOptions = {
  absWorkingDir: ROOT,
  bundle: true,
  format: 'esm',
  target: 'es2024',
  splitting: true,
  chunkNames: 'chunks/[name]-[hash]',
  legalComments: 'linked',
  logLevel: 'warning',
};

/** Builds the package. @param folder is emptied first */
export async function buildPackage(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  // The scripts build the package in the repository; there is nothing to build in the package.
  const { scripts: _scripts, ...manifest } = JSON.parse(await readFile(join(ROOT, 'sdk/package.json'), 'utf8'));
  await Promise.all([
    writeFile(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`),
    ...COPIED.map((name) => copyFile(join(ROOT, 'sdk', name), join(folder, name))),
    buildDist(join(folder, 'dist')),
  ]);
}

/** Builds the JavaScript and its declarations. @param dist is emptied first */
async function buildDist(dist: string): Promise<void> {
  await rm(dist, { recursive: true, force: true });
  // First: it fails where the bundler makes one of its folders meanwhile.
  await cp(join(ROOT, 'sdk/declarations'), dist, { recursive: true });
  await Promise.all([
    build({ ...common, outdir: dist, entryPoints: PORTABLE_ENTRIES, platform: 'neutral', packages: 'external' }),
    buildForNode(dist),
  ]);
}

async function buildForNode(dist: string): Promise<void> {
  await build({
    ...common,
    outdir: dist,
    entryPoints: NODE_ENTRIES,
    platform: 'node',
    target: 'node22',
    minifySyntax: true,
    // Chunks are in the folder of the entry, so that both find the child's program.
    chunkNames: '[name]-[hash]',
    // npm installs the binary for the author's machine.
    external: ['esbuild'],
    // CommonJS packages load Node's modules with it.
    banner: {
      js: "import { createRequire as nodeRequire } from 'node:module'; const require = nodeRequire(import.meta.url);",
    },
  });
  await writeFile(join(dist, CHILD_FILE), await buildChild());
  await chmod(join(dist, 'bulkhead.js'), 0o755);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { dist: { type: 'string' } } });
  const [folder] = positionals;
  if (values.dist !== undefined) await buildDist(resolve(values.dist));
  else if (folder !== undefined) await buildPackage(resolve(folder));
  else throw new Error('Pass the folder to build into: sh deploy/node.sh pack/build-package.ts <folder>');
}
