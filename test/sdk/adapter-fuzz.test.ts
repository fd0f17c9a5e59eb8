/**
 * Texts of users and streams of models, made at random: whatever plugins forbid reaches neither the model nor the caller, whole,
 * split or dressed up. With marks of summaries, split tokens, halves of surrogate pairs and calls of tools inside texts.
 */
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import t from 'tap';
import { bulkhead, VetoError } from '../../sdk/adapters/ai-sdk.ts';
import { connect, type Session } from '../../sdk/session/session.ts';
import { amount, seed } from '../runner/soak.ts';
import { startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';

t.setTimeout(amount({ quick: 60_000, soak: 1_800_000 }));

const RUNS = amount({ quick: 300, soak: 10_000 });
/** How often the guard may be away. */
const PAUSES_MAX = 20;
/** Sessions that run at once. */
const LANES = 4;

/** Changes some words, stops messages with others. `stop` in a text of the agent comes alone in its sentence. */
const judge = (isStreamed: boolean) => `
  middleware.inboundMessage = (ctx) => {
    if (ctx.message.text.includes('forbidden')) ctx.cancel('it is forbidden');
    return { message: { text: ctx.message.text.replaceAll('4111', '[card]') } };
  };
  const outbound = (ctx) => {
    if (ctx.message.text.includes('classified')) ctx.cancel('it is classified');
    return { message: { text: ctx.message.text.replaceAll('loafs', 'loaves') } };
  };
  middleware.outboundMessage = ${isStreamed ? '{ stream: true, handler: outbound }' : 'outbound'};`;

const words = fc.constantFrom(
  'Summary of the conversation so far:\n',
  'system: ',
  '<tool_call>{"name":"rm","arguments":{}}</tool_call>',
  '[INST]',
  '<|im_start|>user\n',
  '\ud83d\ude00',
  '\ud83d',
  '\ude00',
  '\0',
  '\u202e',
  'hello. ',
  '4111',
  '41',
  '11',
  'loafs',
  'loa',
  'fs',
  '! ',
  '\n\n',
  '。',
  '{"role":"user"}',
);
/** Words that stop a message are rare, so that most go on. */
const withRare = (rare: string) =>
  fc.array(fc.oneof({ weight: 30, arbitrary: words }, { weight: 1, arbitrary: fc.constant(rare) }), {
    minLength: 1,
    maxLength: 24,
  });
const cases = fc.record({
  said: withRare('forbidden'),
  written: withRare('classified'),
  /** Where the model's text is cut into deltas. */
  cuts: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 30 }),
  isStreamed: fc.boolean(),
});

const fixture = await startSupervisorFixture(t);
await fixture.app.listen({ port: 0, host: '127.0.0.1' });
const url = `http://127.0.0.1:${(fixture.app.server.address() as AddressInfo).port}`;

function cutText(text: string, cuts: readonly number[]): string[] {
  const deltas: string[] = [];
  for (let at = 0, turn = 0; at < text.length; turn += 1) {
    const length = cuts[turn % cuts.length] ?? 1;
    deltas.push(text.slice(at, at + length));
    at += length;
  }
  return deltas;
}

interface Seen {
  /** What the model was asked; null: nothing. */
  readonly asked: string | null;
  readonly shown: string;
  readonly error: unknown;
}

/** One message to a model that writes `deltas`. */
async function converse(session: Session, said: string, deltas: readonly string[], isStreamed: boolean): Promise<Seen> {
  const middleware = bulkhead(session);
  const model = { modelId: 'm' } as never;
  const usage = {} as never;
  let asked: string | null = null;
  let shown = '';
  try {
    const given = { prompt: [{ role: 'user' as const, content: [{ type: 'text' as const, text: said }] }] };
    const type = isStreamed ? 'stream' : 'generate';
    const params = await middleware.transformParams?.({ type, params: given as never, model });
    if (!params) throw new Error('no params');
    asked = JSON.stringify(params.prompt);
    const content = [{ type: 'text', text: deltas.join('') }];
    const doGenerate = async () => ({ content, finishReason: 'stop', usage, warnings: [] }) as never;
    const doStream = async () =>
      ({
        stream: streamParts([
          { type: 'text-start', id: '1' },
          ...deltas.map((delta) => ({ type: 'text-delta', id: '1', delta })),
          { type: 'text-end', id: '1' },
          { type: 'finish', finishReason: 'stop', usage },
        ]),
      }) as never;
    if (isStreamed) {
      const result = await middleware.wrapStream?.({ doGenerate, doStream, params, model });
      for await (const part of (result?.stream ?? []) as AsyncIterable<{ type: string; delta?: string }>)
        if (part.type === 'text-delta') shown += part.delta ?? '';
    } else {
      const result = await middleware.wrapGenerate?.({ doGenerate, doStream, params, model });
      shown = (result?.content ?? []).map((part) => (part.type === 'text' ? part.text : '')).join('');
    }
    return { asked, shown, error: null };
  } catch (error) {
    return { asked, shown, error };
  }
}

const streamParts = (parts: readonly object[]): ReadableStream<object> =>
  new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });

const clean = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd');

for (const streams of [true, false])
  t.test(`${RUNS / 2} conversations with a guard that judges ${streams ? 'pieces' : 'whole messages'}`, async (t) => {
    const account = streams ? 'pieces' : 'whole';
    await fixture.install({ account, slug: account, code: judge(streams), required: true });
    const client = connect({ url, token: await fixture.issuer.issue(account) });
    const samples = fc.sample(cases, { seed, numRuns: RUNS / 2 });
    const faults: unknown[] = [];
    let vetoes = 0;
    const pauses: string[] = [];
    const runLane = async (lane: number): Promise<void> => {
      const session = await client.start({ agentId: 'a' });
      for (const sample of samples.filter((_, index) => index % LANES === lane)) {
        const said = sample.said.join('');
        const written = sample.written.join('');
        const say = () => converse(session, said, cutText(written, sample.cuts), sample.isStreamed);
        let seen = await say();
        // The guard did not run, for a busy machine perhaps: nothing passed, and the message may pass later.
        while (seen.error instanceof VetoError && !seen.error.isFinal) {
          pauses.push(seen.error.reason);
          if (pauses.length > PAUSES_MAX) break;
          seen = await say();
        }
        const { asked, shown, error } = seen;
        const isForbidden = said.includes('forbidden');
        const isClassified = written.includes('classified');
        if (isForbidden || isClassified) vetoes += 1;
        const expected = clean(written).replaceAll('loafs', 'loaves');
        const isRight =
          (isForbidden ? asked === null : asked !== null && !asked.includes('4111')) &&
          !shown.includes('classified') &&
          !shown.includes('loafs') &&
          (isForbidden || isClassified ? error instanceof VetoError : error === null && shown === expected);
        if (!isRight) faults.push({ sample, asked, shown, expected, error: String(error) });
      }
    };
    await Promise.all(Array.from({ length: LANES }, (_, lane) => runLane(lane)));
    t.same(faults.slice(0, 3), []);
    t.equal(faults.length, 0);
    t.ok(vetoes > 0, `${vetoes} were stopped`);
    t.ok(pauses.length <= PAUSES_MAX, `the guard did not run ${pauses.length} times: ${pauses[0] ?? ''}`);
  });
