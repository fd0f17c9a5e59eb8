/**
 * Measures the first token of a streamed answer: the AI SDK alone, with the adapter and no guard, and with a guard that judges
 * each sentence. The model is a server that thinks for 300 ms and then writes a word every 10 ms; the three are interleaved. The
 * goals: at most 1.1 times the first token without a guard; with one, at most the first sentence and 20 ms more. Run
 * `node bench/first-token.ts [turns]`.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { streamText, wrapLanguageModel } from 'ai';
import { bulkhead } from '../sdk/adapters/ai-sdk.ts';
import { connect } from '../sdk/session/session.ts';
import { removeTimeLimit } from '../test/runner/harness.ts';
import { SERVER_VARIABLE, startTestServer } from '../test/runner/server.ts';
import { openAiDelta, openAiEvents, openAiStart } from '../test/supervisor/host/model-server.ts';
import { startSupervisorFixture } from '../test/supervisor/supervisor-fixture.ts';
import { percentile } from './percentiles.ts';

const TURNS = Number(process.argv[2] ?? 30);
const WARM_UP = 5;
const THINK_MS = 300;
const WORD_MS = 10;
const SENTENCE = ['The ', 'oven ', 'holds ', 'forty ', 'loaves. '];
const FREE_GOAL = 1.1;
const GUARDED_GOAL_MS = 20;
const MEDIAN = 0.5;
const GUARD = 'middleware.outboundMessage = { stream: true, handler: () => {} };';

removeTimeLimit();
const endings: (() => unknown)[] = [];
const cleanup = { teardown: (end: () => unknown) => void endings.push(end) };
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const model = createServer(async (_request, response) => {
  await pause(THINK_MS);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(openAiStart);
  for (const word of SENTENCE) {
    response.write(openAiDelta(word));
    await pause(WORD_MS);
  }
  response.end(openAiEvents(['And ', 'more.']));
});

try {
  const server = await startTestServer();
  endings.push(() => server.stop());
  process.env[SERVER_VARIABLE] = server.url;
  const fixture = await startSupervisorFixture(cleanup);
  await fixture.app.listen({ port: 0, host: '127.0.0.1' });
  await new Promise<void>((resolve) => model.listen(0, '127.0.0.1', resolve));
  endings.push(() => model.close());
  const url = `http://127.0.0.1:${(fixture.app.server.address() as AddressInfo).port}`;
  const modelUrl = `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`;
  await fixture.install({ account: 'guarded', slug: 'guard', code: GUARD });
  const raw = createOpenAICompatible({ name: 'local', baseURL: modelUrl })('m');
  const start = async (account: string) => {
    const session = await connect({ url, token: await fixture.issuer.issue(account) }).start({ agentId: 'a' });
    return wrapLanguageModel({ model: raw, middleware: bulkhead(session) });
  };
  const kinds = { raw: async () => raw, free: () => start('free'), guarded: () => start('guarded') };
  const times: Record<string, number[]> = { raw: [], free: [], guarded: [] };
  for (let at = -WARM_UP; at < TURNS; at += 1) {
    for (const [kind, open] of Object.entries(kinds)) {
      const wrapped = await open();
      const started = performance.now();
      let first: number | null = null;
      for await (const _text of streamText({ model: wrapped, prompt: 'How many?' }).textStream)
        first ??= performance.now() - started;
      if (at >= 0) times[kind]?.push(first ?? 0);
    }
  }
  const [alone = 0, free = 0, guarded = 0] = ['raw', 'free', 'guarded'].map((kind) =>
    percentile(times[kind] ?? [], MEDIAN),
  );
  const sentenceMs = SENTENCE.length * WORD_MS;
  const late = guarded - alone - sentenceMs;
  console.log(
    `first token at p50: raw ${alone.toFixed(1)} ms, adapter ${free.toFixed(1)} ms, guarded ${guarded.toFixed(1)} ms`,
  );
  const isFreeMet = free <= alone * FREE_GOAL;
  const isGuardedMet = late <= GUARDED_GOAL_MS;
  console.log(
    `goal: without a guard at most ${FREE_GOAL} × raw: ${(free / alone).toFixed(3)} ×, ${isFreeMet ? 'met' : 'missed'}`,
  );
  console.log(
    `goal: with one at most raw + a sentence (${sentenceMs} ms) + ${GUARDED_GOAL_MS} ms: ${late.toFixed(1)} ms over, ${isGuardedMet ? 'met' : 'missed'}`,
  );
  if (!isFreeMet || !isGuardedMet) process.exitCode = 1;
} finally {
  for (const end of endings.reverse()) await end();
}
