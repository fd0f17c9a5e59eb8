/**
 * Texts of users and streams of models, made at random: whatever plugins forbid reaches neither the model nor the caller, whole,
 * split or dressed up. With marks of summaries, split tokens, halves of surrogate pairs and calls of tools inside texts.
 */
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessage, AIMessageChunk, type BaseMessage, HumanMessage } from '@langchain/core/messages';
import { ChatGenerationChunk } from '@langchain/core/outputs';
import { type Model, type ModelRequest, Usage } from '@openai/agents';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import * as aiSdk from '../../sdk/adapters/ai-sdk.ts';
import * as langchain from '../../sdk/adapters/langchain.ts';
import * as openAiAgents from '../../sdk/adapters/openai-agents.ts';
import { VetoError } from '../../sdk/adapters/veto-error.ts';
import { connect, type Session } from '../../sdk/session/session.ts';
import { amount, seed } from '../runner/soak.ts';
import { startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';

/** Runs of each adapter. */
const RUNS = amount({ quick: 20, soak: 10_000 });
/** How often the guard may be away. */
const PAUSES_MAX = 20;
/** Sessions that run at once. */
const WORKERS = 4;

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
const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });

function cutText(text: string, cuts: readonly number[]): string[] {
  const deltas: string[] = [];
  for (let at = 0, turn = 0; at < text.length; turn += 1) {
    const length = cuts[turn % cuts.length] ?? 1;
    deltas.push(text.slice(at, at + length));
    at += length;
  }
  return deltas;
}

interface Conversation {
  readonly session: Session;
  readonly said: string;
  /** The text that the model writes. */
  readonly deltas: readonly string[];
  readonly isStreamed: boolean;
  /** Gets what the model is asked. */
  readonly onAsked: (prompt: unknown) => void;
  /** Gets what the caller sees. */
  readonly onShown: (text: string) => void;
}
type Converse = (conversation: Conversation) => Promise<void>;

const converseByAiSdk: Converse = async ({ session, said, deltas, isStreamed, onAsked, onShown }) => {
  const middleware = aiSdk.bulkhead(session);
  const model = { modelId: 'm' } as never;
  const usage = {} as never;
  const given = { prompt: [{ role: 'user' as const, content: [{ type: 'text' as const, text: said }] }] };
  const type = isStreamed ? 'stream' : 'generate';
  const params = await middleware.transformParams?.({ type, params: given as never, model });
  if (!params) throw new Error('no params');
  onAsked(params.prompt);
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
      if (part.type === 'text-delta') onShown(part.delta ?? '');
  } else {
    const result = await middleware.wrapGenerate?.({ doGenerate, doStream, params, model });
    for (const part of result?.content ?? []) if (part.type === 'text') onShown(part.text);
  }
};

class ScriptedChatModel extends BaseChatModel {
  readonly #conversation: Conversation;

  constructor(conversation: Conversation) {
    super({});
    this.#conversation = conversation;
  }

  override _llmType(): string {
    return 'scripted';
  }

  override async _generate(messages: BaseMessage[]) {
    this.#conversation.onAsked(messages);
    const text = this.#conversation.deltas.join('');
    return { generations: [{ text, message: new AIMessage(text) }] };
  }

  override async *_streamResponseChunks(messages: BaseMessage[]) {
    this.#conversation.onAsked(messages);
    for (const text of this.#conversation.deltas)
      yield new ChatGenerationChunk({ text, message: new AIMessageChunk(text) });
  }
}

const converseByLangchain: Converse = async (conversation) => {
  const { session, said, isStreamed, onShown } = conversation;
  const model = langchain.bulkhead(session, new ScriptedChatModel(conversation));
  const messages = [new HumanMessage(said)];
  if (!isStreamed) onShown((await model.invoke(messages)).text);
  else for await (const chunk of await model.stream(messages)) onShown(chunk.text);
};

const converseByAgents: Converse = async ({ session, said, deltas, isStreamed, onAsked, onShown }) => {
  const text = deltas.join('');
  const content = [{ type: 'output_text' as const, text }];
  const output = [{ type: 'message' as const, role: 'assistant' as const, status: 'completed' as const, content }];
  const scripted: Model = {
    async getResponse({ input }) {
      onAsked(input);
      return { usage: new Usage(), output };
    },
    async *getStreamedResponse({ input }) {
      onAsked(input);
      for (const delta of deltas) yield { type: 'output_text_delta', delta };
      const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
      yield { type: 'response_done', response: { id: 'r', usage, output } };
    },
  };
  const modelProvider = { getModel: () => scripted };
  const model = await openAiAgents.bulkhead(session, { modelProvider }).modelProvider.getModel('m');
  const request: ModelRequest = {
    input: said,
    modelSettings: {},
    tools: [],
    handoffs: [],
    outputType: 'text',
    tracing: false,
  };
  if (isStreamed) {
    for await (const event of model.getStreamedResponse(request))
      if (event.type === 'output_text_delta') onShown(event.delta);
    return;
  }
  for (const item of (await model.getResponse(request)).output)
    if (item.type === 'message' && item.role === 'assistant')
      for (const part of item.content) if (part.type === 'output_text') onShown(part.text);
};

const adapters: Readonly<Record<string, Converse>> = {
  'ai-sdk': converseByAiSdk,
  langchain: converseByLangchain,
  'openai-agents': converseByAgents,
};

interface Seen {
  /** The request to the model. Null: none. */
  readonly asked: string | null;
  readonly shown: string;
  readonly error: unknown;
}

/** One message to a model that writes `deltas`. */
async function collect(
  converse: Converse,
  conversation: Pick<Conversation, 'session' | 'said' | 'deltas' | 'isStreamed'>,
): Promise<Seen> {
  let asked: string | null = null;
  let shown = '';
  const onAsked = (prompt: unknown): void => {
    asked = JSON.stringify(prompt);
  };
  const onShown = (text: string): void => {
    shown += text;
  };
  const error: unknown = await converse({ ...conversation, onAsked, onShown }).then(
    () => null,
    (reason: unknown) => reason,
  );
  return { asked, shown, error };
}

const streamParts = (parts: readonly object[]): ReadableStream<object> =>
  new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });

const clean = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd');

async function converseAtRandom(t: Test, account: string, converse: Converse): Promise<void> {
  const client = connect({ url, token: await fixture.issuer.issue(account) });
  const samples = fc.sample(cases, { seed, numRuns: RUNS / 2 });
  const faults: unknown[] = [];
  let vetoes = 0;
  const pauses: string[] = [];
  const runWorker = async (worker: number): Promise<void> => {
    const session = await client.start({ agentId: 'a' });
    for (const sample of samples.filter((_, index) => index % WORKERS === worker)) {
      const said = sample.said.join('');
      const written = sample.written.join('');
      const deltas = cutText(written, sample.cuts);
      const say = () => collect(converse, { session, said, deltas, isStreamed: sample.isStreamed });
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
  await Promise.all(Array.from({ length: WORKERS }, (_, worker) => runWorker(worker)));
  t.same(faults.slice(0, 3), []);
  t.equal(faults.length, 0);
  t.ok(vetoes > 0, `${vetoes} were stopped`);
  t.ok(pauses.length <= PAUSES_MAX, `the guard did not run ${pauses.length} times: ${pauses[0] ?? ''}`);
}

for (const streams of [true, false]) {
  const account = streams ? 'pieces' : 'whole';
  await fixture.install({ account, slug: account, code: judge(streams), required: true });
  for (const [name, converse] of Object.entries(adapters))
    t.test(
      `${name}: ${RUNS / 2} conversations with a guard that judges ${streams ? 'pieces' : 'whole messages'}`,
      (t) => converseAtRandom(t, account, converse),
    );
}
