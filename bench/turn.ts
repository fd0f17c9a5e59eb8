/**
 * Measures what a turn costs in addition to its hooks. A turn is two requests: one opens it with the prompt, one ends it with the
 * output. The benchmark compares them, in alternation and with one plugin, with two ways of doing the same with single requests:
 * the hooks `inboundMessage`, `systemPrompt` and `outboundMessage`, and these hooks with two appends to the transcript. The goal is
 * at most 2 ms more than the hooks alone at p50. The hooks with the appends store what a turn stores; the difference to them is
 * printed, too. Run `sh deploy/node.sh bench/turn.ts [turns]`.
 */
import { randomUUID } from 'node:crypto';
import { loadavg } from 'node:os';
import { Client } from 'undici';
import { startSupervisorFixture } from '../test/supervisor/supervisor-fixture.ts';
import { openCleanup } from './fixtures/cleanup.ts';
import { startPostgres } from './fixtures/postgres.ts';
import { readPositiveNumber } from './options.ts';
import { percentile } from './percentiles.ts';

const TURNS = readPositiveNumber('turns', process.argv[2] ?? '500');
const WARM_UP = 100;
const GOAL_MS = 2;
const MEDIAN = 0.5;
const P99 = 0.99;
const TEXT = 'How many loaves does the oven hold on a Sunday? '.repeat(4);
const PROMPT = 'You are a helpful agent. Answer briefly, cite sources. '.repeat(20);
const CODE = `
  middleware.inboundMessage = () => {};
  middleware.outboundMessage = () => {};
  middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' Be kind.';`;

type Send = (method: 'GET' | 'POST', path: string, body?: unknown) => Promise<string>;
const cleanup = openCleanup();

/** Runs one turn. @returns the milliseconds of each step */
async function runTurn(send: Send, session: string): Promise<number[]> {
  const id = randomUUID();
  const turn = `/sessions/${session}/turns/${id}`;
  return timeAll([
    () => send('POST', `/sessions/${session}/turns`, opening(id)),
    () => send('POST', `${turn}/end`, { text: TEXT, outputId: `${id}-o` }),
  ]);
}

const opening = (id: string) => ({ id, text: TEXT, trigger: 'user', systemPrompt: PROMPT, prompt: true });

/** Does the work of a turn with single hook calls. @returns the milliseconds of the three hooks, then of the two appends */
function callHooks(send: Send, session: string): Promise<number[]> {
  const [at, id] = [`/sessions/${session}`, randomUUID()];
  const message = { id, from: 'user', text: TEXT };
  const append = (role: string) => send('POST', `${at}/messages`, { messages: [{ role, text: TEXT }] });
  return timeAll([
    () => send('POST', `${at}/hooks/inboundMessage`, { context: { message } }),
    () => send('POST', `${at}/hooks/systemPrompt`, { context: { systemPrompt: PROMPT } }),
    () => send('POST', `${at}/hooks/outboundMessage`, { context: { message: { id, text: TEXT }, target: 'user' } }),
    () => append('user'),
    () => append('assistant'),
  ]);
}

async function timeAll(steps: readonly (() => Promise<unknown>)[]): Promise<number[]> {
  const times: number[] = [];
  for (const step of steps) {
    const started = performance.now();
    await step();
    times.push(performance.now() - started);
  }
  return times;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);

try {
  await startPostgres(cleanup);
  const fixture = await startSupervisorFixture(cleanup);
  await fixture.install({ slug: 'guard', code: CODE });
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${await fixture.issuer.issue('ann')}` };
  const client = new Client(await fixture.app.listen({ port: 0, host: '127.0.0.1' }));
  cleanup.teardown(() => client.close());
  const send: Send = async (method, path, body) => {
    const answer = await client.request({ method, path, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`${path} answered ${answer.statusCode}: ${text}`);
    return text;
  };
  const [turns, hooks]: [number[][], number[][]] = [[], []];
  // A new session now and then: a prompt reads the whole conversation, whose length is not what is measured.
  let session = '';
  for (let at = -WARM_UP; at < TURNS; at += 1) {
    if (at % 10 === 0) session = await fixture.session();
    const took = [await runTurn(send, session), await callHooks(send, session)] as const;
    if (at < 0) continue;
    turns.push(took[0]);
    hooks.push(took[1]);
  }
  const last = await send('POST', `/sessions/${await fixture.session()}/turns`, opening(randomUUID()));
  if (!last.includes('Be kind.')) throw new Error(`the plugin does not run: ${last}`);
  const steps = ['open with prompt', 'end with output'].map((name, step) => {
    const times = turns.map((times) => times[step] ?? 0);
    return `${name} ${percentile(times, MEDIAN).toFixed(2)} ms`;
  });
  console.log(`steps at p50: ${steps.join(', ')}`);
  const alone = hooks.map((times) => sum(times.slice(0, 3)));
  for (const [name, p] of [
    ['p50', MEDIAN],
    ['p99', P99],
  ] as const) {
    const turn = percentile(turns.map(sum), p);
    const raw = percentile(alone, p);
    const kept = percentile(hooks.map(sum), p);
    console.log(
      `${name}: turn ${turn.toFixed(2)} ms, three hooks ${raw.toFixed(2)} ms, with two appends ${kept.toFixed(2)} ms; ` +
        `own cost ${(turn - raw).toFixed(2)} ms over the hooks, ${(turn - kept).toFixed(2)} ms over hooks and appends`,
    );
  }
  const own = percentile(turns.map(sum), MEDIAN) - percentile(alone, MEDIAN);
  const met = own <= GOAL_MS;
  const goal = `own cost over the hooks at p50 at most ${GOAL_MS} ms`;
  console.log(`goal: ${goal}: ${own.toFixed(2)} ms, ${met ? 'met' : 'missed'}; load ${loadavg()[0]?.toFixed(1)}`);
  if (!met) process.exitCode = 1;
} finally {
  await cleanup.end();
}
