/**
 * Measures what hostile accounts cost another account. One account has a required guard, calls its hook 20 times a second,
 * half of them with a forbidden message, and lists its installations as often. API and supervisor have default settings.
 * Beside it one account makes an attack, and then four make all of them at once. Counts forbidden messages that passed and
 * calls that failed, and compares latency, delay of the event loops and memory with the quiet run. The good account, the
 * attackers and the service are processes of their own on one machine; the attackers' has a lower priority. Run
 * `node bench/accounts.ts [--seconds 10] [--only "cold"] [--rest 60]`.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { constants, setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { removeTimeLimit } from '../test/runner/harness.ts';
import { completeSearchPath } from '../test/runner/programs.ts';
import { SERVER_VARIABLE, startTestServer } from '../test/runner/server.ts';
import { type MeasuredProcess, startAccountsService } from './fixtures/accounts-service.ts';
import type { GoodResult } from './fixtures/good-account.ts';
import type { AttackResult } from './fixtures/hostile-accounts.ts';
import { percentile } from './percentiles.ts';

const CROWD = ['bad-1', 'bad-2', 'bad-3', 'bad-4'];
const GOALS = { timesQuiet: 2, p99Ms: 50, loopMs: 20, megabytes: { api: 400, supervisor: 500 }, restMemory: 1.2 };
const MEGABYTE = 1_000_000;
const SAMPLE_MS = 250;

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    only: { type: 'string' },
    rest: { type: 'string', default: '60' },
  },
});
const seconds = Number(values.seconds);
/** After each attack, until its plugins have ended and memory is compared with the start. Seconds. */
const restSeconds = Number(values.rest);

// The test fixtures load tap, whose time limit of 30 s would end a measurement.
removeTimeLimit();
// With bubblewrap: without the jail, something else would be measured.
await completeSearchPath();
const endings: (() => unknown)[] = [];
const cleanup = { teardown: (end: () => unknown) => void endings.push(end) };
const good = forkClient('fixtures/good-account.ts');
const hostile = forkClient('fixtures/hostile-accounts.ts');
// Not the lowest, with which it would hardly run beside the plugins that it makes spin.
setPriority(hostile.pid ?? 0, constants.priority.PRIORITY_BELOW_NORMAL);
const [attacks] = (await once(hostile, 'message')) as [string[]];
/** Every row has accounts of its own, because an attack uses up the rate limits of its account. */
const rows = [
  ...attacks.map((name, index) => ({ name, chosen: [name], accounts: [`lone-${index + 1}`] })),
  { name: `all of them, ${CROWD.length} accounts`, chosen: attacks, accounts: CROWD },
].filter(({ name }) => name.includes(values.only ?? ''));
const postgres = await startTestServer();
process.env[SERVER_VARIABLE] = postgres.url;
const { addresses, api, supervisor } = await startAccountsService(
  cleanup,
  rows.flatMap(({ accounts }) => accounts),
);

function forkClient(program: string): ChildProcess {
  const client = fork(new URL(program, import.meta.url));
  client.once('exit', (code) => {
    throw new Error(`${program} ended with code ${code}`);
  });
  endings.push(() => client.removeAllListeners('exit').kill());
  return client;
}

interface Observed {
  readonly name: string;
  readonly good: GoodResult;
  /** Null: the row has no attack. */
  readonly attack: AttackResult | null;
  readonly api: Use;
  readonly supervisor: Use;
}
interface Use {
  readonly peakBytes: number;
  /** 99th percentile of the event loop's delay, milliseconds. */
  readonly loopMs: number;
}

/** Sends good calls, beside these attacks. */
async function measureRow(name: string, chosen: readonly string[], accounts: readonly string[]): Promise<Observed> {
  const ends = [watchProcess(api), watchProcess(supervisor)];
  if (chosen.length > 0) hostile.send({ addresses, accounts, attacks: chosen });
  good.send({ addresses, seconds });
  const [result] = (await once(good, 'message')) as [GoodResult];
  const [apiUse, supervisorUse] = await Promise.all(ends.map((end) => end()));
  const attack = chosen.length > 0 ? await stopAttack() : null;
  if (!apiUse || !supervisorUse) throw new Error('unreachable: two processes were watched');
  return { name, good: result, attack, api: apiUse, supervisor: supervisorUse };
}

async function stopAttack(): Promise<AttackResult> {
  hostile.send('stop');
  const [attack] = (await once(hostile, 'message')) as [AttackResult];
  return attack;
}

/** Watches a process until the returned function is called. */
function watchProcess(measured: MeasuredProcess): () => Promise<Use> {
  let peakBytes = 0;
  const sampler = setInterval(() => {
    peakBytes = Math.max(peakBytes, measured.residentBytes());
  }, SAMPLE_MS);
  const reset = measured.takeLoopDelay();
  return async () => {
    clearInterval(sampler);
    await reset;
    return { peakBytes, loopMs: await measured.takeLoopDelay() };
  };
}

const megabytes = (bytes: number): string => `${Math.round(bytes / MEGABYTE)} MB`;
const inMs = (samples: readonly number[], p: number): string => percentile(samples, p).toFixed(1).padStart(6);

function printRow({ name, good, attack, ...uses }: Observed): void {
  const { forbidden, passed, failed, hookMs, apiMs, clientMs } = good;
  console.log(name);
  console.log(`  forbidden passed ${passed} of ${forbidden}   failed ${failed} of ${hookMs.length + apiMs.length}`);
  console.log(
    `  hook p50 ${inMs(hookMs, 0.5)} p99 ${inMs(hookMs, 0.99)} ms   API p50 ${inMs(apiMs, 0.5)} p99 ${inMs(apiMs, 0.99)} ms   the client's own delay p99 ${clientMs.toFixed(1)} ms`,
  );
  if (attack)
    console.log(
      `  attackers sent ${attack.sent} requests, ${attack.answered} were answered, ${attack.refused} refused`,
    );
  for (const process of ['supervisor', 'api'] as const)
    console.log(
      `  ${process.padEnd(10)} loop p99 ${uses[process].loopMs.toFixed(1).padStart(5)} ms   at most ${megabytes(uses[process].peakBytes)}`,
    );
}

/** What a row misses of the goals. */
function listMissed(row: Observed, quiet: Observed): string[] {
  const { passed, failed, hookMs, apiMs } = row.good;
  const missed = [...(passed > 0 ? ['a forbidden message passed'] : []), ...(failed > 0 ? ['a good call failed'] : [])];
  for (const [name, samples, quietly] of [
    ['hook', hookMs, quiet.good.hookMs],
    ['API', apiMs, quiet.good.apiMs],
  ] as const) {
    const [p99, quietP99] = [percentile(samples, 0.99), percentile(quietly, 0.99)];
    if (p99 > GOALS.p99Ms || p99 > GOALS.timesQuiet * quietP99)
      missed.push(`${name} p99 ${p99.toFixed(1)} ms, ${(p99 / quietP99).toFixed(1)}× quiet`);
  }
  for (const process of ['supervisor', 'api'] as const) {
    const { loopMs, peakBytes } = row[process];
    if (loopMs > GOALS.loopMs) missed.push(`${process} loop p99 ${loopMs.toFixed(1)} ms`);
    if (peakBytes > GOALS.megabytes[process] * MEGABYTE) missed.push(`${process} ${megabytes(peakBytes)}`);
  }
  return missed;
}

const processes = { supervisor, api };
/** Sessions, statements and children exist, and hot code is optimized. */
await measureRow('warm-up', [], []);
const quiet = await measureRow('quiet', [], []);
printRow(quiet);
const startBytes = { supervisor: supervisor.residentBytes(), api: api.residentBytes() };
const missedRows: string[] = [];
for (const { name, chosen, accounts } of rows) {
  const row = await measureRow(name, chosen, accounts);
  printRow(row);
  const missed = listMissed(row, quiet);
  await sleep(restSeconds * 1_000);
  for (const process of ['supervisor', 'api'] as const) {
    const bytes = processes[process].residentBytes();
    console.log(`  ${process.padEnd(10)} ${megabytes(bytes)} ${restSeconds} s later`);
    if (bytes > startBytes[process] * GOALS.restMemory)
      missed.push(`${process} still ${megabytes(bytes)} of ${megabytes(startBytes[process])}`);
  }
  console.log(`  ${missed.length === 0 ? 'met' : `missed: ${missed.join(', ')}`}`);
  if (missed.length > 0) missedRows.push(name);
}
printRow(await measureRow('quiet again', [], []));
console.log(
  `goal: nothing forbidden passes, no good call fails, p99 ≤ ${GOALS.timesQuiet}× quiet and ≤ ${GOALS.p99Ms} ms, loop p99 ≤ ${GOALS.loopMs} ms, supervisor ≤ ${GOALS.megabytes.supervisor} MB, API ≤ ${GOALS.megabytes.api} MB, both within ${Math.round((GOALS.restMemory - 1) * 100)} % of their start ${restSeconds} s later: ${missedRows.length === 0 ? 'met' : `missed in ${missedRows.length} rows`}`,
);
for (const end of endings.reverse()) await end();
await postgres.stop();
process.exit(0);
