/**
 * Measures what hostile accounts cost others. One account has a required guard, calls its hook 20 times a second, half of
 * them with a forbidden message, and lists its installations as often. API and supervisor have default settings. Beside it
 * one account makes an attack, and then four make all of them at once. More rows: a hundred accounts, tools that behave well
 * for a minute, and six good accounts beside two bad ones. Counts forbidden messages that passed and
 * calls that failed, and compares latency, delay of the event loops and memory with the quiet run. The good account, the
 * attackers and the service are processes of their own on one machine; the attackers' has a lower priority. Run
 * `sh deploy/node.sh bench/accounts.ts [--seconds 10] [--only "cold"] [--rest 60]`.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { constants, setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type MeasuredProcess, startAccountsService } from './fixtures/accounts-service.ts';
import { type AttackResult, listIdleAttacks } from './fixtures/attack-result.ts';
import { openCleanup } from './fixtures/cleanup.ts';
import type { GoodResult } from './fixtures/good-account.ts';
import { startPostgres } from './fixtures/postgres.ts';
import { readPositiveNumber } from './options.ts';
import { percentile } from './percentiles.ts';

const nameAccounts = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${name}-${index + 1}`);
const CROWD = nameAccounts('bad', 4);
/** Signing up costs nothing. */
const SIGNED_UP = nameAccounts('signed-up', 100);
const PAIR = nameAccounts('pair', 2);
const ONE_GOOD = nameAccounts('good', 1);
const SIX_GOOD = nameAccounts('good', 6);
/** The last two seconds of the minute are measured too. */
const TURNS_AFTER_S = 58;
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
const seconds = readPositiveNumber('--seconds', values.seconds);
/** After each attack, until its plugins have ended and memory is compared with the start. Seconds. */
const restSeconds = readPositiveNumber('--rest', values.rest);

const cleanup = openCleanup();
// In a session of its own, whose priority it raises: good clients have other machines, and their waits are not the service's.
const good = forkClient('fixtures/good-account.ts', true);
const hostile = forkClient('fixtures/hostile-accounts.ts');
// Not the lowest, with which it would hardly run beside the plugins that it makes spin.
setPriority(hostile.pid ?? 0, constants.priority.PRIORITY_BELOW_NORMAL);
const [attacks] = (await once(hostile, 'message')) as [string[]];
interface Row {
  readonly name: string;
  readonly chosen: readonly string[];
  readonly accounts: readonly string[];
  readonly good?: readonly string[];
  /** From the begin of the attack until the good calls begin. */
  readonly delaySeconds?: number;
}
/** Every row has accounts of its own, because an attack uses up the rate limits of its account. */
const allRows: readonly Row[] = [
  ...attacks.map((name, index) => ({ name, chosen: [name], accounts: [`lone-${index + 1}`] })),
  { name: `all of them, ${CROWD.length} accounts`, chosen: attacks, accounts: CROWD },
  {
    name: `a tool that never ends and stored messages, ${SIGNED_UP.length} accounts`,
    chosen: ['a tool that never ends', 'stored messages of 786 kB'],
    accounts: SIGNED_UP,
  },
  {
    name: 'tools that never end after a minute',
    chosen: ['tools that never end after a minute'],
    accounts: ['turning'],
    delaySeconds: TURNS_AFTER_S,
  },
  { name: 'nothing, six good accounts', chosen: [], accounts: [], good: SIX_GOOD },
  { name: `all of them, ${PAIR.length} accounts, six good accounts`, chosen: attacks, accounts: PAIR, good: SIX_GOOD },
];
const rows = allRows.filter(({ name }) => name.includes(values.only ?? ''));
if (rows.length === 0) {
  console.error(
    `--only ${values.only}: no row has this in its name. Rows: ${allRows.map(({ name }) => name).join('; ')}.`,
  );
  await cleanup.end();
  process.exit(1);
}
await startPostgres(cleanup);
const { addresses, api, supervisor } = await startAccountsService(
  cleanup,
  [...new Set([...ONE_GOOD, ...rows.flatMap(({ good = [] }) => good)])],
  rows.flatMap(({ accounts }) => accounts),
);

function forkClient(program: string, detached = false): ChildProcess {
  const client = fork(new URL(program, import.meta.url), { detached });
  client.once('exit', (code) => {
    throw new Error(`${program} ended with code ${code}`);
  });
  cleanup.teardown(() => client.removeAllListeners('exit').kill());
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

/** Sends good calls, beside attacks. */
async function measureRow({
  name,
  chosen,
  accounts,
  good: callers = ONE_GOOD,
  delaySeconds = 0,
}: Row): Promise<Observed> {
  if (chosen.length > 0) hostile.send({ addresses, accounts, attacks: chosen });
  await sleep(delaySeconds * 1_000);
  const ends = [watchProcess(api), watchProcess(supervisor)];
  good.send({ addresses, seconds, accounts: callers });
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

/** Returns the goals that a row misses. */
function listMissed(row: Observed, quiet: Observed): string[] {
  const { passed, failed, hookMs, apiMs } = row.good;
  const missed = [
    ...(row.attack ? listIdleAttacks(row.attack) : []),
    ...(passed > 0 ? ['a forbidden message passed'] : []),
    ...(failed > 0 ? ['a good call failed'] : []),
  ];
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
const nothing: Row = { name: 'quiet', chosen: [], accounts: [] };
const warm = new Set<string>();
/** Statements and children then exist, and hot code is optimized: the rows are about attacks, not about first starts. */
async function warmUp({ good: callers = ONE_GOOD }: Row): Promise<void> {
  if (callers.every((account) => warm.has(account))) return;
  await measureRow({ ...nothing, good: callers });
  for (const account of callers) warm.add(account);
}
await warmUp(nothing);
const quiet = await measureRow(nothing);
printRow(quiet);
const startBytes = { supervisor: supervisor.residentBytes(), api: api.residentBytes() };
const missedRows: string[] = [];
for (const planned of rows) {
  await warmUp(planned);
  const row = await measureRow(planned);
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
  if (missed.length > 0) missedRows.push(row.name);
}
printRow(await measureRow({ ...nothing, name: 'quiet again' }));
console.log(
  `goal: nothing forbidden passes, no good call fails, p99 ≤ ${GOALS.timesQuiet}× quiet and ≤ ${GOALS.p99Ms} ms, loop p99 ≤ ${GOALS.loopMs} ms, supervisor ≤ ${GOALS.megabytes.supervisor} MB, API ≤ ${GOALS.megabytes.api} MB, both within ${Math.round((GOALS.restMemory - 1) * 100)} % of their start ${restSeconds} s later: ${missedRows.length === 0 ? 'met' : `missed in ${missedRows.length} rows`}`,
);
if (missedRows.length > 0) process.exitCode = 1;
await cleanup.end();
process.exit();
