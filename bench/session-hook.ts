/**
 * Measures what a chain of three plugins costs an agent runtime: `POST /sessions/{id}/hooks/systemPrompt` over a kept
 * HTTP connection, next to a bare fastify route that parses and answers the same body, interleaved. The goal is a p50
 * under 1.5 ms; the ratio to the bare route shows the speed of the machine. For the slowest calls it shows the time
 * inside and outside the links, and whether this process collected garbage. Client, bare route and supervisor share
 * this process. Run `node bench/session-hook.ts [calls]`.
 */
import type { AddressInfo } from 'node:net';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import Fastify, { type FastifyInstance } from 'fastify';
import { Client } from 'undici';
import { removeTimeLimit } from '../test/runner/harness.ts';
import { SERVER_VARIABLE, startTestServer } from '../test/runner/server.ts';
import { startSupervisorFixture } from '../test/supervisor/supervisor-fixture.ts';
import { percentile } from './percentiles.ts';

const LINKS = ['one', 'two', 'three'];
const CALLS = Number(process.argv[2] ?? 1_500);
const WARM_UP = 300;
const GOAL_MS = 1.5;
const MEDIAN = 0.5;
const P99 = 0.99;
const PROMPT = 'You are a helpful agent. Answer briefly, cite sources. '.repeat(80).slice(0, 4_096);

type Ask = () => Promise<string>;
// The test fixtures load tap, whose time limit of 30 s would end a measurement.
removeTimeLimit();
const endings: (() => unknown)[] = [];
const cleanup = { teardown: (end: () => unknown) => void endings.push(end) };

/** Requests one path repeatedly over one connection. */
async function asker(app: FastifyInstance, path: string, authorization: string): Promise<Ask> {
  if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' });
  const client = new Client(`http://127.0.0.1:${(app.server.address() as AddressInfo).port}`);
  endings.push(() => client.close());
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
  const slow = samples.filter(
    ({ ms }) =>
      ms >=
      percentile(
        samples.map((one) => one.ms),
        P99,
      ),
  );
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
  console.log(`the slowest ${slow.length} of ${samples.length}: mean ${mean(slow.map(({ ms }) => ms))} ms, ${time}`);
  const garbage = `${withGarbage.length} of them, ${mean(withGarbage.map(collecting))} ms on average`;
  console.log(`garbage was collected in this process during ${garbage}; ${inAll(collections)}`);
}

try {
  const server = await startTestServer();
  endings.push(() => server.stop());
  process.env[SERVER_VARIABLE] = server.url;
  const fixture = await startSupervisorFixture(cleanup);
  for (const slug of LINKS) {
    await fixture.install({ slug, code: `middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' ${slug}';` });
  }
  const authorization = `Bearer ${await fixture.issuer.issue('ann')}`;
  const bare = Fastify();
  bare.post('/bare', async (request) => request.body);
  endings.push(() => bare.close());
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
    const [base, ours] = [
      percentile(
        samples.floor.map(({ ms }) => ms),
        p,
      ),
      percentile(
        samples.chain.map(({ ms }) => ms),
        p,
      ),
    ];
    const ratio = (ours / base).toFixed(1);
    console.log(`${name}: bare fastify route ${base.toFixed(3)} ms, three links ${ours.toFixed(3)} ms, ${ratio}×`);
  }
  observer.disconnect();
  explain(samples.chain, collections);
  const met =
    percentile(
      samples.chain.map(({ ms }) => ms),
      MEDIAN,
    ) < GOAL_MS;
  console.log(`goal: p50 under ${GOAL_MS} ms: ${met ? 'met' : 'missed'}`);
  if (!met) process.exitCode = 1;
} finally {
  for (const end of endings.reverse()) await end();
}
