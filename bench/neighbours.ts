/**
 * Measures how much bad plugins slow down good ones. One supervisor with its database, and the machine's best memory limiter,
 * calls twenty good plugins at a fixed rate: first alone, then beside one and beside four of each kind of bad plugin. A bad
 * plugin is called again as soon as its call ends. Two processes without Bulkhead exchange messages in the same seconds: how
 * much they slow down is the share of the machine. Run `sh deploy/node.sh bench/neighbours.ts [--seconds 30] [--only "spins for ever"]`.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { InstalledPlugin } from '../db/installations/account-plugins.ts';
import type { LinkResult } from '../supervisor/calls/chain.ts';
import { openCleanup, openFolder } from './fixtures/cleanup.ts';
import { compareWithQuiet, GOALS, listMisses } from './fixtures/neighbour-goals.ts';
import { bad, GOOD, HOOK } from './fixtures/neighbour-plugins.ts';
import { type NeighboursFixture, openNeighboursFixture } from './fixtures/neighbours-fixture.ts';
import { readPositiveNumber } from './options.ts';
import { percentile } from './percentiles.ts';

const GOOD_PLUGINS = 20;
/** Interval of each good plugin, 200 calls per second in all. Milliseconds. */
const CALL_EVERY_MS = 100;
const CROWDS = [1, 4];
/** Time limit of a bad call: long enough for its full effect. Milliseconds. */
const BAD_BUDGET_MS = 1_000;
const GOOD_BUDGET_MS = 5_000;
const MB = 1_048_576;

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '30' }, only: { type: 'string' } },
});
const seconds = readPositiveNumber('--seconds', values.seconds);
const chosen = Object.entries(bad).filter(([name]) => values.only === undefined || values.only === name);
if (chosen.length === 0) {
  console.error(`--only ${values.only}: there is no such bad plugin. There are ${Object.keys(bad).join(', ')}.`);
  process.exit(1);
}

interface Observed {
  readonly good: number[];
  answered: number;
  failed: number;
  readonly overdue: number[];
}

let serial = 0;
function call(fixture: NeighboursFixture, plugin: InstalledPlugin, budgetMs: number): Promise<LinkResult> {
  serial += 1;
  const at = new Date();
  const invocationId = `i${serial}`;
  const base = { hook: HOOK, invocationId, settings: {}, agent: { id: 'a', name: 'Ada' }, trigger: 'user' };
  const context = {
    ...base,
    session: { id: 's', channelId: null },
    systemPrompt: 'Be brief.',
    model: 'any',
    at: at.toISOString(),
    deadlineAt: new Date(at.getTime() + budgetMs).toISOString(),
  };
  const deadlineAt = at.getTime() + budgetMs;
  return fixture.supervisor.fleet.invoke(plugin, {
    target: { kind: 'hook', name: HOOK },
    invocationId,
    context,
    session: null,
    deadlineAt,
  });
}

/** Calls every good plugin on its schedule, independent of the others, until stopped. */
function callGoodPlugins(fixture: NeighboursFixture, plugins: readonly InstalledPlugin[], seen: Observed): () => void {
  const timers = plugins.map((plugin, index) => {
    const beat = async () => {
      const started = performance.now();
      const result = await call(fixture, plugin, GOOD_BUDGET_MS);
      seen.good.push(performance.now() - started);
      if (result.kind === 'answered') seen.answered += 1;
      else seen.failed += 1;
    };
    let timer: NodeJS.Timeout = setTimeout(
      () => {
        timer = setInterval(beat, CALL_EVERY_MS);
      },
      (index * CALL_EVERY_MS) / plugins.length,
    );
    return () => clearInterval(timer);
  });
  return () => {
    for (const end of timers) end();
  };
}

async function callBadPlugin(
  fixture: NeighboursFixture,
  plugin: InstalledPlugin,
  seen: Observed,
  isOver: () => boolean,
): Promise<void> {
  while (!isOver()) {
    const started = performance.now();
    const result = await call(fixture, plugin, BAD_BUDGET_MS);
    seen.overdue.push(performance.now() - started - BAD_BUDGET_MS);
    // Rejected because its last child has just ended: try again later, as a runtime would.
    if (result.kind === 'unavailable') await sleep(100);
  }
}

/** Returns the round trips of the pair of processes since the last call, milliseconds. */
async function readPairTimes(): Promise<number[]> {
  pair.send('times');
  const [times] = await once(pair, 'message');
  return times as number[];
}

async function observe(
  fixture: NeighboursFixture,
  good: readonly InstalledPlugin[],
  neighbours: readonly InstalledPlugin[],
) {
  const seen: Observed = { good: [], answered: 0, failed: 0, overdue: [] };
  const loop = monitorEventLoopDelay({ resolution: 5 });
  const before = process.memoryUsage().rss;
  let grown = 0;
  const watch = setInterval(() => {
    grown = Math.max(grown, process.memoryUsage().rss - before);
  }, 50);
  let over = false;
  await readPairTimes();
  loop.enable();
  const stop = callGoodPlugins(fixture, good, seen);
  const misbehaving = neighbours.map((plugin) => callBadPlugin(fixture, plugin, seen, () => over));
  await sleep(seconds * 1_000);
  over = true;
  stop();
  loop.disable();
  clearInterval(watch);
  const pairMs = percentile(await readPairTimes(), 0.99);
  await Promise.all(misbehaving);
  // The monitor counts the whole interval; the rest is delay.
  const loopMs = Math.max(0, loop.percentile(99) / 1e6 - 5);
  return {
    ...seen,
    p50: percentile(seen.good, 0.5),
    p99: percentile(seen.good, 0.99),
    pairMs,
    loopMs,
    grownMb: grown / MB,
  };
}
type Observation = Awaited<ReturnType<typeof observe>>;

function print(name: string, figures: Observation, quiet: Observation): boolean {
  const { p50, p99, pairMs, failed, loopMs, grownMb } = figures;
  const { overdue, rate, times } = compareWithQuiet(figures, quiet);
  const pairTimes = pairMs / quiet.pairMs;
  const misses = listMisses(figures, quiet);
  const cells = [
    `p50 ${p50.toFixed(1)}`,
    `p99 ${p99.toFixed(1)} ms (${times.toFixed(2)}×)`,
    `bare pair ${pairMs.toFixed(1)} ms (${pairTimes.toFixed(2)}×)`,
    `calls ${(100 * rate).toFixed(0)} %${failed > 0 ? `, ${failed} failed` : ''}`,
    `overdue ${overdue.toFixed(0)} ms`,
    `loop p99 ${loopMs.toFixed(1)} ms`,
    `grown ${grownMb.toFixed(0)} MB`,
  ];
  console.log(
    `  ${name.padEnd(28)} ${cells.join('   ')}   ${misses.length === 0 ? 'met' : `MISSED: ${misses.join(', ')}`}`,
  );
  return misses.length === 0;
}

const cleanup = openCleanup();
const fixture = await openNeighboursFixture(cleanup, openFolder(cleanup));
const every = String(CALL_EVERY_MS / GOOD_PLUGINS);
const pair: ChildProcess = fork(new URL('fixtures/bare-pair.ts', import.meta.url), [every], { execArgv: [] });
cleanup.teardown(() => pair.disconnect());
const good = await Promise.all(
  Array.from({ length: GOOD_PLUGINS }, (_, index) => fixture.entry(`good-${index}`, GOOD, 'good')),
);
for (const result of await Promise.all(good.map((plugin) => call(fixture, plugin, 60_000))))
  if (result.kind !== 'answered') throw new Error(`a good plugin does not run: ${JSON.stringify(result)}`);
console.log(
  `${GOOD_PLUGINS} good plugins, ${1000 / CALL_EVERY_MS} calls/s each; sandbox ${fixture.sandbox.state}, limiter ${fixture.sandbox.limiter}`,
);
console.log(
  `goal: p99 ≤ ${GOALS.timesQuiet}× quiet and ≤ ${GOALS.p99Ms} ms, calls ≥ 90 % and none failed, bad calls end ≤ ${GOALS.overdueMs} ms late, event loop p99 < ${GOALS.loopMs} ms, supervisor grows < ${GOALS.grownMb} MB`,
);
await observe(fixture, good, []);
const quiet = await observe(fixture, good, []);
let met = print('no neighbour', quiet, quiet);
for (const [name, { code }] of chosen) {
  for (const count of CROWDS) {
    const plugins = await Promise.all(
      Array.from({ length: count }, (_, index) =>
        fixture.entry(
          `${name}-${count}-${index}`.replaceAll(' ', '-'),
          typeof code === 'string' ? code : code(fixture.tlsPort),
          'bad',
        ),
      ),
    );
    const figures = await observe(fixture, good, plugins);
    met = print(`${count} × ${name}`, figures, quiet) && met;
    await Promise.all(plugins.map(({ installationId }) => fixture.supervisor.fleet.retire(installationId, 0)));
  }
}
console.log(met ? 'all goals met' : 'some goals missed');
if (!met) process.exitCode = 1;
await cleanup.end();
process.exit();
