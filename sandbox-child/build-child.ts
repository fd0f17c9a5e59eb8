/** Bundles the child program into one file. Done at start-up: it takes 30 ms, and there is nothing to go stale. */
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** Where the real child starts; tests that take wall L1 down pass another entry. */
export const CHILD_ENTRY = fileURLToPath(new URL('main.ts', import.meta.url));

/** Where a child starts whose owner debugs it, and the thread it starts. */
const INSPECTED_ENTRY = fileURLToPath(new URL('inspected.ts', import.meta.url));
const RELAY_ENTRY = fileURLToPath(new URL('inspector-relay.ts', import.meta.url));

/** The program of a child that can be inspected. */
export async function buildInspectedChild(): Promise<string> {
  return buildChild(INSPECTED_ENTRY, { INSPECTOR_RELAY: JSON.stringify(await buildChild(RELAY_ENTRY)) });
}

/**
 * @param entry a TypeScript file that calls `serve`
 * @param define texts put in the place of names
 * @returns one strict CommonJS script that needs nothing but Node's built-in modules
 */
export async function buildChild(
  entry: string = CHILD_ENTRY,
  define: Readonly<Record<string, string>> = {},
): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [entry],
    define: { ...define },
    bundle: true,
    write: false,
    platform: 'node',
    format: 'cjs',
    target: 'node26',
    minify: true,
    // Node prints the line it dies in, and all of stderr that is kept is 8 kB.
    lineLimit: 160,
    // esbuild drops the directive that ses insists on.
    banner: { js: '"use strict";' },
    legalComments: 'none',
    logLevel: 'silent',
  });
  const [file] = outputFiles;
  if (!file) throw new Error('the child program was not built');
  return file.text;
}
