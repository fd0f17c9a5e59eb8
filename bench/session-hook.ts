/**
 * Measures what a chain of three plugins costs an agent runtime: `POST /sessions/{id}/hooks/systemPrompt` over a kept
 * HTTP connection, next to a bare fastify route that parses and answers the same body, interleaved. The goal is a p50
 * under 1.5 ms; the ratio to the bare route shows the speed of the machine. For the slowest calls it shows the time
 * inside and outside the links, and whether this process collected garbage. Client, bare route and supervisor share
 * this process. Run `sh deploy/node.sh bench/session-hook.ts [calls]`.
 *
 * With `--supervisors 3` it measures how many hooks a second one, two and three supervisor processes answer, each called
 * at its own accounts and at all of them. All share the processors of this machine, which the table says.
 */
import type { AddressInfo } from 'node:net';
import { availableParallelism } from 'node:os';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import Fastify, { type FastifyInstance } from 'fastify';
import { Client, Pool } from 'undici';
import { findShard } from '../db/cluster/shards.ts';
import { eventually } from '../test/runner/eventually.ts';
import {
  openStorageFixture,
  type StorageFixture,
  startSupervisorFixture,
} from '../test/supervisor/supervisor-fixture.ts';
import { type SupervisorProcess, startProcess } from '../test/supervisor/supervisor-process.ts';
import { openCleanup } from './fixtures/cleanup.ts';
import { startPostgres } from './fixtures/postgres.ts';
import { readPositiveNumber } from './options.ts';
import { percentile } from './percentiles.ts';

const { values, positionals } = parseArgs({
  options: { supervisors: { type: 'string' }, seconds: { type: 'string', default: '5' } },
  allowPositionals: true,
});

const LINKS = ['one', 'two', 'three'];
const CALLS = readPositiveNumber('calls', positionals[0] ?? '1500');
const SECONDS = readPositiveNumber('--seconds', values.seconds);
/** Null: the chain is measured. */
const SUPERVISORS = values.supervisors === undefined ? null : readPositiveNumber('--supervisors', values.supervisors);
const WARM_UP = 300;
const GOAL_MS = 1.5;
const MEDIAN = 0.5;
const P99 = 0.99;
const PROMPT = 'You are a helpful agent. Answer briefly, cite sources. '.repeat(80).slice(0, 4_096);

type Ask = () => Promise<string>;
const cleanup = openCleanup();

/** Requests one path repeatedly over one connection. */
async function asker(app: FastifyInstance, path: string, authorization: string): Promise<Ask> {
  if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' });
  const client = new Client(`http://127.0.0.1:${(app.server.address() as AddressInfo).port}`);
  cleanup.teardown(() => client.close());
  const body = JSON.stringify({ context: { systemPrompt: PROMPT, model: 'any' } });
  const headers = { 'content-type': 'application/json', authorization };
  return async () => {
    const answer = await client.request({ method: 'POST', path, headers, body });
    const text = await answer.body.text();
    if (answer.statusCode !== 200) throw new Error(`${path} answered ${answer.statusCode}: ${text}`);
    return text;
  };
}

interface Sample {
  readonly startedAt: number;
  readonly ms: number;
  /** Duration of each link, from the trace in the response. */
  readonly links: readonly number[];
}

async function time(ask: Ask): Promise<Sample> {
  const startedAt = performance.now();
  const text = await ask();
  const ms = performance.now() - startedAt;
  const { trace = [] } = JSON.parse(text) as { trace?: { ms: number }[] };
  return { startedAt, ms, links: trace.map((link) => link.ms) };
}

const durations = (samples: readonly Sample[]): number[] => samples.map(({ ms }) => ms);
const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);
const mean = (numbers: readonly number[]): string => (sum(numbers) / Math.max(1, numbers.length)).toFixed(2);

function inAll(collections: readonly PerformanceEntry[]): string {
  const isYoung = (one: PerformanceEntry & { readonly detail?: { readonly kind?: number } }) =>
    one.detail?.kind === constants.NODE_PERFORMANCE_GC_MINOR;
  const young = collections.filter(isYoung);
  const old = collections.filter((one) => !young.includes(one));
  const describeCollections = (entries: readonly PerformanceEntry[]) =>
    `${entries.length} of ${mean(entries.map(({ duration }) => duration))} ms`;
  return `in all ${describeCollections(young)} of new objects and ${describeCollections(old)} of all`;
}

/** Prints the causes of the slowest calls. */
function explain(samples: readonly Sample[], collections: readonly PerformanceEntry[]): void {
  const slowMs = percentile(durations(samples), P99);
  const slow = samples.filter(({ ms }) => ms >= slowMs);
  const collecting = ({ startedAt, ms }: Sample): number =>
    sum(
      collections
        .filter((gc) => gc.startTime < startedAt + ms && gc.startTime + gc.duration > startedAt)
        .map((gc) => gc.duration),
    );
  const worst = slow.map(({ links }) => Math.max(...links));
  const rest = slow.map(({ links, ms }) => ms - sum(links));
  const withGarbage = slow.filter((one) => collecting(one) > 0);
  const time = `${mean(worst)} ms in the slowest link, ${mean(rest)} ms around the links`;
  console.log(`the slowest ${slow.length} of ${samples.length}: mean ${mean(durations(slow))} ms, ${time}`);
  const garbage = `${withGarbage.length} of them, ${mean(withGarbage.map(collecting))} ms on average`;
  console.log(`garbage was collected in this process during ${garbage}; ${inAll(collections)}`);
}

async function measureChain(): Promise<void> {
  const fixture = await startSupervisorFixture(cleanup);
  for (const slug of LINKS) {
    await fixture.install({ slug, code: `middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' ${slug}';` });
  }
  const authorization = `Bearer ${await fixture.issuer.issue('ann')}`;
  const bare = Fastify();
  bare.post('/bare', async (request) => request.body);
  cleanup.teardown(() => bare.close());
  const floor = await asker(bare, '/bare', authorization);
  const chain = await asker(fixture.app, `/sessions/${await fixture.session()}/hooks/systemPrompt`, authorization);
  const collections: PerformanceEntry[] = [];
  const observer = new PerformanceObserver((list) => void collections.push(...list.getEntries()));
  observer.observe({ entryTypes: ['gc'] });
  const samples: { floor: Sample[]; chain: Sample[] } = { floor: [], chain: [] };
  for (let call = -WARM_UP; call < CALLS; call += 1) {
    const took = [await time(floor), await time(chain)] as const;
    if (call < 0) continue;
    samples.floor.push(took[0]);
    samples.chain.push(took[1]);
  }
  for (const [name, p] of [
    ['p50', MEDIAN],
    ['p99', P99],
  ] as const) {
    const [base, ours] = [percentile(durations(samples.floor), p), percentile(durations(samples.chain), p)];
    const ratio = (ours / base).toFixed(1);
    console.log(`${name}: bare fastify route ${base.toFixed(3)} ms, three links ${ours.toFixed(3)} ms, ${ratio}×`);
  }
  observer.disconnect();
  explain(samples.chain, collections);
  const met = percentile(durations(samples.chain), MEDIAN) < GOAL_MS;
  console.log(`goal: p50 under ${GOAL_MS} ms: ${met ? 'met' : 'missed'}`);
  if (!met) process.exitCode = 1;
}

/** Accounts with a plugin each that are called at once. */
const ACCOUNTS = 12;
/** Calls of an account under way at a time. */
const CALLERS = 2;

interface CalledAccount {
  readonly shard: number;
  readonly path: string;
  readonly authorization: string;
}

async function addAccount(storage: StorageFixture, url: string, name: string): Promise<CalledAccount> {
  const code = "middleware.systemPrompt = (ctx) => ctx.systemPrompt + '.';";
  const { accountId } = await storage.install({ account: name, slug: `prompt-${name}`, code });
  const authorization = `Bearer ${await storage.issuer.issue(name)}`;
  const headers = { authorization, 'content-type': 'application/json' };
  const made = await fetch(`${url}/sessions`, { method: 'POST', headers, body: '{"agentId":"agent-1"}' });
  const { id } = (await made.json()) as { id: string };
  return { shard: findShard(accountId), path: `/sessions/${id}/hooks/systemPrompt`, authorization };
}

/** The supervisor that runs the plugins of each shard. */
async function readOwners({ pool }: StorageFixture, supervisors: readonly SupervisorProcess[]) {
  const { rows } = await pool.query<{ shard: number; process: string }>(
    'SELECT s.id AS shard, v.process FROM shards s JOIN supervisors v ON v.id = s.owner',
  );
  const find = (name: string) => supervisors.find(({ process }) => name.split(' ').includes(String(process.pid)));
  return new Map(rows.map(({ shard, process }) => [shard, find(process)?.url ?? '']));
}

/** @param choose the address for the n-th call of an account @returns calls a second */
async function measureRate(
  accounts: readonly CalledAccount[],
  seconds: number,
  choose: (account: CalledAccount, call: number) => { readonly url: string; readonly path: string },
): Promise<number> {
  const pools = new Map<string, Pool>();
  const body = JSON.stringify({ context: { systemPrompt: PROMPT, model: 'any' } });
  const endsAt = performance.now() + seconds * 1_000;
  let calls = 0;
  const caller = async (account: CalledAccount, first: number): Promise<void> => {
    const headers = { 'content-type': 'application/json', authorization: account.authorization };
    for (let call = first; performance.now() < endsAt; call += 1) {
      const { url, path } = choose(account, call);
      const pool = pools.get(url) ?? new Pool(url);
      pools.set(url, pool);
      const answer = await pool.request({ method: 'POST', path, headers, body });
      const text = await answer.body.text();
      if (answer.statusCode !== 200) throw new Error(`${path} answered ${answer.statusCode}: ${text}`);
      calls += 1;
    }
  };
  const started = performance.now();
  const numbers = Array.from({ length: CALLERS }, (_, number) => number);
  await Promise.all(accounts.flatMap((account, index) => numbers.map((number) => caller(account, index + number))));
  const rate = (calls / (performance.now() - started)) * 1_000;
  await Promise.all([...pools.values()].map((pool) => pool.close()));
  return rate;
}

async function measureThroughput(count: number, seconds: number): Promise<void> {
  const storage = await openStorageFixture(cleanup);
  const bare = Fastify();
  bare.post('/bare', async (request) => request.body);
  cleanup.teardown(() => bare.close());
  const bareUrl = await bare.listen({ port: 0, host: '127.0.0.1' });
  const supervisors: SupervisorProcess[] = [];
  const accounts: CalledAccount[] = [];
  let alone = 0;
  console.log(`${availableParallelism()} processors, ${ACCOUNTS} accounts with ${CALLERS} calls at a time`);
  while (supervisors.length < count) {
    const settings = { SESSION_CALLS_PER_MINUTE: '10000000', CHILDREN: '50', PATH: process.env.PATH ?? '' };
    const added = await startProcess(cleanup, storage, settings);
    supervisors.push(added);
    await eventually(async () => {
      const { rows } = await storage.pool.query('SELECT owner, count(*)::int AS n FROM shards GROUP BY owner');
      return rows.length === supervisors.length && rows.every(({ owner, n }) => owner !== null && n > 30);
    }, 60_000);
    while (accounts.length < ACCOUNTS)
      accounts.push(await addAccount(storage, added.url, `account-${accounts.length}`));
    const owners = await readOwners(storage, supervisors);
    const toOwner = ({ shard, path }: CalledAccount) => ({ url: owners.get(shard) ?? '', path });
    const toAny = ({ path }: CalledAccount, call: number) => ({
      url: supervisors[call % supervisors.length]?.url ?? '',
      path,
    });
    // The first calls start the children.
    await measureRate(accounts, 1, toAny);
    const floor = await measureRate(accounts, seconds, () => ({ url: bareUrl, path: '/bare' }));
    const own = await measureRate(accounts, seconds, toOwner);
    const any = await measureRate(accounts, seconds, toAny);
    alone ||= own / floor;
    const describeRate = (rate: number) =>
      `${rate.toFixed(0)}/s (${(rate / floor).toFixed(2)} of the route, ${(rate / floor / alone).toFixed(2)} of one supervisor)`;
    console.log(
      `${supervisors.length} supervisors: bare fastify route ${floor.toFixed(0)}/s, hooks at the owner ${describeRate(own)}, at any ${describeRate(any)}`,
    );
  }
}

try {
  await startPostgres(cleanup);
  if (SUPERVISORS === null) await measureChain();
  else await measureThroughput(SUPERVISORS, SECONDS);
} finally {
  await cleanup.end();
}
