/** What a model's provider returns beside texts and calls, such as thinking, usage and options: the adapters lose none of it on its way back. */
import {
  AIMessage,
  AIMessageChunk,
  type BaseMessage,
  HumanMessage,
  SystemMessage,
  type ToolMessage,
  type UsageMetadata,
} from '@langchain/core/messages';
import { ChatGenerationChunk } from '@langchain/core/outputs';
import { tool as langchainTool } from '@langchain/core/tools';
import { Agent, type AgentInputItem, tool as agentsTool, Runner, user } from '@openai/agents';
import {
  dynamicTool,
  generateText,
  jsonSchema,
  type ModelMessage,
  simulateReadableStream,
  stepCountIs,
  streamText,
  wrapLanguageModel,
} from 'ai';
import { createAgent } from 'langchain';
import t from 'tap';
import * as aiSdk from '../../sdk/adapters/ai-sdk.ts';
import * as langchain from '../../sdk/adapters/langchain.ts';
import * as openAiAgents from '../../sdk/adapters/openai-agents.ts';
import { connect, type Session } from '../../sdk/session/session.ts';
import { amount } from '../runner/soak.ts';
import { startSupervisorFixture, withStartedPlugins } from '../supervisor/supervisor-fixture.ts';
import { AI_SDK_MODEL, createAgentsModel, ScriptedChatModel } from './scripted-models.ts';

const fixture = withStartedPlugins(await startSupervisorFixture(t));
const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });

const open = async (account: string): Promise<Session> =>
  connect({ url, token: await fixture.issuer.issue(account) }).start({ agentId: 'a', strict: true });

await fixture.install({
  account: 'guarded',
  slug: 'guard',
  code: `middleware.outboundMessage = (ctx) => ({ message: { text: ctx.message.text.replace('loafs', 'loaves') } });`,
});
await fixture.install({
  account: 'refusing',
  slug: 'refuse',
  code: `middleware.toolCall = ({ call, cancel }) => { if (call.arguments.degrees > 250) cancel('too hot'); };`,
});

await fixture.install({
  account: 'prompting',
  slug: 'prompt',
  code: `middleware.systemPrompt = ({ systemPrompt }) => systemPrompt + ' Be kind.';`,
});

await fixture.install({
  account: 'weighing',
  slug: 'kitchen',
  code: `tools.scale = { description: 'Weighs', parameters: { type: 'object' }, handler: () => 'heavy' };`,
});

const OVEN = { name: 'oven', description: 'Heats', schema: { type: 'object', properties: {} } as const };

const usageWithTier = { input_tokens: 1, output_tokens: 2, total_tokens: 3, input_token_details: { priority: 1 } };

t.test('langchain: an answer with calls that no plugin changed keeps the content of its provider', async (t) => {
  const content = [
    { type: 'thinking', thinking: 'Bread needs heat.', signature: 's1' },
    { type: 'tool_use', id: 'c1', name: 'oven', input: { degrees: 200 } },
  ];
  const said = new AIMessage({
    content,
    // The order of the parsers of Anthropic and Google.
    tool_calls: [{ name: 'oven', args: { degrees: 200 }, id: 'c1', type: 'tool_call' }],
    additional_kwargs: { model: 'm' },
    response_metadata: { finish_reason: 'tool_calls' },
    usage_metadata: usageWithTier as never,
  });
  const model = langchain.bulkhead(await open('plain'), new ScriptedChatModel(() => said));
  const message = await model.bindTools?.([langchainTool(async () => 'warm', OVEN)]).invoke([new HumanMessage('Bake')]);
  t.match(message, {
    content,
    additional_kwargs: { model: 'm' },
    response_metadata: { finish_reason: 'tool_calls' },
    tool_calls: [{ id: 'c1', args: { degrees: 200 } }],
  });
  t.same((message as AIMessage).usage_metadata, usageWithTier);
});

/** Runs a message in which the model thinks, calls the tool with each of `degrees`, and then answers; and then another message. */
interface Framework {
  /** @returns what each request of the model had, by kinds, such as `thinking 1`, and what the app got */
  run(session: Session, degrees: readonly number[], isStreamed: boolean): Promise<Requests>;
}
interface Requests {
  /** Tokens of the first message's prompts, as the app gets them. */
  readonly inputTokens: number | undefined;
  readonly asked: readonly (readonly string[])[];
  readonly got: readonly string[];
}

const usage = { inputTokens: { total: 10 }, outputTokens: { total: 1 } };

const aiSdkThinking: Framework = {
  async run(session, degrees, isStreamed) {
    const asked: string[][] = [];
    const describe = ({ role, content }: { role: string; content: unknown }) =>
      typeof content === 'string'
        ? [role]
        : (content as { type: string; providerOptions?: { p?: { sign?: string } } }[]).map(
            ({ type, providerOptions }) => [type, providerOptions?.p?.sign].join(' ').trim(),
          );
    const answer = (prompt: { role: string; content: unknown }[]) => {
      asked.push(prompt.flatMap(describe));
      const number = asked.length;
      const calls = degrees.map((one, index) => ({
        type: 'tool-call',
        toolCallId: `c${index}`,
        toolName: 'oven',
        input: JSON.stringify({ degrees: one }),
      }));
      const isLast = number > 1;
      const said = isLast ? [{ type: 'text', text: 'Done.' }] : [{ type: 'text', text: 'Heating.' }, ...calls];
      return { number, said, finishReason: { unified: isLast ? 'stop' : 'tool-calls' } };
    };
    const model = {
      ...AI_SDK_MODEL,
      async doGenerate({ prompt }: { prompt: never }) {
        const { number, said, finishReason } = answer(prompt);
        const thinking = { type: 'reasoning', text: 'Hm.', providerMetadata: { p: { sign: `${number}` } } };
        return { content: [thinking, ...said], finishReason, usage, warnings: [] };
      },
      async doStream({ prompt }: { prompt: never }) {
        const { number, said, finishReason } = answer(prompt);
        const toText = (text: string): object[] => [
          { type: 'text-start', id: 't' },
          { type: 'text-delta', id: 't', delta: text },
          { type: 'text-end', id: 't' },
        ];
        const parts = [
          { type: 'reasoning-start', id: 'r' },
          { type: 'reasoning-delta', id: 'r', delta: 'Hm.' },
          { type: 'reasoning-delta', id: 'r', delta: '', providerMetadata: { p: { sign: `${number}` } } },
          { type: 'reasoning-end', id: 'r' },
          ...said.flatMap((part) => ('text' in part ? toText(part.text) : [part])),
          { type: 'finish', finishReason, usage },
        ];
        return { stream: simulateReadableStream({ chunks: parts }) };
      },
    };
    const messages: ModelMessage[] = [];
    const spent: (number | undefined)[] = [];
    for (const content of ['Bake', 'Again']) {
      messages.push({ role: 'user', content });
      const options = {
        model: wrapLanguageModel({ model: model as never, middleware: aiSdk.bulkhead(session) }),
        tools: { oven: dynamicTool({ inputSchema: jsonSchema(OVEN.schema), execute: async () => 'warm' }) },
        stopWhen: stepCountIs(4),
        messages,
        maxRetries: 0,
      };
      const { responseMessages, totalUsage } = isStreamed ? streamText(options) : await generateText(options);
      messages.push(...(await responseMessages));
      spent.push((await totalUsage).inputTokens);
    }
    return { asked, got: messages.flatMap(describe as never), inputTokens: spent[0] };
  },
};

const langchainThinking: Framework = {
  async run(session, degrees, isStreamed) {
    const asked: string[][] = [];
    const describe = (message: BaseMessage): string[] => {
      const blocks = typeof message.content === 'string' ? [message.type] : message.content;
      const calls = message.type === 'ai' ? ((message as AIMessage).tool_calls ?? []) : [];
      return [
        ...blocks.map((one) => (typeof one === 'string' ? one : [one.type, one.signature].join(' ').trim())),
        ...calls.map(() => 'call'),
      ];
    };
    const model = new ScriptedChatModel((messages) => {
      asked.push(messages.flatMap(describe));
      const isLast = asked.length > 1;
      return new AIMessage({
        content: [
          { type: 'thinking', thinking: 'Hm.', signature: `${asked.length}` },
          { type: 'text', text: isLast ? 'Done.' : 'Heating.' },
        ],
        tool_calls: isLast ? [] : degrees.map((one, at) => ({ id: `c${at}`, name: 'oven', args: { degrees: one } })),
        usage_metadata: { input_tokens: 10, output_tokens: 1, total_tokens: 11 },
      } as never);
    });
    const oven = langchainTool(async () => 'warm', OVEN);
    const agent = createAgent({ model: langchain.bulkhead(session, model), tools: [oven] });
    let messages: BaseMessage[] = [];
    const spent: number[] = [];
    for (const text of ['Bake', 'Again']) {
      const input = { messages: [...messages, new HumanMessage(text)] };
      if (!isStreamed) ({ messages } = await agent.invoke(input));
      else
        for await (const [mode, state] of await agent.stream(input, { streamMode: ['messages', 'values'] }))
          if (mode === 'values') ({ messages } = state as { messages: BaseMessage[] });
      spent.push(
        messages.reduce(
          (sum, one) => sum + ((one as { usage_metadata?: UsageMetadata }).usage_metadata?.input_tokens ?? 0),
          0,
        ),
      );
    }
    return { asked, got: messages.flatMap(describe), inputTokens: spent[0] };
  },
};

const agentsThinking: Framework = {
  async run(session, degrees, isStreamed) {
    const asked: string[][] = [];
    const describe = (item: AgentInputItem): string =>
      ('role' in item ? [item.role, item.id] : [item.type, item.id]).join(' ').trim();
    const model = createAgentsModel((input) => {
      asked.push((input as AgentInputItem[]).map(describe));
      const number = asked.length;
      const thinking = { type: 'reasoning', id: `rs_${number}`, content: [] };
      const say = (text: string) => ({
        type: 'message',
        role: 'assistant',
        id: `msg_${number}`,
        status: 'completed',
        content: [{ type: 'output_text', text }],
      });
      const calls = degrees.map((one, index) => ({
        type: 'function_call',
        id: `fc_${index}`,
        callId: `c${index}`,
        name: 'oven',
        arguments: JSON.stringify({ degrees: one }),
      }));
      return number > 1 ? [thinking, say('Done.')] : [thinking, say('Heating.'), ...calls];
    });
    const runner = new Runner({
      ...openAiAgents.bulkhead(session, { modelProvider: { getModel: () => model } }),
      tracingDisabled: true,
    });
    const parameters = { ...OVEN.schema, required: [], additionalProperties: true as const };
    const oven = agentsTool({ ...OVEN, strict: false, parameters, execute: async () => 'warm' });
    const agent = new Agent({ name: 'Baker', model: 'm', tools: [oven] });
    let history: AgentInputItem[] = [];
    const spent: number[] = [];
    for (const text of ['Bake', 'Again']) {
      const result = await runner.run(agent, [...history, user(text)], { stream: isStreamed as true });
      if (isStreamed) await result.completed;
      ({ history } = result);
      spent.push(result.state.usage.inputTokens);
    }
    return { asked, got: history.map(describe), inputTokens: spent[0] };
  },
};

const frameworks: Readonly<Record<string, Framework>> = {
  'ai-sdk': aiSdkThinking,
  langchain: langchainThinking,
  'openai-agents': agentsThinking,
};

/** The user's message, the reasoning with what followed it, and the results. */
const SECOND: Readonly<Record<string, (calls: number) => string[]>> = {
  'ai-sdk': (calls) => ['text', 'reasoning 1', 'text', ...repeat('tool-call', calls), ...repeat('tool-result', calls)],
  langchain: (calls) => ['human', 'thinking 1', 'text', ...repeat('call', calls), ...repeat('tool', calls)],
  'openai-agents': (calls) => [
    'user',
    'reasoning rs_1',
    'assistant',
    ...repeat('function_call', calls),
    ...repeat('function_call_result', calls),
  ],
};
const repeat = (kind: string, times: number): string[] => Array(times).fill(kind);

const TEXT: ReadonlySet<string> = new Set(['text', 'assistant']);

const REASONING = /^(reasoning|thinking)/;

for (const [at, [name, framework]] of Object.entries(frameworks).entries())
  for (const isStreamed of amount({ quick: [at % 2 === 0], soak: [false, true] })) {
    const second = SECOND[name] as (calls: number) => string[];
    const withoutText = (kinds: readonly string[]) => kinds.filter((kind, index) => index === 0 || !TEXT.has(kind));
    const title = `${name}${isStreamed ? ', streamed' : ''}`;

    t.test(`${title}: the model gets the reasoning of a turn again that plugins keep from the app`, async (t) => {
      const { asked, got } = await framework.run(await open('guarded'), [200], isStreamed);
      t.same(asked[1], second(1));
      t.same(
        [...got, ...(asked[2] ?? [])].filter((kind) => REASONING.test(kind)),
        [],
        'it ends with its turn',
      );
      t.notMatch(got.join(), /fc_|msg_/, 'ids of items whose reasoning is missing are left out');
    });

    t.test(`${title}: the model gets the reasoning that led to refused calls`, async (t) => {
      const { asked, got, inputTokens } = await framework.run(await open('refusing'), [300], isStreamed);
      t.equal(inputTokens, 20, 'the tokens of both requests count');
      t.same(asked[1], withoutText(second(1)));
      t.notMatch(got.join(), /rs_1|fc_|msg_1/);
      const { asked: again } = await framework.run(await open('refusing'), [300, 200], isStreamed);
      const [refused = ''] = again[1]?.slice(-1) ?? [];
      t.same(again[1]?.slice(0, second(1).length), second(1), 'once, before the call that passed');
      t.equal(refused, second(1).at(-1), 'the refusal follows');
    });

    t.test(`${title}: an answer that no plugin judges keeps its reasoning and its ids`, async (t) => {
      const { asked, got } = await framework.run(await open('plain'), [200], isStreamed);
      const reasoning = [...(asked[2] ?? [])].filter((kind) => REASONING.test(kind));
      t.match(asked[1]?.[1], /1$/);
      // The scripted model of LangChain does not stream: its one chunk has the call, which waits until it is judged.
      if (name !== 'langchain' || !isStreamed) t.equal(reasoning.length, 2);
      if (name === 'openai-agents') t.match(got.join(), /rs_1,assistant msg_1,function_call fc_0/);
    });
  }

t.test(
  'langchain, streamed: blocks of an answer whose calls were all refused do not join those of the next one',
  async (t) => {
    class StreamingModel extends ScriptedChatModel {
      #requests = 0;

      override async *_streamResponseChunks() {
        this.#requests += 1;
        const isLast = this.#requests > 1;
        const blocks = [
          { type: 'thinking', thinking: 'Hm.', index: 0 },
          { type: 'thinking', signature: `${this.#requests}`, index: 0 },
          { type: 'text', text: isLast ? 'Done.' : 'Heating.', index: 1 },
        ];
        const call = { id: 'c1', name: 'oven', args: '{"degrees":300}', index: 2, type: 'tool_call_chunk' as const };
        for (const block of blocks) yield toChunk({ content: [block] as never });
        if (!isLast) yield toChunk({ content: '', tool_call_chunks: [call] });
      }
    }
    const toChunk = (fields: ConstructorParameters<typeof AIMessageChunk>[0]) =>
      new ChatGenerationChunk({ text: '', message: new AIMessageChunk(fields) });
    const model = new StreamingModel(() => new AIMessage(''));
    const agent = createAgent({
      model: langchain.bulkhead(await open('refusing'), model),
      tools: [langchainTool(async () => 'warm', OVEN)],
    });
    const input = { messages: [new HumanMessage('Bake')] };
    let messages: BaseMessage[] = [];
    for await (const [mode, state] of await agent.stream(input, { streamMode: ['messages', 'values'] }))
      if (mode === 'values') ({ messages } = state as { messages: BaseMessage[] });
    t.match(messages[1]?.content, [
      { thinking: 'Hm.', signature: '1' },
      { text: 'Heating.' },
      { thinking: 'Hm.', signature: '2' },
      { text: 'Done.' },
    ]);
  },
);

interface StreamedPart {
  readonly type: string;
  readonly providerOptions?: { readonly p?: { readonly item?: string } };
}

t.test(
  'ai-sdk, streamed: reasoning that led only to refused calls is no part of the conversation for its provider',
  async (t) => {
    const run = async (degrees: number) => {
      let requests = 0;
      const model = {
        ...AI_SDK_MODEL,
        async doStream() {
          requests += 1;
          const providerMetadata = { p: { item: `rs_${requests}` } };
          const call = { type: 'tool-call', toolCallId: 'c1', toolName: 'oven', input: JSON.stringify({ degrees }) };
          const text = [
            { type: 'text-start', id: 't' },
            { type: 'text-delta', id: 't', delta: 'Done.' },
            { type: 'text-end', id: 't' },
          ];
          const parts = [
            { type: 'reasoning-start', id: 'r', providerMetadata },
            { type: 'reasoning-delta', id: 'r', delta: 'Hm.' },
            { type: 'reasoning-end', id: 'r' },
            // Some models think again, under the same id.
            { type: 'reasoning-start', id: 'r', providerMetadata },
            { type: 'reasoning-delta', id: 'r', delta: 'Yes.' },
            { type: 'reasoning-end', id: 'r', providerMetadata },
            ...(requests === 1 ? [call] : text),
            { type: 'finish', finishReason: { unified: requests === 1 ? 'tool-calls' : 'stop' }, usage },
          ];
          return { stream: simulateReadableStream({ chunks: parts.slice(requests === 1 ? 3 : 0) }) };
        },
      };
      const result = streamText({
        model: wrapLanguageModel({ model: model as never, middleware: aiSdk.bulkhead(await open('refusing')) }),
        tools: { oven: dynamicTool({ inputSchema: jsonSchema(OVEN.schema), execute: async () => 'warm' }) },
        stopWhen: stepCountIs(3),
        prompt: 'Bake',
      });
      const kinds: string[] = [];
      for await (const { type } of result.fullStream)
        if (/^(reasoning|text|tool)-(start|end|call)/.test(type)) kinds.push(type);
      const parts = (await result.responseMessages).flatMap(({ content }) => [...(content as StreamedPart[])]);
      return { kinds, items: parts.filter(({ type }) => type === 'reasoning').map((part) => readItem(part)) };
    };
    const readItem = ({ providerOptions }: StreamedPart) => providerOptions?.p?.item;
    const thinking = ['reasoning-start', 'reasoning-end'];
    const text = ['text-start', 'text-end'];
    const refused = await run(300);
    t.same(refused.items, [undefined, 'rs_2', 'rs_2']);
    t.same(refused.kinds, [...thinking, ...thinking, ...thinking, ...text]);
    const passed = await run(200);
    t.same(passed.items, ['rs_1', 'rs_2', 'rs_2']);
    t.same(passed.kinds, [...thinking, 'tool-call', ...thinking, ...thinking, ...text]);
  },
);

/** A model of the AI SDK that calls `oven` with these degrees, one call a request (null: it says “Done.”), and what it was asked. */
function createBaker(degrees: readonly (number | null)[], toCallId: (at: number) => string) {
  const asked: string[][] = [];
  const model = {
    ...AI_SDK_MODEL,
    async doGenerate({ prompt }: { prompt: { content: unknown }[] }) {
      const at = asked.length;
      const parts = prompt.flatMap(({ content }) => content as { type: string; toolCallId?: string }[]);
      asked.push(parts.map(({ type, toolCallId }) => [type, toolCallId].join(' ').trim()));
      const input = JSON.stringify({ degrees: degrees[at] });
      const isCall = typeof degrees[at] === 'number';
      const said = isCall
        ? { type: 'tool-call', toolCallId: toCallId(at), toolName: 'oven', input }
        : { type: 'text', text: 'Done.' };
      const content = [{ type: 'reasoning', text: 'Hm.' }, said];
      return { content, finishReason: { unified: isCall ? 'tool-calls' : 'stop' }, usage, warnings: [] };
    },
  };
  return { asked, model: model as never };
}
const bakersOven = dynamicTool({ inputSchema: jsonSchema({ type: 'object' }), execute: async () => 'warm' });

t.test('ai-sdk: the reasoning of a turn is not put into an earlier one with a call of the same id', async (t) => {
  const { asked, model } = createBaker([200, null, 200, null], () => 'c0');
  const middleware = aiSdk.bulkhead(await open('guarded'));
  const messages: ModelMessage[] = [];
  for (const content of ['Bake', 'Again']) {
    messages.push({ role: 'user', content });
    const { responseMessages } = await generateText({
      model: wrapLanguageModel({ model, middleware }),
      tools: { oven: bakersOven },
      stopWhen: stepCountIs(3),
      messages,
    });
    messages.push(...responseMessages);
  }
  const turn = ['text', 'tool-call c0', 'tool-result c0', 'text'];
  t.same(asked[3], [...turn, 'text', 'reasoning', 'tool-call c0', 'tool-result c0']);
});

t.test('ai-sdk: a refused call is not put between a call and its result if steps are left out', async (t) => {
  const { asked, model } = createBaker([300, 200, 200, 300, 200, null], (at) => `c${at}`);
  await generateText({
    model: wrapLanguageModel({ model, middleware: aiSdk.bulkhead(await open('refusing')) }),
    tools: { oven: bakersOven },
    stopWhen: stepCountIs(5),
    prompt: 'Bake',
    prepareStep: ({ messages }) => ({ messages: messages.slice(-2) }),
  });
  const plain = asked.map((kinds) => kinds.filter((kind) => kind !== 'reasoning'));
  const pair = (at: number) => [`tool-call c${at}`, `tool-result c${at}`];
  t.same(plain, [
    ['text'],
    ['text', ...pair(0)],
    [...pair(0), ...pair(1)],
    [...pair(0), ...pair(2)],
    [...pair(0), ...pair(2), ...pair(3)],
    [...pair(0), ...pair(3), ...pair(4)],
  ]);
});

t.test('ai-sdk: the system prompt keeps its options, such as those for caching', async (t) => {
  const providerOptions = { anthropic: { cacheControl: { type: 'ephemeral' } } };
  const system = [
    { role: 'system' as const, content: 'Bake.', providerOptions },
    { role: 'system' as const, content: 'Today is Monday.' },
  ];
  const ask = async (account: string, instructions: typeof system) => {
    let asked: unknown;
    const model = {
      ...AI_SDK_MODEL,
      async doGenerate({ prompt }: { prompt: unknown[] }) {
        asked = prompt.slice(0, -1);
        return { content: [{ type: 'text', text: 'Done.' }], finishReason: { unified: 'stop' }, usage, warnings: [] };
      },
    };
    const middleware = aiSdk.bulkhead(await open(account));
    await generateText({ model: wrapLanguageModel({ model: model as never, middleware }), instructions, prompt: 'Hi' });
    return asked;
  };
  t.match(await ask('plain', system), system);
  const content = 'Bake.\n\nToday is Monday. Be kind.';
  t.same(await ask('prompting', system), [{ role: 'system', content, providerOptions }]);
  const replacing = [{ role: 'system' as const, content: 'Bake.', providerOptions: { other: { content: 'Steal.' } } }];
  await t.rejects(ask('plain', replacing as never), /replaces what plugins judge/);
});

t.test('langchain: the system prompt keeps its options, such as those for caching', async (t) => {
  const cached = { type: 'text', text: 'Bake.', cache_control: { type: 'ephemeral' } };
  const ask = async (account: string, content: object[]) => {
    let asked: unknown;
    const model = new ScriptedChatModel(([system]) => {
      asked = system?.content;
      return new AIMessage('Done.');
    });
    const system = new SystemMessage({ content } as never);
    await langchain.bulkhead(await open(account), model).invoke([system, new HumanMessage('Hi')]);
    return asked;
  };
  const blocks = [cached, { type: 'text', text: ' Today is Monday.' }];
  t.same(await ask('plain', blocks), blocks);
  const text = 'Bake. Today is Monday. Be kind.';
  t.same(await ask('prompting', blocks), [{ ...cached, text }]);
  const picture = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } };
  t.same(await ask('plain', [cached, picture]), [cached], 'plugins do not judge other blocks');
});

t.test('langchain: calls of plugins’ tools send the events of the library', async (t) => {
  const tools = await langchain.bulkheadTools(await open('weighing'));
  const events: string[] = [];
  const callbacks = [
    {
      handleToolStart: (_tool: unknown, input: string) => void events.push(`start ${input}`),
      handleToolEnd: ({ content }: ToolMessage) => void events.push(`end ${content}`),
    },
  ];
  const call = { type: 'tool_call' as const, id: 'c1', name: 'kitchen__scale', args: { loaves: 2 } };
  t.match(await tools[0]?.invoke(call, { callbacks }), { content: 'heavy', tool_call_id: 'c1', status: 'success' });
  t.same(events, ['start {"loaves":2}', 'end heavy']);
});
