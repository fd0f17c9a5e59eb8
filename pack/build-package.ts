/**
 * Builds `@bulkhead/sdk` for publishing: the files of sdk/ for authors, and dist/ with JavaScript and the committed
 * declarations. `node pack/build-package.ts <folder>` creates the folder; `npm pack <folder>` packs it.
 */
import { chmod, copyFile, cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build } from 'esbuild';
import { buildChild } from '../sandbox-child/build-child.ts';
import { CHILD_FILE } from './child-program.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Copied from sdk/ unchanged. */
const COPIED = ['package.json', 'globals.d.ts', 'tsconfig.plugin.json', 'REFERENCE.md', 'README.md'];
const ADAPTERS = ['ai-sdk', 'langchain', 'openai-agents'];
/** Bundles for Node only, with code of the host. */
const NODE_ENTRIES = {
  bulkhead: 'pack/bulkhead.ts',
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
  const dist = join(folder, 'dist');
  await mkdir(dist, { recursive: true });
  await Promise.all([
    ...COPIED.map((name) => copyFile(join(ROOT, 'sdk', name), join(folder, name))),
    build({ ...common, outdir: dist, entryPoints: PORTABLE_ENTRIES, platform: 'neutral', packages: 'external' }),
    buildForNode(dist),
    cp(join(ROOT, 'sdk/declarations'), dist, { recursive: true }),
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
  const [folder] = process.argv.slice(2);
  if (folder === undefined) throw new Error('Pass the folder to build into: node pack/build-package.ts <folder>');
  await buildPackage(resolve(folder));
}
