/** The files of `sdk/declarations/`: the declarations of `@bulkhead/sdk`, emitted by the TypeScript compiler. */
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const PROJECT = fileURLToPath(new URL('../../pack/tsconfig.json', import.meta.url));
const COMPILER = fileURLToPath(new URL('../../test/node_modules/typescript-7/bin/tsc', import.meta.url));

/** @returns the text of each file by its path from the root */
export async function sdkDeclarations(): Promise<Readonly<Record<string, string>>> {
  const folder = await mkdtemp(join(tmpdir(), 'bulkhead-declarations-'));
  try {
    const emitted = ['--noEmit', 'false', '--declaration', '--emitDeclarationOnly', '--outDir', folder];
    // Threads repeat each other's work.
    const flags = [...emitted, '--noCheck', '--singleThreaded'];
    await promisify(execFile)(process.execPath, [COMPILER, '-p', PROJECT, ...flags]);
    const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.d.ts')).sort();
    const texts = names.map(async (name) => {
      const text = await readFile(join(folder, name), 'utf8');
      return [`sdk/declarations/${name}`, importScripts(text)] as const;
    });
    return Object.fromEntries(await Promise.all(texts));
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** In the package `x.d.ts` lies beside `x.js`; there is no `x.ts`. */
function importScripts(declarations: string): string {
  return declarations.replace(/(from |import\()(['"]\.{1,2}\/[^'"]+)\.ts(['"])/g, '$1$2.js$3');
}
