/**
 * The child program with V8's code cache: a child that starts from it spends a fifth less processor time, because V8 compiles
 * nothing that a start needs. V8 checks version, flags and source, and compiles as usual if any of them differs.
 */
import { spawn } from 'node:child_process';
import { hash, randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { getCompileCacheDir } from 'node:module';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { limits } from '../../sdk/contract/limits.ts';
import { nodeFlags } from './node-flags.ts';

/** A cache that takes longer is not made. Milliseconds. */
const MAKE_TIMEOUT_MS = 10_000;
const LENGTH_BYTES = 4;
const HASH_BYTES = 32;

/** Runs the program of the file that its argument names: the source's length, the source, and the code cache. */
export const START_CACHED_PROGRAM = `'use strict';
const { Script } = require('node:vm');
const file = require('node:fs').readFileSync(process.argv[2]);
const end = ${LENGTH_BYTES} + file.readUInt32LE(0);
const source = file.latin1Slice(${LENGTH_BYTES}, end);
const script = new Script(source, { filename: __filename, cachedData: file.subarray(end) });
script.runInThisContext()(exports, require, module);
`;

/** Runs the program on its standard input until it waits for messages, so that the cache holds each function of a start. */
const MAKE_CACHE = `'use strict';
const { readFileSync, writeFileSync } = require('node:fs');
const { Script } = require('node:vm');
const { setFlagsFromString } = require('node:v8');
const script = new Script(readFileSync(0, 'latin1'), { filename: '/child.cjs' });
script.runInThisContext()(exports, require, module);
// The program turns this flag off, and V8 accepts a cache under the flags that were set when it was made.
setFlagsFromString('--expose-gc');
writeFileSync(3, script.createCachedData());
process.exit(0);
`;
/** V8 accepts a cache under the flags that it was made with; those of the walls do not matter to it. */
const FLAGS = nodeFlags(limits.heapMegabytes, false);

/**
 * Makes the file, or reads it from the folder of Node's compile cache.
 *
 * @param program one CommonJS script
 * @returns null if it cannot be made
 */
export async function cacheProgram(program: string): Promise<Buffer | null> {
  const source = `(function (exports, require, module) {${program}\n})`;
  const text = Buffer.from(source, 'latin1');
  // A character outside of latin1 would be lost.
  if (text.toString('latin1') !== source) return null;
  const cache = getCompileCacheDir();
  const recipe = hash('sha256', [process.version, ...FLAGS, MAKE_CACHE, source].join('\0'));
  const folder = cache === undefined ? null : join(cache, 'child-programs');
  const kept = folder === null ? null : await readKept(join(folder, recipe));
  if (kept !== null) return kept;
  const code = await makeCache(text);
  if (code === null) return null;
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(text.length);
  const made = Buffer.concat([length, text, code]);
  if (folder !== null) await storeProgram(folder, recipe, made);
  return made;
}

async function makeCache(source: Buffer): Promise<Buffer | null> {
  try {
    const child = spawn(process.execPath, [...FLAGS, '-e', MAKE_CACHE], {
      env: {},
      cwd: '/',
      stdio: ['pipe', 'ignore', 'ignore', 'pipe'],
      timeout: MAKE_TIMEOUT_MS,
      killSignal: 'SIGKILL',
    });
    const ended = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve));
    const [, , , output] = child.stdio;
    // It may end before it has read everything.
    child.stdin?.on('error', () => undefined).end(source);
    const [code, cache] = await Promise.all([ended, buffer(output as NodeJS.ReadableStream)]);
    return code === 0 && cache.length > 0 ? cache : null;
  } catch {
    return null;
  }
}

/** V8 does not check the content of a cache, and a broken disk must not crash every child. */
async function readKept(file: string): Promise<Buffer | null> {
  try {
    const kept = await readFile(file);
    const content = kept.subarray(HASH_BYTES);
    return hash('sha256', content, 'buffer').equals(kept.subarray(0, HASH_BYTES)) ? content : null;
  } catch {
    return null;
  }
}

async function storeProgram(folder: string, name: string, content: Buffer): Promise<void> {
  // Another process may read or write it at the same time.
  const whole = join(folder, `${name}.${randomUUID()}`);
  try {
    await mkdir(folder, { recursive: true });
    await writeFile(whole, Buffer.concat([hash('sha256', content, 'buffer'), content]));
    await rename(whole, join(folder, name));
  } catch {
    // The folder may be read-only: the next process makes it again.
  }
}
