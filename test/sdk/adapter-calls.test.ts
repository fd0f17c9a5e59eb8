/** Calls of the app's own tools through the adapters: a tool gets exactly the arguments that plugins judged, however a model writes them. */
import { AIMessage, AIMessageChunk, type BaseMessage, HumanMessage } from '@langchain/core/messages';
import { ChatGenerationChunk } from '@langchain/core/outputs';
import { tool as langchainTool } from '@langchain/core/tools';
import { Agent, tool as agentsTool, assistant, Runner } from '@openai/agents';
import { dynamicTool, generateText, jsonSchema, stepCountIs, streamText, wrapLanguageModel } from 'ai';
import { createAgent } from 'langchain';
import t from 'tap';
import * as aiSdk from '../../sdk/adapters/ai-sdk.ts';
import * as langchain from '../../sdk/adapters/langchain.ts';
import * as openAiAgents from '../../sdk/adapters/openai-agents.ts';
import { connect, type Session } from '../../sdk/session/session.ts';
import { amount, isSoak, listCases } from '../runner/soak.ts';
import { startSupervisorFixture, withStartedPlugins } from '../supervisor/supervisor-fixture.ts';
import { AI_SDK_MODEL, createAgentsModel, ScriptedChatModel } from './scripted-models.ts';

const fixture = withStartedPlugins(await startSupervisorFixture(t));
const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });

await fixture.install({
  account: 'baker',
  slug: 'guard',
  code: `middleware.toolCall = ({ call, cancel }) => {
    if (call.arguments.degrees > 250) cancel('too hot');
  };`,
});

/** @param onJudged gets the arguments of each call that plugins judge */
async function openSession(onJudged: (args: unknown) => void = () => undefined): Promise<Session> {
  const watch: typeof fetch = (input, init) => {
    if (/\/calls\/[^/]+$/.test(new URL(String(input)).pathname)) onJudged(JSON.parse(String(init?.body)).arguments);
    return fetch(input, init);
  };
  const client = connect({ url, token: await fixture.issuer.issue('baker'), fetch: watch });
  return client.start({ agentId: 'a', strict: true });
}

/** A call as a model writes it. */
interface WrittenCall {
  readonly id: string;
  readonly args: string;
}
/** What the model is asked, as JSON, and what it answers: calls of `oven`, or a text. */
type AnswerTo = (asked: string) => readonly WrittenCall[] | string;
/** What the tool does with the arguments that it gets. */
type Heat = (args: unknown) => string;
/** Runs a turn. Returns the final text. */
type RunTurn = (session: Session, isStreamed: boolean, answerTo: AnswerTo, heat: Heat) => Promise<string>;

const OVEN = { type: 'object' as const, properties: { degrees: { type: 'number' as const } } };

const runAiSdk: RunTurn = async (session, isStreamed, answerTo, heat) => {
  const answer = (prompt: unknown) => {
    const answered = answerTo(JSON.stringify(prompt));
    const isText = typeof answered === 'string';
    const content = isText
      ? [{ type: 'text', text: answered }]
      : answered.map(({ id, args }) => ({ type: 'tool-call', toolCallId: id, toolName: 'oven', input: args }));
    const end = {
      finishReason: { unified: isText ? 'stop' : 'tool-calls' },
      usage: { inputTokens: {}, outputTokens: {} },
    };
    return { content, ...end, warnings: [] };
  };
  const scripted = {
    ...AI_SDK_MODEL,
    doGenerate: async ({ prompt }: { prompt: unknown }) => answer(prompt),
    doStream: async ({ prompt }: { prompt: unknown }) => {
      const { content, warnings: _none, ...end } = answer(prompt);
      const parts = content.flatMap((part): object[] =>
        'text' in part
          ? [
              { type: 'text-start', id: 't' },
              { type: 'text-delta', id: 't', delta: part.text },
              { type: 'text-end', id: 't' },
            ]
          : [part],
      );
      const stream = new ReadableStream({
        start(controller) {
          for (const part of [...parts, { type: 'finish', ...end }]) controller.enqueue(part);
          controller.close();
        },
      });
      return { stream };
    },
  };
  const asked = {
    model: wrapLanguageModel({ model: scripted as never, middleware: aiSdk.bulkhead(session) }),
    tools: { oven: dynamicTool({ inputSchema: jsonSchema(OVEN), execute: async (args) => heat(args) }) },
    stopWhen: stepCountIs(6),
    prompt: 'Heat it',
    maxRetries: 0,
  };
  if (!isStreamed) return (await generateText(asked)).text;
  let failure: unknown = null;
  const onError = ({ error }: { error: unknown }): void => {
    failure = error;
  };
  const text = await streamText({ ...asked, onError }).text;
  if (failure !== null) throw failure;
  return text;
};

function toChunks(answered: ReturnType<AnswerTo>): AIMessageChunk[] {
  if (typeof answered === 'string') return [new AIMessageChunk(answered)];
  // Each call in two parts, as models stream it.
  return answered.flatMap(({ id, args }, index) => {
    const half = Math.floor(args.length / 2);
    const begin = { id, name: 'oven', args: args.slice(0, half), index, type: 'tool_call_chunk' as const };
    const rest = { args: args.slice(half), index, type: 'tool_call_chunk' as const };
    return [begin, rest].map((part) => new AIMessageChunk({ content: '', tool_call_chunks: [part] }));
  });
}

function joinChunks([first, ...rest]: readonly AIMessageChunk[]): AIMessage {
  const { text, tool_calls, invalid_tool_calls } = rest.reduce(
    (all, chunk) => all.concat(chunk),
    first as AIMessageChunk,
  );
  return new AIMessage({
    content: text,
    ...(tool_calls ? { tool_calls } : {}),
    ...(invalid_tool_calls ? { invalid_tool_calls } : {}),
  });
}

class StreamingChatModel extends ScriptedChatModel {
  readonly #answer: (messages: BaseMessage[]) => AIMessageChunk[];

  constructor(answerTo: AnswerTo) {
    const answer = (messages: BaseMessage[]) => toChunks(answerTo(JSON.stringify(messages)));
    super((messages) => joinChunks(answer(messages)));
    this.#answer = answer;
  }

  override async *_streamResponseChunks(messages: BaseMessage[]) {
    for (const message of this.#answer(messages)) yield new ChatGenerationChunk({ text: message.text, message });
  }
}
const runLangchain: RunTurn = async (session, isStreamed, answerTo, heat) => {
  const oven = langchainTool(async (args) => heat(args), { name: 'oven', description: 'Heats', schema: OVEN });
  const agent = createAgent({ model: langchain.bulkhead(session, new StreamingChatModel(answerTo)), tools: [oven] });
  const input = { messages: [new HumanMessage('Heat it')] };
  if (!isStreamed) return (await agent.invoke(input)).messages.at(-1)?.text ?? '';
  let text = '';
  for await (const [chunk] of await agent.stream(input, { streamMode: 'messages' }))
    if (chunk.type === 'ai') text += chunk.text;
  return text;
};

const runAgents: RunTurn = async (session, isStreamed, answerTo, heat) => {
  const answer = (input: unknown) => {
    const answered = answerTo(JSON.stringify(input));
    if (typeof answered === 'string') return [assistant(answered)];
    return answered.map(({ id, args }) => ({ type: 'function_call', callId: id, name: 'oven', arguments: args }));
  };
  const scripted = createAgentsModel(answer);
  const settings = openAiAgents.bulkhead(session, { modelProvider: { getModel: () => scripted } });
  const runner = new Runner({ ...settings, tracingDisabled: true });
  const parameters = { ...OVEN, required: [], additionalProperties: true as const };
  const oven = agentsTool({
    name: 'oven',
    description: 'Heats',
    strict: false,
    parameters,
    execute: async (args) => heat(args),
  });
  const agent = new Agent({ name: 'Baker', model: 'm', tools: [oven] });
  if (!isStreamed) return (await runner.run(agent, 'Heat it')).finalOutput ?? '';
  const result = await runner.run(agent, 'Heat it', { stream: true });
  await result.completed;
  return result.finalOutput ?? '';
};

const frameworks: Readonly<Record<string, RunTurn>> = {
  'ai-sdk': runAiSdk,
  langchain: runLangchain,
  'openai-agents': runAgents,
};

/** Answers with the calls, and then with the text. */
const callOnce = (calls: readonly WrittenCall[], text = 'Done.'): AnswerTo => {
  let isFirst = true;
  return () => {
    const answer = isFirst ? calls : text;
    isFirst = false;
    return answer;
  };
};

/** Each framework with the ways to run a turn: a quick run takes one of them, by turns. */
const listed = Object.entries(frameworks).map(([name, runTurn], at) => {
  return { name, runTurn, ways: amount({ quick: [at % 2 === 1], soak: [false, true] }) };
});

for (const { name, runTurn, ways } of listed)
  for (const isStreamed of ways)
    t.test(`${name}${isStreamed ? ', streamed' : ''}: a tool gets the arguments that plugins judged`, async (t) => {
      const texts = [
        '{"degrees": 300',
        '{"degrees": 300,',
        '{"note": "a\nb", "degrees": 300}',
        '{"degrees": 300}}',
        '{"degrees": 1e999}',
        '{"__proto__": {"degrees": 300}',
        '{"__proto__": {"degrees": 300}}',
        '"{\\"degrees\\": 300}"',
        ' ',
        '{"degrees": 200}',
      ];
      for (const args of texts) {
        const judged: unknown[] = [];
        const given: unknown[] = [];
        const session = await openSession((one) => judged.push(one));
        const heat: Heat = (one) => {
          // With inherited properties, which a tool reads, too.
          const { degrees } = one as { degrees?: unknown };
          given.push(degrees);
          return 'warm';
        };
        await runTurn(session, isStreamed, callOnce([{ id: 'c1', args }]), heat);
        t.notOk(
          given.some((degrees) => Number(degrees) > 250),
          `${args}: ${given}`,
        );
        t.ok(given.length <= judged.length, `${args}: no call runs that was not judged`);
        for (const degrees of given)
          t.ok(
            judged.some((one) => (one as { degrees?: unknown })?.degrees === degrees),
            args,
          );
        if (args === '{"degrees": 200}') t.same(given, [200]);
      }
    });

/** One end of this many is tried: every kind of value is cut in its middle, and behind it. */
const ENDS_STEP = amount({ quick: 12, soak: 1 });
const VALID = '{"degrees": 240, "note": "a \\"b\\" \\u00e9\\n", "list": [1, -2.5e3, {"deep": [true, false, null]}]}';

t.test('langchain: of arguments that end anywhere, plugins judge what the framework reads', async (t) => {
  const runs = Array.from({ length: VALID.length + 1 }, (_, length) => VALID.slice(0, length));
  const tried = runs.filter((_, length) => (VALID.length - length) % ENDS_STEP === 0);
  for (const args of tried) {
    const judged: unknown[] = [];
    const session = await openSession((one) => judged.push(one));
    const model = langchain.bulkhead(session, new StreamingChatModel(callOnce([{ id: 'c1', args }])));
    let whole: AIMessageChunk | undefined;
    for await (const chunk of await model.stream([new HumanMessage('Heat it')])) whole = whole?.concat(chunk) ?? chunk;
    const given = (whole?.tool_calls ?? []).map((call) => call.args);
    t.same(given, judged, args);
  }
});

t.test('langchain: parts of calls in any order do not reach the tool without a plugin’s judgement', async (t) => {
  const part = (fields: object) => ({ type: 'tool_call_chunk' as const, ...fields });
  const start = '{"degrees":300,"note":"';
  const streams = {
    'arguments before the name': [
      part({ index: 0, args: start }),
      part({ index: 0, id: 'c1', name: 'oven', args: '' }),
    ],
    'the name of a plugin’s tool first': [
      part({ index: 0, id: 'c1', name: 'guard__x', args: start }),
      part({ index: 0, id: 'c1', name: 'oven', args: '' }),
    ],
    'arguments of another id': [
      part({ index: 0, id: 'c1', name: 'guard__x', args: '{}' }),
      part({ index: 0, id: 'c2', args: start }),
      part({ index: 0, id: 'c2', name: 'oven', args: '' }),
    ],
    'name and id in each part': [
      part({ index: 0, id: 'c1', name: 'oven', args: start }),
      part({ index: 0, id: 'c1', name: 'oven', args: '"}' }),
    ],
  };
  for (const [way, parts] of Object.entries(streams)) {
    const judged: unknown[] = [];
    const model = new StreamingChatModel(() => '');
    model._streamResponseChunks = async function* () {
      for (const one of parts)
        yield new ChatGenerationChunk({
          text: '',
          message: new AIMessageChunk({ content: '', tool_call_chunks: [one] }),
        });
    };
    const { bulkhead } = langchain;
    const session = await openSession((one) => judged.push(one));
    const stream = await bulkhead(session, model).stream([new HumanMessage('Heat it')]);
    let whole: AIMessageChunk | undefined;
    // The model answers the same when it is asked again, after a refusal.
    for await (const chunk of stream) whole = whole?.concat(chunk) ?? chunk;
    const given = (whole?.tool_calls ?? []).filter((call) => call.name === 'oven').map(({ args }) => args);
    t.notOk(
      given.some(({ degrees }) => degrees > 250),
      `${way}: ${JSON.stringify(given)}`,
    );
  }
});

const LONG_ID = `call_${'x'.repeat(5_000)}`;
const nest = (levels: number): unknown => (levels === 0 ? 1 : { a: nest(levels - 1) });
const UNSTORABLE = {
  'a lone surrogate': { args: '{"note": "\\ud83d"}', reason: /must not contain U\+0000 or lone surrogates/ },
  'U+0000': { args: '{"note": "\\u0000"}', reason: /must not contain U\+0000 or lone surrogates/ },
  '1 MiB': { args: JSON.stringify({ note: 'x'.repeat(1_100_000) }), reason: /larger than 1048576 bytes/ },
  '150 levels': { args: JSON.stringify(nest(150)), reason: /deeper than 100 levels/ },
  '20,001 values': { args: JSON.stringify({ list: Array(20_001).fill(1) }), reason: /more than 20000 values/ },
};

for (const { name, runTurn, ways } of listed)
  for (const isStreamed of ways) {
    const way = `${name}${isStreamed ? ', streamed' : ''}`;
    t.test(`${way}: the model reads why the service cannot take its arguments, and the run continues`, async (t) => {
      for (const [kind, { args, reason }] of listCases(UNSTORABLE, 'a lone surrogate')) {
        const given: unknown[] = [];
        const asked: string[] = [];
        const answerTo: AnswerTo = (prompt) => {
          asked.push(prompt);
          const calls = [
            [
              { id: 'c1', args },
              { id: 'c2', args: '{"degrees":100}' },
            ],
            [{ id: 'c3', args }],
          ];
          return calls[asked.length - 1] ?? 'Corrected.';
        };
        const heat: Heat = (one) => {
          given.push(one);
          return 'warm';
        };
        t.equal(await runTurn(await openSession(), isStreamed, answerTo, heat), 'Corrected.', kind);
        t.same(given, [{ degrees: 100 }], kind);
        t.match(asked[1], reason, `${kind}: beside a call that passed`);
        t.equal(asked[2]?.match(new RegExp(reason, 'g'))?.length, 2, `${kind}: alone`);
        t.notMatch(asked[1], /x{1000}/, 'without the arguments');
      }
    });

    if (name !== 'langchain' && !isSoak()) continue;
    t.test(`${way}: ids of calls that the service cannot store`, async (t) => {
      const ids = [LONG_ID, `${LONG_ID}y`, '\ud83d', '\ud83e', 'a\0b', '..', '.', 'a/b?c#d'];
      const asked: string[] = [];
      const given: number[] = [];
      const answerTo: AnswerTo = (prompt) => {
        asked.push(prompt);
        if (asked.length > 1) return 'Done.';
        return ids.map((id, at) => ({ id, args: JSON.stringify({ degrees: at === 1 ? 300 : 100 + at }) }));
      };
      const heat: Heat = (one) => {
        const { degrees } = one as { degrees: number };
        given.push(degrees);
        return `warm at ${degrees}`;
      };
      const session = await openSession();
      t.equal(await runTurn(session, isStreamed, answerTo, heat), 'Done.');
      t.same(given.toSorted(), [100, 102, 103, 104, 105, 106, 107]);
      for (const degrees of given) t.match(asked[1], new RegExp(`warm at ${degrees}`), 'each result is judged');
      t.match(asked[1], /too hot/);
      t.match(asked[1], LONG_ID, 'the framework keeps the id of the model');
    });
  }
