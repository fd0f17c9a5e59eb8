/**
 * Measures how long a jailed child takes until it can load a bundle, as a ratio to a bare `node -e 0`, the two
 * interleaved. Measures the memory of an idle child as proportional set size of all its processes, alone and among
 * others.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildChild } from '../sandbox-child/build-child.ts';
import { type Child, startChild } from '../supervisor/children/child.ts';
import { cacheProgram } from '../supervisor/jail/cached-program.ts';
import { type Jail, makeJail } from '../supervisor/jail/jail.ts';
import { openSandbox } from '../supervisor/jail/sandbox.ts';
import { completeSearchPath } from '../test/runner/programs.ts';
import { openCleanup, openFolder } from './fixtures/cleanup.ts';
import { readPositiveNumber } from './options.ts';
import { median, percentile } from './percentiles.ts';

const STARTS = 25;
/** Number of children side by side; `CHILDREN=40 sh deploy/node.sh bench/child-start.ts` starts more. */
const HANDFUL = readPositiveNumber('CHILDREN', process.env.CHILDREN ?? '8');
/** Wait until an idle child has collected its start-up garbage. */
const SETTLE_MS = 11_000;
const GOALS = { timesNode: 3, idleMb: 18, jailMs: 10, jailMb: 1 };
const PLUGIN = 'middleware.systemPrompt = (ctx) => ctx.systemPrompt + " Use metric units.";';

const cleanup = openCleanup();
const directory = openFolder(cleanup);
const program = await buildChild();
// With bubblewrap: without the jail, something else would be measured.
await completeSearchPath();
const cachedProgram = await cacheProgram(program);
const sandbox = await openSandbox({ directory, program, cachedProgram, mode: 'auto' });
if (sandbox.state !== 'full')
  throw new Error(`The sandbox of this machine is ${sandbox.state}: a child without its jail would be measured.`);
const bareJail = makeJail({
  directory: join(directory, 'bare'),
  program,
  cachedProgram,
  walls: { node: true, os: false },
});

function start(jail: Jail): Child {
  return startChild(jail, {
    onHostCall: () => Promise.reject(new Error('nothing is granted')),
    onLog: () => undefined,
    onExit: () => undefined,
  });
}

async function timeStart(jail: Jail): Promise<number> {
  const started = performance.now();
  const child = start(jail);
  await child.ready;
  const ms = performance.now() - started;
  await child.kill('the bench is over');
  return ms;
}

function timeNode(): number {
  const started = performance.now();
  spawnSync(process.execPath, ['-e', '0'], { stdio: 'ignore' });
  return performance.now() - started;
}

/** Kilobytes. Shared pages are divided among their processes, so the sum is the memory in use. */
function weigh(pid: number): { pss: number; own: number } {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1');
  const field = (name: string): number => Number(new RegExp(`^${name}: +(\\d+)`, 'm').exec(rollup)?.[1] ?? 0);
  return { pss: field('Pss'), own: field('Private_Dirty') + field('Private_Clean') };
}

/** Node and the bubblewrap that waits for it. Without a jail, the parent is the spawner, which all children share. */
function listProcesses(child: Child): number[] {
  const parent = /^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'latin1'))?.[1];
  const isJail = readFileSync(`/proc/${parent}/comm`, 'latin1').trim() === 'bwrap';
  return isJail ? [child.pid, Number(parent)] : [child.pid];
}

/** Returns the median memory of one child in megabytes. */
async function weighChildren(jail: Jail, name: string, count: number): Promise<number> {
  const children = Array.from({ length: count }, () => start(jail));
  const bundle = { bundle: PLUGIN, sourceName: 'bench.js', members: [], settings: {}, secretNames: [], expected: null };
  await Promise.all(children.map((child) => child.load(bundle)));
  await sleep(SETTLE_MS);
  const weights = children.map((child) => {
    const all = listProcesses(child).map(weigh);
    const sum = (pick: (weight: { pss: number; own: number }) => number) =>
      all.reduce((total, each) => total + pick(each), 0);
    return { pss: sum((each) => each.pss) / 1024, own: sum((each) => each.own) / 1024 };
  });
  const pss = median(weights.map((weight) => weight.pss));
  const own = median(weights.map((weight) => weight.own)).toFixed(1);
  console.log(`  ${String(count).padStart(2)} ${name}: PSS ${pss.toFixed(1)} MB each, of it private ${own} MB`);
  await Promise.all(children.map((child) => child.kill('the bench is over')));
  return pss;
}

const samples = { node: [] as number[], bare: [] as number[], jailed: [] as number[] };
for (let index = 0; index < STARTS; index += 1) {
  samples.node.push(timeNode());
  samples.bare.push(await timeStart(bareJail));
  samples.jailed.push(await timeStart(sandbox.jail));
}
const node = median(samples.node);
console.log(
  `until ready; sandbox ${sandbox.state}, limiter ${sandbox.limiter}, ${STARTS} starts each; goal of jailed ≤ ${GOALS.timesNode}× bare node`,
);
for (const [name, found] of Object.entries(samples)) {
  const ms = median(found);
  console.log(
    `  ${name.padEnd(8)}p50 ${ms.toFixed(1)} ms   p90 ${percentile(found, 0.9).toFixed(1)} ms   ${(ms / node).toFixed(2)}×`,
  );
}
console.log(`idle and loaded; goal PSS ≤ ${GOALS.idleMb} MB`);
const aloneMb = await weighChildren(sandbox.jail, 'jailed', 1);
const jailedMb = await weighChildren(sandbox.jail, 'jailed', HANDFUL);
const bareMb = await weighChildren(bareJail, 'bare', HANDFUL);
const ms = median(samples.jailed.map((jailed, index) => jailed - (samples.bare[index] ?? 0)));
console.log(`the jail over a bare child; goals ≤ ${GOALS.jailMs} ms, ≤ ${GOALS.jailMb} MB`);
console.log(`  ${ms.toFixed(1)} ms (median of pairs)   ${(jailedMb - bareMb).toFixed(1)} MB (PSS)`);
const missed = [
  ...(median(samples.jailed) > GOALS.timesNode * node ? ['the start'] : []),
  ...(Math.max(aloneMb, jailedMb) > GOALS.idleMb ? ['the memory of a child'] : []),
  ...(ms > GOALS.jailMs ? ['the time of the jail'] : []),
  ...(jailedMb - bareMb > GOALS.jailMb ? ['the memory of the jail'] : []),
];
console.log(missed.length === 0 ? 'all goals met' : `missed: ${missed.join(', ')}`);
if (missed.length > 0) process.exitCode = 1;
await cleanup.end();
process.exit();
