/**
 * Measures the first token of a streamed answer: the AI SDK alone, with the adapter and no guard, and with a guard that judges
 * each sentence. The model is a server that thinks for 300 ms and then writes a word every 10 ms, with the space before it, as
 * models do: only the next word shows that a sentence is over, so that this is when the raw stream has one. The three are
 * interleaved. The goals: at most 1.1 times the first token without a guard; with one, at most 20 ms after the raw stream has
 * its first sentence. Run `sh deploy/node.sh bench/first-token.ts [turns]`.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { loadavg } from 'node:os';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { streamText, wrapLanguageModel } from 'ai';
import { bulkhead } from '../sdk/adapters/ai-sdk.ts';
import { connect } from '../sdk/session/session.ts';
import { openAiDelta, openAiEvents, openAiStart } from '../test/supervisor/host/model-server.ts';
import { startSupervisorFixture } from '../test/supervisor/supervisor-fixture.ts';
import { openCleanup } from './fixtures/cleanup.ts';
import { startPostgres } from './fixtures/postgres.ts';
import { readPositiveNumber } from './options.ts';
import { median } from './percentiles.ts';

const TURNS = readPositiveNumber('turns', process.argv[2] ?? '30');
const WARM_UP = 5;
const THINK_MS = 300;
const WORD_MS = 10;
const SENTENCE = ['The', ' oven', ' holds', ' forty', ' loaves.'];
const NEXT = [' And', ' more.'];
const FREE_GOAL = 1.1;
const GUARDED_GOAL_MS = 20;
const GUARD = `middleware.outboundMessage = { stream: true, handler: (ctx) => {
  return { message: { text: ctx.message.text.replace('forty', 'thirty') } };
} };`;

const cleanup = openCleanup();
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const model = createServer(async (_request, response) => {
  await pause(THINK_MS);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(openAiStart);
  for (const word of [...SENTENCE, ...NEXT]) {
    response.write(openAiDelta(word));
    await pause(WORD_MS);
  }
  response.end(openAiEvents([]));
});

/** Milliseconds since the prompt was given. */
interface Request {
  readonly path: string;
  readonly startedAt: number;
  readonly endedAt: number;
}
interface Sample {
  readonly text: string;
  readonly first: number;
  /** When the stream has its first sentence and the word after it. */
  readonly sentence: number;
  readonly requests: readonly Request[];
}

let started = 0;
let requests: Request[] = [];
const timedFetch: typeof fetch = async (input, init) => {
  const startedAt = performance.now() - started;
  const response = await fetch(input, init);
  const path = new URL(input instanceof Request ? input.url : input).pathname.replace(/.*\//, '');
  requests.push({ path, startedAt, endedAt: performance.now() - started });
  return response;
};

async function ask(wrapped: Parameters<typeof wrapLanguageModel>[0]['model']): Promise<Sample> {
  requests = [];
  started = performance.now();
  let text = '';
  let first = Number.NaN;
  let sentence = Number.NaN;
  for await (const part of streamText({ model: wrapped, prompt: 'How many?' }).textStream) {
    const now = performance.now() - started;
    if (text === '') first = now;
    text += part;
    if (Number.isNaN(sentence) && text.includes('. ')) sentence = now;
  }
  return { text, first, sentence, requests };
}

function find({ requests }: Sample, path: string): Request {
  const found = requests.find((request) => request.path === path);
  if (!found) throw new Error(`no request to ${path}: ${requests.map((request) => request.path)}`);
  return found;
}
const duration = ({ startedAt, endedAt }: Request): number => endedAt - startedAt;

function printSplit(name: string, samples: readonly Sample[], pieces: boolean): void {
  const at = (read: (sample: Sample) => number): string => `${median(samples.map(read)).toFixed(1)} ms`;
  const asked = (sample: Sample) => find(sample, 'completions').startedAt;
  const parts = [
    `opening the turn with its prompt ${at((sample) => duration(find(sample, 'turns')))}`,
    `all before the model is asked ${at(asked)}`,
    pieces
      ? `the model until its sentence is sent ${at((sample) => find(sample, 'output').startedAt - asked(sample))}`
      : `the model until its first word ${at((sample) => sample.first - asked(sample))}`,
    ...(pieces
      ? [
          `judging the sentence ${at((sample) => duration(find(sample, 'output')))}`,
          `handing it out ${at((sample) => sample.first - find(sample, 'output').endedAt)}`,
        ]
      : []),
  ];
  console.log(`${name}: ${parts.join(', ')}`);
}

try {
  await startPostgres(cleanup);
  const fixture = await startSupervisorFixture(cleanup);
  await new Promise<void>((resolve) => model.listen(0, '127.0.0.1', resolve));
  cleanup.teardown(() => model.close());
  const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
  const modelUrl = `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`;
  await fixture.install({ account: 'guarded', slug: 'guard', code: GUARD });
  const raw = createOpenAICompatible({ name: 'local', baseURL: modelUrl, fetch: timedFetch })('m');
  const start = async (account: string) => {
    const client = connect({ url, token: await fixture.issuer.issue(account), fetch: timedFetch });
    return wrapLanguageModel({ model: raw, middleware: bulkhead(await client.start({ agentId: 'a' })) });
  };
  const kinds = { raw: async () => raw, free: () => start('free'), guarded: () => start('guarded') };
  const samples: Record<keyof typeof kinds, Sample[]> = { raw: [], free: [], guarded: [] };
  for (let at = -WARM_UP; at < TURNS; at += 1) {
    for (const [kind, open] of Object.entries(kinds)) {
      const sample = await ask(await open());
      if (at >= 0) samples[kind as keyof typeof kinds].push(sample);
    }
  }
  for (const { text } of samples.guarded)
    if (!text.includes('thirty')) throw new Error(`the guard does not run: ${text}`);
  const first = (kind: keyof typeof kinds) => median(samples[kind].map((sample) => sample.first));
  const [alone, free, guarded] = [first('raw'), first('free'), first('guarded')];
  const sentence = median(samples.raw.map((sample) => sample.sentence));
  console.log(
    `first token at p50: raw ${alone.toFixed(1)} ms, adapter ${free.toFixed(1)} ms, guarded ${guarded.toFixed(1)} ms; ` +
      `the raw stream has a sentence after ${sentence.toFixed(1)} ms; load ${loadavg()[0]?.toFixed(1)}`,
  );
  printSplit('adapter', samples.free, false);
  printSplit('guarded', samples.guarded, true);
  const late = guarded - sentence;
  const isFreeMet = free <= alone * FREE_GOAL;
  const isGuardedMet = late <= GUARDED_GOAL_MS;
  console.log(
    `goal: without a guard at most ${FREE_GOAL} × raw: ${(free / alone).toFixed(3)} ×, ${isFreeMet ? 'met' : 'missed'}`,
  );
  console.log(
    `goal: with one at most raw + a sentence + ${GUARDED_GOAL_MS} ms: ${late.toFixed(1)} ms after the sentence, ${isGuardedMet ? 'met' : 'missed'}`,
  );
  if (!isFreeMet || !isGuardedMet) process.exitCode = 1;
} finally {
  await cleanup.end();
}
