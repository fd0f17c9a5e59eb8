/**
 * Compares the same JavaScript in a jailed child and in a plain Node with the child's flags of V8: what the frozen realm and the scopes
 * around a bundle cost. The two take turns, and the best round of each counts. Run `sh deploy/node.sh bench/plugin-code.ts`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { buildChild } from '../sandbox-child/build-child.ts';
import { limits } from '../sdk/contract/limits.ts';
import { startChild } from '../supervisor/children/child.ts';
import { nodeFlags } from '../supervisor/jail/node-flags.ts';
import { openSandbox } from '../supervisor/jail/sandbox.ts';
import { completeSearchPath } from '../test/runner/programs.ts';
import { openCleanup, openFolder } from './fixtures/cleanup.ts';

const ROUNDS = 5;
/** Both clocks are read in whole milliseconds. */
const ROUND_MS = 60;
const CALL_MS = 60_000;

/** One use each. The numbers and texts are those of a short message. */
const OPERATIONS = `({
  'uses 5 globals': () => String(Math.max(Number('3'), 4)) + Array.isArray(list) + isNaN(1),
  'parses JSON': () => JSON.parse('{"id":"a","tags":["b","c"],"user":{"name":"Ada"}}'),
  'writes JSON': () => JSON.stringify({ id: 'a', tags: ['b', 'c'], user: { name: 'Ada' } }),
  'spreads an array of 4': () => [...list, 5],
  'makes a Map of 2': () => new Map([['a', 1], ['b', 2]]),
  'entries of an object of 3': () => Object.fromEntries(Object.entries({ a: 1, b: 2, c: 3 })),
  'awaits 4 together': () => Promise.all(list),
  'loops over 4': () => { let sum = 0; for (const item of list) sum += item; return sum; },
  'tests a pattern': () => /\\d{3}-\\d{4}/.test(text),
  'replaces a pattern': () => text.replace(/\\d{3}-\\d{4}/g, '[phone]'),
  'splits at a pattern': () => text.split(/,\\s*/),
  'maps an array of 4': () => list.map((item) => item + 1),
  'maps an array of 1,000': () => long.map((item) => item + 1),
})`;
const PROGRAM = `
const list = [1, 2, 3, 4];
const long = Array.from({ length: 1000 }, (_, index) => index);
const text = 'Ada, call 555-1234 or 555-9999, today';
const operations = ${OPERATIONS};
async function countCalls(name) {
  const operation = operations[name];
  const end = Date.now() + ${ROUND_MS};
  let calls = 0;
  for (; Date.now() < end; calls += 100) for (let index = 0; index < 100; index += 1) operation();
  // What was started, such as promises, ends before the next round.
  await operation();
  return calls;
}`;
const PLUGIN = `${PROGRAM}
tools.run = { description: 'counts', parameters: {}, handler: ({ name }) => countCalls(name) };`;
const FLAGS_FILE = new URL('../sandbox-child/compiler-flags.ts', import.meta.url);
const PLAIN = `
import { setCompilerFlags } from ${JSON.stringify(FLAGS_FILE.href)};
setCompilerFlags();
${PROGRAM}
process.on('message', async (name) => process.send(await countCalls(name)));`;

const cleanup = openCleanup();
await completeSearchPath();
const sandbox = await openSandbox({ directory: openFolder(cleanup), program: await buildChild(), mode: 'auto' });
const child = startChild(sandbox.jail, {
  onHostCall: () => Promise.reject(new Error('nothing is granted')),
  onLog: () => undefined,
  onExit: () => undefined,
});
cleanup.teardown(() => child.kill('the bench is over'));
const bundle = { bundle: PLUGIN, sourceName: 'bench.js', members: [], settings: {}, secretNames: [], expected: null };
await child.load(bundle);
const plain = spawn(process.execPath, [...nodeFlags(limits.heapMegabytes, false), '--input-type=module', '-e', PLAIN], {
  stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
});
cleanup.teardown(() => void plain.kill());

async function countPlain(name: string): Promise<number> {
  plain.send(name);
  const [calls] = await once(plain, 'message');
  return calls as number;
}

async function countJailed(name: string): Promise<number> {
  const options = { invocationId: name, deadlineAt: Date.now() + CALL_MS };
  const outcome = await child.invoke({ kind: 'tools', name: 'run' }, { arguments: { name } }, options);
  if (outcome.outcome !== 'answered') throw new Error(JSON.stringify(outcome));
  return outcome.answer as number;
}

const toNanoseconds = (calls: readonly number[]): number => (ROUND_MS / Math.max(...calls)) * 1e6;

console.log(`sandbox ${sandbox.state}; nanoseconds per use    plain   jailed`);
for (const [, name = ''] of OPERATIONS.matchAll(/^ {2}'([^']+)':/gm)) {
  const plainCalls: number[] = [];
  const jailedCalls: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    plainCalls.push(await countPlain(name));
    jailedCalls.push(await countJailed(name));
  }
  const [base, jailed] = [toNanoseconds(plainCalls), toNanoseconds(jailedCalls)];
  const figures = [base, jailed].map((ns) => ns.toFixed(0).padStart(8)).join(' ');
  console.log(`  ${name.padEnd(34)}${figures}   ${(jailed / base).toFixed(1)}×`);
}
await cleanup.end();
process.exit();
