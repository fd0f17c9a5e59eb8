/**
 * Compares a hook with the pipe it travels through: one link of a `systemPrompt` chain with a 4 KB prompt, from the
 * call to the validated result of a jailed child. Three other pairs of processes run in the same benchmark. `bytes`: a
 * pipe to a Node that echoes the same bytes; the cost of the kernel and Node's streams alone. `JSON lines`: one JSON
 * message per line, parsed and answered, without library, jail, limits and checks; the goal is a ratio to it.
 * `vscode-jsonrpc`: the same two processes over its stock connection, reader and writer; the hook uses the same library
 * over a reader and a writer of its own. The placement of the two processes matters most
 * (waking another core takes 40 µs here), so each is measured unpinned, which is how the product runs and what the goal
 * refers to, pinned to one core, and pinned to two.
 */
import { type ChildProcessByStdio, execFileSync, spawn, spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { Pool } from 'pg';
import { buildChild } from '../sandbox-child/build-child.ts';
import { limits } from '../sdk/contract/limits.ts';
import { foldLink, startChain } from '../supervisor/calls/chain.ts';
import { ChainTime } from '../supervisor/calls/chain-time.ts';
import { type Child, startChild } from '../supervisor/children/child.ts';
import { openSandbox } from '../supervisor/jail/sandbox.ts';
import { createMetrics } from '../supervisor/records/metrics.ts';
import { Rollups } from '../supervisor/records/rollups.ts';
import { completeSearchPath } from '../test/runner/programs.ts';
import { openCleanup, openFolder } from './fixtures/cleanup.ts';
import { percentile } from './percentiles.ts';

const ROUNDS = 10;
const WARM_UP_ROUNDS = 2;
const CALLS_A_ROUND = 1_000;
/** Fresh processes for each measurement, so that one placement does not decide. */
const PAIRS = 3;
const GOALS = [
  { name: 'p50', p: 0.5, most: 1.4 },
  { name: 'p99', p: 0.99, most: 2 },
] as const;
const PROMPT = 'You are a helpful agent. Answer briefly, cite sources. '.repeat(80).slice(0, 4_096);
const PLUGIN = 'middleware.systemPrompt = (ctx) => ctx.systemPrompt + " Use metric units.";';
const HOOK = 'middleware.systemPrompt';
const agent = { id: 'a1', name: 'Ada' };
const session = { id: 's1', channelId: null };

// A second instance of the library: its runtime is one for all connections of an instance, and the supervisor has installed
// its own.
const requireStock = createRequire(import.meta.url);
for (const path of Object.keys(requireStock.cache)) {
  if (path.includes('/vscode-jsonrpc/')) delete requireStock.cache[path];
}
const { createMessageConnection, StreamMessageReader, StreamMessageWriter }: typeof import('vscode-jsonrpc/node') =
  requireStock('vscode-jsonrpc/node');

interface Subject {
  readonly pid: number;
  call(): Promise<unknown>;
  end(): unknown;
}
type Make = () => Promise<Subject>;

const cleanup = openCleanup();
const directory = openFolder(cleanup);
const program = await buildChild();
// With bubblewrap: without the jail, something else would be measured.
await completeSearchPath();
const sandbox = await openSandbox({ directory, program, mode: 'auto' });
/** A pool that never connects, because nothing queries it. */
const pool = new Pool();
const metrics = createMetrics({
  pool,
  slugs: limits.metricSlugs,
  rollups: new Rollups(pool, { flushMs: 3_600_000, onError: () => undefined }),
  gauges: {
    dataDir: directory,
    children: () => ({}),
    load: () => ({ busyRatio: 0, startsWaiting: 0 }),
    memory: () => new Map(),
    recentExits: () => new Map(),
    logQueue: () => 0,
    auditQueue: () => 0,
    isBlobStoreAvailable: () => true,
    sandbox: () => ({ state: 'full', limiter: 'rlimit' }),
  },
});
const audited: unknown[] = [];

const subjects: Readonly<Record<string, Make>> = {
  bytes: async () => echoed(peer('echo.ts')),
  'JSON lines': async () => lines(peer('json-lines.ts')),
  'jailed hook': async () => jailed(),
  'vscode-jsonrpc': async () => stock(peer('vscode-jsonrpc.ts')),
};

type Peer = ChildProcessByStdio<Writable, Readable, null>;

function peer(name: string): Peer {
  return spawn(process.execPath, [fileURLToPath(new URL(`peers/${name}`, import.meta.url))], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
}

/** The chain's input, created before the clock starts. */
const at = new Date();
const context = {
  systemPrompt: PROMPT,
  model: 'any',
  hook: HOOK,
  invocationId: 'i1',
  settings: {},
  agent,
  session,
  trigger: 'user',
  at: at.toISOString(),
  deadlineAt: new Date(at.getTime() + 3_000).toISOString(),
};

function echoed(peer: Peer): Subject {
  const { stdin, stdout } = peer;
  const bytes = Buffer.from(JSON.stringify({ id: 1, method: 'invoke', params: { context } }));
  let missing = 0;
  let done = (): void => undefined;
  stdout.on('data', (chunk: Buffer) => {
    missing -= chunk.byteLength;
    if (missing === 0) done();
  });
  const call = (): Promise<void> =>
    new Promise((resolve) => {
      done = resolve;
      missing = bytes.byteLength;
      stdin.write(bytes);
    });
  return { pid: peer.pid ?? 0, call, end: () => peer.kill() };
}

function lines(peer: Peer): Subject {
  const { stdin, stdout } = peer;
  const waiting = new Map<number, (answer: unknown) => void>();
  let rest = '';
  stdout.setEncoding('utf8').on('data', (text: string) => {
    const whole = (rest + text).split('\n');
    rest = whole.pop() ?? '';
    for (const line of whole) {
      const { id, result } = JSON.parse(line);
      waiting.get(id)?.(result);
      waiting.delete(id);
    }
  });
  let id = 0;
  const call = (): Promise<unknown> =>
    new Promise((resolve) => {
      id += 1;
      waiting.set(id, resolve);
      stdin.write(
        `${JSON.stringify({ id, method: 'invoke', params: { target: { kind: 'hook', name: HOOK }, context } })}\n`,
      );
    });
  return { pid: peer.pid ?? 0, call, end: () => peer.kill() };
}

function stock(peer: Peer): Subject {
  const { stdin, stdout } = peer;
  const connection = createMessageConnection(new StreamMessageReader(stdout), new StreamMessageWriter(stdin));
  connection.listen();
  const call = (): Promise<unknown> => {
    return connection.sendRequest('invoke', { target: { kind: 'hook', name: HOOK }, context });
  };
  return { pid: peer.pid ?? 0, call, end: () => peer.kill() };
}

async function jailed(): Promise<Subject> {
  const child: Child = startChild(sandbox.jail, {
    onHostCall: () => Promise.reject(new Error('nothing is granted')),
    onLog: () => undefined,
    onExit: () => undefined,
  });
  const bundle = { bundle: PLUGIN, sourceName: 'bench.js', members: [], settings: {}, secretNames: [], expected: null };
  await child.load(bundle);
  let id = 0;
  const call = async (): Promise<void> => {
    id += 1;
    const started = performance.now();
    const options = { invocationId: `i${id}`, deadlineAt: Date.now() + new ChainTime(HOOK).linkBudgetMs };
    const outcome = await child.invoke({ kind: 'hook', name: HOOK }, context, options);
    if (outcome.outcome !== 'answered') throw new Error(JSON.stringify(outcome));
    const ms = performance.now() - started;
    const link = { installationId: 'x', accountId: 'a', slug: 'bench', displayName: 'Bench', required: false };
    const fold = foldLink(HOOK, startChain(context), link, { kind: 'answered', answer: outcome.answer }, ms);
    if (fold.fault !== null) throw new Error(fold.fault);
    metrics.linkRan(HOOK, link, 'changed', ms);
    audited.push({ installationId: 'x', member: HOOK, outcome: 'changed', ms });
    if (audited.length === 256) audited.length = 0;
  };
  return { pid: child.pid, call, end: () => child.kill('the bench is over') };
}

async function measure(calls: Subject): Promise<number[]> {
  const samples: number[] = [];
  for (let index = 0; index < CALLS_A_ROUND; index += 1) {
    const started = performance.now();
    await calls.call();
    samples.push((performance.now() - started) * 1_000);
  }
  return samples;
}

function pin(pid: number, core: number | null): void {
  const cores = core === null ? '0-1023' : String(core);
  execFileSync('taskset', ['-a', '-c', '-p', cores, String(pid)], { stdio: 'ignore' });
}

/** Whether this process may run on a processor. */
const canPin = (core: number): boolean => spawnSync('taskset', ['-c', String(core), 'true']).status === 0;

async function compare(core: number | null): Promise<Map<string, number[]>> {
  const samples = new Map(Object.keys(subjects).map((name) => [name, [] as number[]]));
  for (let pair = 0; pair < PAIRS; pair += 1) {
    const made = await Promise.all(
      Object.entries(subjects).map(async ([name, make]) => ({ name, subject: await make() })),
    );
    for (const { subject } of made) if (core !== null) pin(subject.pid, core);
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const { name, subject } of made) {
        const found = await measure(subject);
        if (round >= WARM_UP_ROUNDS) samples.get(name)?.push(...found);
      }
    }
    for (const { subject } of made) await subject.end();
  }
  return samples;
}

type Samples = ReadonlyMap<string, readonly number[]>;
const FLOOR = 'JSON lines';

function print(title: string, samples: Samples): void {
  console.log(`\n${title.padEnd(56)}of ${FLOOR}      of bytes`);
  for (const [name, found] of samples) {
    const [p50, p99] = [0.5, 0.99].map((p) => percentile(found, p).toFixed(1).padStart(6));
    const shares = [FLOOR, 'bytes'].map((floor) => ratios(found, samples.get(floor) ?? []));
    console.log(`  ${name.padEnd(16)}p50 ${p50} µs   p99 ${p99} µs       ${shares.join('   ')}`);
  }
}

const ratios = (found: readonly number[], base: readonly number[]): string =>
  [0.5, 0.99].map((p) => `${(percentile(found, p) / percentile(base, p)).toFixed(2)}×`).join(' and ');

/** The lines to quote, one per placement, because the scheduler may place the compared pairs differently. */
function conclude(placement: string, samples: Samples): void {
  const base = samples.get(FLOOR) ?? [];
  const hook = samples.get('jailed hook') ?? [];
  const met = GOALS.every(({ p, most }) => percentile(hook, p) <= most * percentile(base, p));
  const goal = GOALS.map(({ name, most }) => `${name} ≤ ${most}×`).join(', ');
  console.log(`jailed hook, ${placement}: ${ratios(hook, base)} ${FLOOR}; goal ${goal}: ${met ? 'met' : 'missed'}`);
  if (!met) process.exitCode = 1;
}

console.log(`one systemPrompt link, 4 KB; sandbox ${sandbox.state}, limiter ${sandbox.limiter}`);
const placedByScheduler = await compare(null);
print('wherever the scheduler likes: as the product runs', placedByScheduler);
// Before the pinned parts, which not every machine can run.
conclude('as the product runs', placedByScheduler);
if ([0, 1].every(canPin)) {
  pin(process.pid, 0);
  const onOneCore = await compare(0);
  print('pinned, peer on the same core: the work alone', onOneCore);
  print('pinned, peer on the other core: with the waking of it', await compare(1));
  console.log();
  conclude('the work alone', onOneCore);
} else
  console.log('not measured: pinned to the processors 0 and 1, which this process may not use, or there is no taskset');
await cleanup.end();
process.exit();
