/**
 * Prepares the child program with V8's code cache. A child that starts from it takes a fifth less processor time, because V8
 * need not compile the functions of a start. V8 rejects the cache of another version, other flags or a source of another length,
 * and then compiles the source.
 */
import { spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { keepFile, readKeptFile } from '../../sandbox-child/kept-files.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { nodeFlags } from './node-flags.ts';

/** After this time the process that makes the cache is killed, and children start without a cache. Milliseconds. */
const MAKE_TIMEOUT_MS = 10_000;
const LENGTH_BYTES = 4;

/** A child's entry script. Its argument names the file of `cacheProgram`: the source's length, the source, and the code cache. */
export const START_CACHED_PROGRAM = `'use strict';
const { Script } = require('node:vm');
const file = require('node:fs').readFileSync(process.argv[2]);
const end = ${LENGTH_BYTES} + file.readUInt32LE(0);
const source = file.latin1Slice(${LENGTH_BYTES}, end);
const script = new Script(source, { filename: __filename, cachedData: file.subarray(end) });
script.runInThisContext()(exports, require, module);
`;

/**
 * Reads the program from standard input and writes its code cache to descriptor 3. Runs the program first, because V8 caches
 * only functions that it has compiled.
 */
const MAKE_CACHE = `'use strict';
const { readFileSync, writeFileSync } = require('node:fs');
const { Script } = require('node:vm');
const script = new Script(readFileSync(0, 'latin1'), { filename: '/child.cjs' });
script.runInThisContext()(exports, require, module);
writeFileSync(3, script.createCachedData());
process.exit(0);
`;
/** The V8 flags of every child, because V8 rejects a cache that was made under other flags. Node's own flags do not matter. */
const FLAGS = nodeFlags(limits.heapMegabytes, false);

/** Of everything for which a code cache was made. The caches themselves differ each time. */
const hashKey = (source: string): string =>
  hash('sha256', [process.version, ...FLAGS, MAKE_CACHE, START_CACHED_PROGRAM, source].join('\0'));

/** Returns the same hash for all results of `cacheProgram` that may replace each other. */
export function hashCachedProgram({ buffer, byteOffset, byteLength }: Uint8Array): string {
  const file = Buffer.from(buffer, byteOffset, byteLength);
  return hashKey(file.toString('latin1', LENGTH_BYTES, LENGTH_BYTES + file.readUInt32LE(0)));
}

/**
 * Returns the source's length, the source, and the code cache, which it keeps for later processes.
 *
 * @param program one CommonJS script
 * @returns null if no cache can be made
 */
export async function cacheProgram(program: string): Promise<Buffer | null> {
  const source = `(function (exports, require, module) {${program}\n})`;
  const text = Buffer.from(source, 'latin1');
  // Latin-1 has no other characters, and V8 would get a different source.
  if (text.toString('latin1') !== source) return null;
  const name = hashKey(source);
  const kept = await readKeptFile(name);
  if (kept !== null) return kept;
  const codeCache = await makeCodeCache(text);
  if (codeCache === null) return null;
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(text.length);
  const cachedProgram = Buffer.concat([length, text, codeCache]);
  await keepFile(name, cachedProgram);
  return cachedProgram;
}

async function makeCodeCache(source: Buffer): Promise<Buffer | null> {
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
    // EPIPE: the process may end before it has read everything. Its exit code decides.
    child.stdin?.on('error', () => undefined).end(source);
    const [code, cache] = await Promise.all([ended, buffer(output as NodeJS.ReadableStream)]);
    return code === 0 && cache.length > 0 ? cache : null;
  } catch {
    return null;
  }
}
