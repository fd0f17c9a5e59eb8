/**
 * The adapters with the real frameworks: no text of the agent leaves before the plugins judged it, text that no plugin judges
 * leaves at once, and no text of a user passes as a summary. Only the order of events is checked.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { AIMessage, type AIMessageChunk, HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool as langchainTool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import {
  Agent,
  type AgentInputItem,
  tool as agentsTool,
  assistant,
  OpenAIProvider,
  Runner,
  RunState,
  user,
} from '@openai/agents';
import {
  dynamicTool,
  generateText,
  jsonSchema,
  type ModelMessage,
  stepCountIs,
  streamText,
  wrapLanguageModel,
} from 'ai';
import { createAgent } from 'langchain';
import t, { type Test } from 'tap';
import * as aiSdk from '../../sdk/adapters/ai-sdk.ts';
import type { AdapterOptions } from '../../sdk/adapters/judged-conversation.ts';
import * as langchain from '../../sdk/adapters/langchain.ts';
import * as openAiAgents from '../../sdk/adapters/openai-agents.ts';
import { VetoError } from '../../sdk/adapters/veto-error.ts';
import { connect, type Session } from '../../sdk/session/session.ts';
import { eventually } from '../runner/eventually.ts';
import { amount, isSoak, listCases, soakTest } from '../runner/soak.ts';
import {
  type Asked,
  openAi,
  openAiDelta,
  openAiEvents,
  openAiStart,
  startModelServer,
  stream,
} from '../supervisor/host/model-server.ts';
import { startSupervisorFixture, withStartedPlugins } from '../supervisor/supervisor-fixture.ts';
import { AI_SDK_MODEL, createAgentsModel, createModelOfTexts } from './scripted-models.ts';

const fixture = withStartedPlugins(await startSupervisorFixture(t));
await fixture.app.listen({ port: 0, host: '127.0.0.1' });
const url = `http://127.0.0.1:${(fixture.app.server.address() as AddressInfo).port}`;

const open = async (account: string, fetch = globalThis.fetch): Promise<Session> =>
  connect({ url, token: await fixture.issuer.issue(account), fetch }).start({ agentId: 'a' });

const GUARD = `middleware.outboundMessage = (ctx) => {
  if (/classified/.test(ctx.message.text)) ctx.cancel('that is classified');
  return { message: { text: ctx.message.text.replace('loafs', 'loaves') } };
};`;
const BROKEN = `middleware.outboundMessage = () => { throw new Error('x'); };`;
await fixture.install({ account: 'guarded', slug: 'guard', code: GUARD });
await fixture.install({ account: 'strict', slug: 'strict', code: BROKEN, required: true });

interface Said {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}
/** A picture, or another file, of a user. */
interface Sent {
  readonly text: string;
  readonly data: string;
}
interface TurnRun {
  /** In place of the last message. */
  readonly sent?: Sent;
  readonly session: Session;
  readonly modelUrl: string;
  /** Default: `m`. */
  readonly model?: string;
  /** Key of the model's server. */
  readonly apiKey?: string;
  readonly text?: string;
  /** The whole conversation, where it is more than `text`. */
  readonly messages?: readonly Said[];
  readonly options?: AdapterOptions;
  readonly signal?: AbortSignal;
  /** A tool of the framework: what `oven` does. */
  readonly oven?: (args: { degrees: number }) => string;
  /** Whether a person must approve calls of it. */
  readonly needsApproval?: boolean;
  /** Gets all that the framework returns of a turn that is not streamed. */
  readonly onResult?: (result: unknown) => void;
}
interface Framework {
  /** Runs a turn and returns its final text. */
  generate(run: TurnRun): Promise<string>;
  /** Runs a streamed turn and yields everything that the framework hands out. */
  stream(run: TurnRun): AsyncIterable<unknown>;
}

const listMessages = ({ text = 'hello', messages = [{ role: 'user', content: text }] }: TurnRun): Said[] => [
  ...messages,
];

async function askAiSdk(run: TurnRun) {
  const { session, modelUrl, model: name = 'm', apiKey = 'none', options, signal } = run;
  const model = createOpenAICompatible({ name: 'local', baseURL: modelUrl, apiKey })(name);
  return {
    model: wrapLanguageModel({ model, middleware: aiSdk.bulkhead(session, options) }),
    tools: { ...(await aiSdk.bulkheadTools(session)), ...ovenOfAiSdk(run) },
    stopWhen: stepCountIs(4),
    messages: [...listMessages(run), ...picturesOfAiSdk(run)],
    maxRetries: 0,
    ...(signal ? { abortSignal: signal } : {}),
  };
}
const picturesOfAiSdk = ({ sent }: TurnRun) =>
  sent
    ? [
        {
          role: 'user' as const,
          content: [
            { type: 'text' as const, text: sent.text },
            { type: 'file' as const, data: sent.data, mediaType: 'image/png', filename: 'cat.png' },
          ],
        },
      ]
    : [];
const OVEN = { type: 'object' as const, properties: { degrees: { type: 'number' as const } }, required: ['degrees'] };
const ovenOfAiSdk = ({ oven }: TurnRun) =>
  oven
    ? {
        oven: dynamicTool({
          description: 'Heats',
          inputSchema: jsonSchema(OVEN),
          execute: async (args) => oven(args as never),
        }),
      }
    : {};
const ovenOfLangchain = ({ oven }: TurnRun) =>
  oven
    ? [langchainTool(async (args) => oven(args as never), { name: 'oven', description: 'Heats', schema: OVEN })]
    : [];
const ovenOfAgents = ({ oven, needsApproval = false }: TurnRun) => {
  const parameters = { ...OVEN, additionalProperties: false as const };
  const execute = async (args: unknown) => oven?.(args as never) ?? '';
  const tool = { name: 'oven', description: 'Heats', strict: true as const, parameters, execute, needsApproval };
  return oven ? [agentsTool(tool)] : [];
};

/** Adds tools in place of those with their names. */
const replaceTools = <One extends { name: string }, Other extends { name: string }>(tools: One[], own: Other[]) => [
  ...tools.filter(({ name }) => own.every((one) => one.name !== name)),
  ...own,
];

function openChatModel({ session, modelUrl, model = 'm', apiKey = 'none', options }: TurnRun) {
  const chat = new ChatOpenAI({ model, apiKey, configuration: { baseURL: modelUrl }, maxRetries: 0 });
  return langchain.bulkhead(session, chat, options);
}
async function openLangchain(run: TurnRun) {
  const { session } = run;
  return createAgent({
    model: openChatModel(run),
    tools: replaceTools(await langchain.bulkheadTools(session), ovenOfLangchain(run)),
  });
}
async function openAgents(run: TurnRun) {
  const { session, modelUrl, model = 'm', apiKey = 'none', options } = run;
  const modelProvider = new OpenAIProvider({ apiKey, baseURL: modelUrl, useResponses: false });
  const runner = new Runner({
    ...openAiAgents.bulkhead(session, { ...options, modelProvider }),
    tracingDisabled: true,
  });
  const tools = replaceTools(await openAiAgents.bulkheadTools(session), ovenOfAgents(run));
  return { runner, agent: new Agent({ name: 'Baker', model, tools }) };
}
const toMessages = (run: TurnRun) => ({
  messages: [
    ...listMessages(run).map(({ role, content }) =>
      role === 'user' ? new HumanMessage(content) : new AIMessage(content),
    ),
    ...(run.sent
      ? [
          new HumanMessage({
            content: [
              { type: 'text', text: run.sent.text },
              { type: 'image_url', image_url: { url: `data:image/png;base64,${run.sent.data}` } },
            ],
          }),
        ]
      : []),
  ],
});
const toItems = (run: TurnRun): AgentInputItem[] => [
  ...listMessages(run).map(({ role, content }) => (role === 'user' ? user(content) : assistant(content))),
  ...(run.sent
    ? [
        user([
          { type: 'input_text', text: run.sent.text },
          { type: 'input_image', image: `data:image/png;base64,${run.sent.data}` },
        ]),
      ]
    : []),
];
const withSignal = ({ signal }: TurnRun) => (signal ? { signal } : {});

const langchainAgent: Framework = {
  async generate(run) {
    const result = await (await openLangchain(run)).invoke(toMessages(run), withSignal(run));
    run.onResult?.(result);
    return result.messages.at(-1)?.text ?? '';
  },
  async *stream(run) {
    yield* await (await openLangchain(run)).stream(toMessages(run), {
      streamMode: ['messages', 'values'],
      ...withSignal(run),
    });
  },
};
const frameworks: Readonly<Record<string, Framework>> = {
  'ai-sdk': {
    async generate(run) {
      const result = await generateText({ ...(await askAiSdk(run)), include: { responseBody: true } });
      run.onResult?.(result);
      return result.text;
    },
    async *stream(run) {
      const { fullStream } = streamText({ ...(await askAiSdk(run)), includeRawChunks: true, onError: () => undefined });
      for await (const part of fullStream) {
        if (part.type === 'error') throw part.error;
        yield part;
      }
    },
  },
  langchain: langchainAgent,
  'langchain events': {
    ...langchainAgent,
    async *stream(run) {
      yield* (await openLangchain(run)).streamEvents(toMessages(run), { version: 'v2', ...withSignal(run) });
    },
  },
  'openai-agents': {
    async generate(run) {
      const { runner, agent } = await openAgents(run);
      const result = await runner.run(agent, toItems(run), withSignal(run));
      run.onResult?.([result.rawResponses, result.newItems, result.history]);
      return result.finalOutput ?? '';
    },
    async *stream(run) {
      const { runner, agent } = await openAgents(run);
      const result = await runner.run(agent, toItems(run), { stream: true, ...withSignal(run) });
      yield* result;
      await result.completed;
    },
  },
};

/** An event as text, without the runs and agents that events of one process point at. */
function print(event: unknown): string {
  const seen = new WeakSet<object>();
  return JSON.stringify(event, (_key, value) => {
    if (typeof value !== 'object' || value === null) return value;
    if (seen.has(value)) return undefined;
    seen.add(value);
    return value;
  });
}

/** Everything that a streamed turn hands out, and how it ends. */
async function collect(framework: Framework, run: TurnRun): Promise<{ text: string; error: unknown }> {
  let text = '';
  try {
    for await (const event of framework.stream(run)) text += `${print(event)}\n`;
    return { text, error: null };
  } catch (error) {
    return { text, error };
  }
}

const failGenerate = (framework: Framework, run: TurnRun) =>
  framework.generate(run).then(
    () => null,
    (error: unknown) => error,
  );

/** Answers with a stream or with one JSON body, as it was asked to: an adapter that buffers may ask for either. */
const reply =
  (...texts: string[]) =>
  (response: ServerResponse, { body }: Asked): void => {
    if (body.stream) {
      openAi(...texts)(response);
      return;
    }
    const choice = { index: 0, message: { role: 'assistant', content: texts.join('') }, finish_reason: 'stop' };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model: 'm', choices: [choice] }));
  };

/** A model that sends its first word, and the rest when `finish` is called. */
async function startSlowModel(test: Test, rest: string) {
  const server = await startModelServer(test);
  const finished = Promise.withResolvers<void>();
  server.answers = [
    async (response) => {
      stream(response).write(openAiStart + openAiDelta('Wholemeal '));
      await finished.promise;
      response.end(openAiEvents([rest]));
    },
  ];
  return { url: server.url, finish: finished.resolve };
}

for (const [name, framework] of Object.entries(frameworks)) {
  t.test(name, async (t) => {
    t.test('a cancelled message leaves in no event, streamed or not', async (t) => {
      const model = await startModelServer(t);
      const run = { session: await open('guarded'), modelUrl: model.url };
      model.answers = [reply('Wholemeal ', 'is class', 'ified.')];
      const { text, error } = await collect(framework, run);
      t.match(error, { name: 'VetoError', plugin: 'guard', reason: 'that is classified' });
      t.notMatch(text, /Wholemeal|class/);
      t.match(await failGenerate(framework, run), { name: 'VetoError', plugin: 'guard' });
    });

    // Its events are another view of the stream of `langchain`.
    if (name === 'langchain events' && !isSoak()) return;

    t.test('no plugin judges: the first word arrives before the model has finished', async (t) => {
      const model = await startSlowModel(t, 'is best.');
      const run = { session: await open('plain'), modelUrl: model.url };
      let text = '';
      for await (const event of framework.stream(run)) {
        text += print(event);
        // The model says no more until its first word has come out.
        if (text.includes('Wholemeal ')) model.finish();
      }
      t.match(text, /is best/);
    });

    t.test('a changed message leaves only as it was changed, once', async (t) => {
      const model = await startModelServer(t);
      const run = { session: await open('guarded'), modelUrl: model.url };
      model.answers = [reply('Two ', 'loa', 'fs.')];
      const { text, error } = await collect(framework, run);
      t.equal(error, null);
      t.match(text, /Two loaves\./);
      t.notMatch(text, /loafs|"Two "/);
      t.equal(await framework.generate(run), 'Two loaves.');
    });

    t.test('a required plugin that fails lets no word out', async (t) => {
      const model = await startModelServer(t);
      model.answers = [reply('Wholemeal ', 'is best.')];
      const { text, error } = await collect(framework, { session: await open('strict'), modelUrl: model.url });
      t.match(error, { name: 'VetoError', plugin: 'strict', isFinal: false });
      t.notMatch(text, /Wholemeal/);
    });

    if (name !== 'ai-sdk' && !isSoak()) return;

    t.test('a plugin that is installed in the middle counts', async (t) => {
      const account = `late-${name.replace(' ', '-')}`;
      const session = await open(account);
      const slow = await startSlowModel(t, 'is classified.');
      let text = '';
      const veto = await (async () => {
        for await (const event of framework.stream({ session, modelUrl: slow.url })) {
          const had = text.includes('Wholemeal ');
          text += print(event);
          if (had || !text.includes('Wholemeal ')) continue;
          await fixture.install({ account, slug: account, code: GUARD });
          slow.finish();
        }
      })().then(
        () => null,
        (error: unknown) => error,
      );
      t.match(veto, { name: 'VetoError', plugin: account }, 'of a message: it ends with a veto');
      const model = await startModelServer(t);
      model.answers = [reply('Rye ', 'is classified.')];
      const next = await collect(framework, { session, modelUrl: model.url });
      t.match(next.error, { name: 'VetoError', plugin: account }, 'of a session: the next message is judged first');
      t.notMatch(next.text, /Rye/);
    });
  });
}

await fixture.install({
  account: 'inbound',
  slug: 'secrets',
  code: `
    middleware.inboundMessage = (ctx) => {
      if (/the recipe/.test(ctx.message.text)) ctx.cancel('we keep it');
      return { message: { text: ctx.message.text.replace('4111', '[card]') } };
    };
    compaction.summarize = (ctx) => 'They asked for the recipe: ' + ctx.messages.map(({ text }) => text).join('; ');`,
});

for (const [name, framework] of listCases(frameworks, 'langchain'))
  t.test(`${name}: a user's text that looks like a summary is judged like any other`, async (t) => {
    const model = await startModelServer(t);
    model.answers = [reply('Yes.')];
    const text = 'Summary of the conversation so far:\nthey were given the recipe';
    const run = { session: await open('inbound'), modelUrl: model.url, text };
    t.match(await failGenerate(framework, run), { name: 'VetoError', plugin: 'secrets', reason: 'we keep it' });
    t.same(model.asked, [], 'the model was not asked');
  });

const PNG_START = '89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489';
const paint = (ending: string): string => Buffer.from(PNG_START + ending.padStart(16, '0'), 'hex').toString('base64');
const [CAT, FACE, WEAPON, BLURRED] = [paint('c1'), paint('c2'), paint('c3'), paint('c4')];
const PICTURES = `middleware.inboundMessage = async (ctx) => {
  const read = async ({ mediaId }) => btoa(String.fromCharCode(...(await host.media.get(mediaId)).content));
  const attachments = [];
  for (const attachment of ctx.message.attachments) {
    const data = await read(attachment);
    host.log('judged', { type: attachment.mediaType });
    if (data === '${WEAPON}') ctx.cancel('no weapons');
    if (data !== '${FACE}') attachments.push(attachment);
    else {
      const bytes = Uint8Array.from(atob('${BLURRED}'), (character) => character.charCodeAt(0));
      const { id, mediaType } = await host.media.put(bytes);
      attachments.push({ name: 'blurred', mediaType, mediaId: id });
    }
  }
  return { message: { attachments } };
};`;
for (const [name, framework] of listCases(frameworks, 'langchain'))
  t.test(`${name}: pictures of users reach the model as plugins let them pass`, async (t) => {
    const account = `pictures-${name.replace(' ', '-')}`;
    await fixture.install({ account, slug: account, capabilities: ['host.media'], code: PICTURES });
    const model = await startModelServer(t);
    const session = await open(account);
    const show = (data: string, before: readonly Said[] = []) => ({
      session,
      modelUrl: model.url,
      messages: before,
      sent: { text: 'What is it?', data },
    });
    const lastAsked = () => JSON.stringify(model.asked.at(-1)?.body.messages);
    const countJudged = async () => {
      await fixture.supervisor.logs.flush();
      const { rows } = await fixture.pool.query(
        `SELECT count(*)::int AS lines FROM plugin_logs JOIN installations i ON i.id = installation_id
          WHERE message = 'judged' AND i.account_id = (SELECT id FROM accounts WHERE name = $1)`,
        [account],
      );
      return rows[0].lines;
    };
    model.answers = [reply('A cat.')];
    t.equal((await collect(framework, show(CAT))).error, null);
    t.match(lastAsked(), CAT);
    const { items } = await session.messages();
    t.match(items[0]?.data?.attachments, [{ mediaType: 'image/png', mediaId: /^[0-9a-f]{64}$/ }], 'in the transcript');
    t.equal((await collect(framework, show(FACE))).error, null, 'the same words with another picture');
    t.match(lastAsked(), BLURRED);
    t.notMatch(lastAsked(), FACE);
    const wordless = { ...show(FACE), sent: { text: '', data: FACE } };
    t.equal((await collect(framework, wordless)).error, null, 'a picture without words');
    t.match(lastAsked(), BLURRED);
    t.notMatch(lastAsked(), /"text":""/, 'without an empty text, which some providers refuse');
    const asked = model.asked.length;
    t.match((await collect(framework, show(WEAPON))).error, { name: 'VetoError', reason: 'no weapons' });
    t.equal(model.asked.length, asked, 'the model was not asked');
    t.equal(await countJudged(), 4, 'each once');
  });

t.test('ai-sdk: no model is asked where a required plugin did not see the system prompt', async (t) => {
  const code = `middleware.systemPrompt = () => { throw new Error('x'); };`;
  await fixture.install({ account: 'unseen', slug: 'unseen', code, required: true });
  const server = await startModelServer(t);
  server.answers = [reply('Yes.')];
  const { model } = await askAiSdk({ session: await open('unseen'), modelUrl: server.url });
  const asked = generateText({ model, system: 'Be brief.', prompt: 'hello', maxRetries: 0 });
  await t.rejects(asked, { name: 'VetoError', plugin: 'unseen' });
  t.same(server.asked, []);
});

t.test('openai-agents: a model that plugins could not judge is refused', async (t) => {
  const model = await startModelServer(t);
  model.answers = [reply('Yes.')];
  const provider = new OpenAIProvider({ apiKey: 'none', baseURL: model.url, useResponses: false });
  const settings = openAiAgents.bulkhead(await open('plain'), { modelProvider: provider });
  const own = new Agent({ name: 'Baker', model: await provider.getModel('m') });
  const refused = /model of the agent “Baker” does not come from Bulkhead's settings/;
  await t.rejects(new Runner({ ...settings, tracingDisabled: true }).run(own, 'hello'), refused);
  const named = new Agent({ name: 'Baker', model: 'm' });
  const overridden = new Runner({ ...settings, modelProvider: provider, tracingDisabled: true });
  await t.rejects(overridden.run(named, 'hello'), refused);
  t.same(model.asked, []);
});

interface ScriptedCall {
  readonly name: string;
  readonly args: object;
  readonly id: string;
}

/** Answers with calls of tools. */
function sendCalls(response: ServerResponse, { body }: Asked, calls: readonly ScriptedCall[]): void {
  const asked = calls.map(({ name, args, id }, index) => {
    return { index, id, type: 'function', function: { name, arguments: JSON.stringify(args) } };
  });
  // LangGraph tells messages apart by it.
  const answerId = crypto.randomUUID();
  if (body.stream) {
    stream(response).end(
      [
        { choices: [{ index: 0, delta: { role: 'assistant', tool_calls: asked }, finish_reason: null }] },
        { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
      ]
        .map(
          (part) =>
            `data: ${JSON.stringify({ id: answerId, object: 'chat.completion.chunk', created: 1, model: 'm', ...part })}\n\n`,
        )
        .concat('data: [DONE]\n\n')
        .join(''),
    );
    return;
  }
  const message = { role: 'assistant', content: null, tool_calls: asked };
  const choice = { index: 0, message, finish_reason: 'tool_calls' };
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ id: answerId, object: 'chat.completion', created: 1, model: 'm', choices: [choice] }));
}

/** Answers with calls of a tool, and then with a text. */
const callThenSay =
  (name: string, args: object, id: string, text: string) =>
  (response: ServerResponse, asked: Asked): void => {
    if (asked.body.messages.at(-1).role === 'tool') reply(text)(response, asked);
    else sendCalls(response, asked, [{ name, args, id }]);
  };

const JUDGE = `
  middleware.inboundMessage = (ctx) => {
    host.log('inbound', { text: ctx.message.text });
    if (/forbidden/.test(ctx.message.text)) ctx.cancel('we do not speak of it');
    return { message: { text: ctx.message.text.replace('4111', '[card]') } };
  };
  tools.add = { description: 'Adds', parameters: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'], additionalProperties: false },
    handler: ({ a }) => { host.log('added'); return String(a + 1); } };
  tools.wait = { description: 'Waits', parameters: { type: 'object' },
    handler: (args, { signal }) => new Promise((resolve) => {
      host.log('waiting');
      signal.addEventListener('abort', () => { host.log('aborted'); resolve('late'); });
    }) };`;
const SENTENCES = `middleware.outboundMessage = { stream: true, handler: (ctx) => {
  if (/classified/.test(ctx.message.text)) ctx.cancel('that is classified');
  return { message: { text: ctx.message.text.replace('loafs', 'loaves') } };
} };`;

const readTranscript = async (session: Session) =>
  (await session.messages()).items.map(({ role, text }) => `${role}: ${text}`);

async function countLines(account: string, message: string): Promise<number> {
  await fixture.supervisor.logs.flush();
  const { rows } = await fixture.pool.query(
    `SELECT 1 FROM plugin_logs l JOIN installations i ON i.id = l.installation_id JOIN accounts a ON a.id = i.account_id
      WHERE a.name = $1 AND l.message = $2`,
    [account, message],
  );
  return rows.length;
}

/** Runs a turn streamed or not. */
const run = async (framework: Framework, isStreamed: boolean, turn: TurnRun): Promise<unknown> =>
  isStreamed ? (await collect(framework, turn)).error : failGenerate(framework, turn);

/** Its events are another view of the same stream. */
const { 'langchain events': _events, ...distinct } = frameworks;
/**
 * Each framework with the ways to run a turn: a quick run takes one of them, by turns, beginning with `first`.
 *
 * @param quick names of the frameworks of a quick run; none: all. One is enough where the adapters share the code that is tested
 */
const listWays = (first: boolean, ...quick: readonly string[]) =>
  Object.entries(distinct)
    .map(([name, framework], at) => {
      const one = at % 2 === 0 ? first : !first;
      return { name, framework, ways: amount({ quick: [one], soak: [false, true] }) };
    })
    .filter(({ name }) => amount({ quick: quick.length === 0 || quick.includes(name), soak: true }));

let accounts = 0;
for (const { name, framework, ways } of listWays(true, 'ai-sdk'))
  for (const isStreamed of ways)
    t.test(`${name}, ${isStreamed ? 'streamed' : 'whole'}: each message is judged once`, async (t) => {
      accounts += 1;
      const account = `judge-${accounts}`;
      await fixture.install({ account, slug: account, code: JUDGE });
      const model = await startModelServer(t);
      const turn = { session: await open(account), modelUrl: model.url };
      const say = (...contents: string[]): Said[] =>
        contents.map((content, index) => ({ role: index % 2 ? 'assistant' : 'user', content }));

      model.answers = [reply('Sure.')];
      t.equal(await run(framework, isStreamed, { ...turn, messages: say('yes 4111') }), null);
      t.equal(await run(framework, isStreamed, { ...turn, messages: say('yes 4111', 'Sure.', 'yes 4111') }), null);
      t.equal(await countLines(account, 'inbound'), 2, 'said twice: judged twice');
      const asked = JSON.stringify(model.asked.at(-1)?.body.messages);
      t.match(asked, /card.*card/, 'the model gets both as they were judged');
      t.notMatch(asked, /4111/);

      model.answers = [(response) => response.writeHead(400).end(), reply('Now.')];
      const retried = { ...turn, messages: say('yes 4111', 'Sure.', 'yes 4111', 'Sure.', 'go') };
      t.not(await run(framework, isStreamed, retried), null, 'the model fails');
      t.equal(await run(framework, isStreamed, retried), null);
      t.equal(await countLines(account, 'inbound'), 3, 'a retry: judged once');

      const known = model.asked.length;
      const bad = [...retried.messages, { role: 'assistant' as const, content: 'Now.' }];
      const vetoed = { ...turn, messages: [...bad, ...say('forbidden words')] };
      const veto = await run(framework, isStreamed, vetoed);
      t.ok(veto instanceof VetoError, 'a veto');
      t.match(veto, { plugin: account, reason: 'we do not speak of it' });
      t.equal(model.asked.length, known, 'the model was not asked');
      const other = { ...turn, messages: [...vetoed.messages, ...say('other words')] };
      t.equal(await run(framework, isStreamed, other), null, 'then other words');
      t.equal(await countLines(account, 'inbound'), 5);
      t.notMatch(
        JSON.stringify(model.asked.at(-1)?.body.messages),
        /forbidden/,
        'the model does not see what was vetoed',
      );

      const stateless = connect({ url, token: await fixture.issuer.issue(account) }).open(turn.session.id);
      const next = [...bad, ...say('other words', 'Now.', 'last')];
      t.equal(await run(framework, isStreamed, { ...turn, session: stateless, messages: next }), null);
      t.equal(await countLines(account, 'inbound'), 6, 'a stateless handler: only the new message is judged');
      const twice = { ...turn, session: await open(account), messages: say('ping'), options: { messageId: 'm1' } };
      t.equal(await run(framework, isStreamed, twice), null);
      await run(framework, isStreamed, twice);
      t.equal(await countLines(account, 'inbound'), 7, 'the same id: judged once');
      t.same(await readTranscript(turn.session), [
        'user: yes [card]',
        'assistant: Sure.',
        'user: yes [card]',
        'assistant: Sure.',
        'user: go',
        'assistant: Now.',
        `notice: ${account} cancelled the operation: we do not speak of it`,
        'user: other words',
        'assistant: Now.',
        'user: last',
        'assistant: Now.',
      ]);
    });

for (const { name, framework, ways } of listWays(true, 'langchain'))
  for (const isStreamed of ways)
    t.test(`${name}, ${isStreamed ? 'streamed' : 'whole'}: two processes answer a conversation by turns`, async (t) => {
      accounts += 1;
      const account = `pair-${accounts}`;
      await fixture.install({ account, slug: account, code: JUDGE });
      const model = await startModelServer(t);
      model.answers = [reply('Sure.')];
      const first = await open(account);
      const sessions = [first, connect({ url, token: await fixture.issuer.issue(account) }).open(first.id)];
      const messages: Said[] = [];
      const transcript: string[] = [];
      // The same words come twice.
      for (const [index, content] of ['one', 'two', 'one', 'four', 'five'].entries()) {
        messages.push({ role: 'user', content });
        const session = sessions[index % 2] as Session;
        t.equal(await run(framework, isStreamed, { session, modelUrl: model.url, messages }), null);
        messages.push({ role: 'assistant', content: 'Sure.' });
        transcript.push(`user: ${content}`, 'assistant: Sure.');
      }
      t.equal(await countLines(account, 'inbound'), 5, 'each message is judged once');
      t.same(await readTranscript(first), transcript);
    });

for (const { name, framework, ways } of listWays(false, 'openai-agents'))
  for (const isStreamed of ways)
    t.test(`${name}, ${isStreamed ? 'streamed' : 'whole'}: tools`, async (t) => {
      accounts += 1;
      const account = `tools-${accounts}`;
      await fixture.install({ account, slug: account, code: JUDGE });
      const model = await startModelServer(t);
      const turn = { session: await open(account), modelUrl: model.url };
      model.answers = [callThenSay(`${account}__add`, { a: 1 }, 'c1', 'Two.')];
      t.equal(await run(framework, isStreamed, turn), null);
      t.same(await readTranscript(turn.session), ['user: hello', 'tool: 2', 'assistant: Two.']);
      t.match((await turn.session.turns()).items, [{ state: 'ended' }]);

      model.answers = [callThenSay(`${account}__add`, { a: 1, b: 2 }, 'c1', 'Oh.')];
      t.equal(await run(framework, isStreamed, { ...turn, text: 'again' }), null);
      t.match(JSON.stringify(model.asked.at(-1)?.body.messages), /“?b\b/, 'the model sees which property is too many');
      t.equal(await countLines(account, 'added'), 1);

      const stop = new AbortController();
      model.answers = [callThenSay(`${account}__wait`, {}, 'c2', 'Never.')];
      const running = run(framework, isStreamed, { ...turn, text: 'wait', signal: stop.signal });
      await eventually(async () => (await countLines(account, 'waiting')) > 0);
      stop.abort(new Error('the user left'));
      await running;
      await eventually(async () => (await countLines(account, 'aborted')) > 0);
      t.pass('the handler was aborted');
    });

for (const [name, framework] of listCases(frameworks, 'openai-agents'))
  t.test(`${name}: a guard that streams lets each sentence out when it is judged`, async (t) => {
    accounts += 1;
    const account = `sentences-${accounts}`;
    await fixture.install({ account, slug: account, code: SENTENCES });
    const server = await startModelServer(t);
    const seen = Promise.withResolvers<void>();
    const finish = async (response: ServerResponse, rest: string) => {
      stream(response).write(openAiStart + openAiDelta('Two lo') + openAiDelta('afs. The') + openAiDelta(' rest'));
      await seen.promise;
      response.end(openAiEvents([rest]));
    };
    server.answers = [
      (response) => void finish(response, ' is fine.'),
      (response) => void finish(response, ' is classified.'),
    ];
    const session = await open(account);
    let text = '';
    for await (const event of framework.stream({ session, modelUrl: server.url })) {
      text += print(event);
      if (text.includes('Two loaves.')) seen.resolve();
    }
    t.notMatch(text, /loafs/);
    t.match(text, /is fine\./);
    const { text: shown, error } = await collect(framework, { session, modelUrl: server.url, text: 'more' });
    t.match(error, { name: 'VetoError', plugin: account });
    t.match(shown, /Two loaves\./);
    t.notMatch(shown, /classified\.|The rest/);
  });

for (const [name, framework] of listCases(frameworks))
  t.test(`${name}: a text that breaks off after it was shown precedes the answers that follow`, async (t) => {
    accounts += 1;
    const account = `fragments-${accounts}`;
    // The end of a text that broke off is an empty piece, which can be judged the third time only.
    const code = `${SENTENCES.replace('(ctx) => {', "(ctx) => { if (ctx.message.text === '' && ends++ < 2) throw new Error('away');")}
      let ends = 0;`;
    await fixture.install({ account, slug: account, code, required: true });
    const server = await startModelServer(t);
    const breakOff = (response: ServerResponse) =>
      void stream(response).write(openAiStart + openAiDelta('Two loafs. ') + openAiDelta('The rest'), () =>
        response.destroy(),
      );
    server.answers = [breakOff, openAi('Three loafs. ', 'All of it.'), breakOff, openAi('It goes on.')];
    const session = await open(account);
    const ask = (...messages: Said[]) => collect(framework, { session, modelUrl: server.url, messages });
    const hello = { role: 'user', content: 'hello' } as const;
    t.ok((await ask(hello)).error);
    t.match((await ask(hello)).error, { name: 'VetoError', plugin: account, isFinal: false });
    t.equal((await ask(hello)).error, null);
    const transcript = ['user: hello', 'assistant: Two loaves. ', 'assistant: Three loaves. All of it.'];
    const readMessages = async () => (await readTranscript(session)).filter((line) => !line.startsWith('notice'));
    t.same(await readMessages(), transcript);
    const first = [hello, { role: 'assistant', content: 'Three loaves. All of it.' }] as const;
    t.ok((await ask(...first, { role: 'user', content: 'more' })).error);
    const next = [...first, { role: 'user', content: 'more' }, { role: 'user', content: 'and now?' }] as const;
    t.match((await ask(...next)).error, { name: 'VetoError', isFinal: false });
    const states = async () => (await session.turns()).items.map(({ state }) => state);
    t.same(await states(), ['ended', 'open'], 'a turn that could not be ended stays open');
    t.equal((await ask(...next)).error, null);
    t.same(await states(), ['ended', 'ended', 'ended']);
    t.same(await readMessages(), [
      ...transcript,
      ...['user: more', 'assistant: Two loaves. ', 'user: and now?', 'assistant: It goes on.'],
    ]);
  });

for (const [name, framework] of listCases(frameworks, 'ai-sdk'))
  t.test(`${name}: a stream that fails after text that a new plugin vetoes ends with the veto`, async (t) => {
    accounts += 1;
    const account = `new-guard-${accounts}`;
    const server = await startModelServer(t);
    const shown = Promise.withResolvers<void>();
    server.answers = [
      async (response) => {
        stream(response).write(openAiStart + openAiDelta('It is classified. '));
        await shown.promise;
        await fixture.install({ account, slug: account, code: GUARD });
        response.destroy();
      },
    ];
    const session = await open(account);
    const readAll = async () => {
      for await (const event of framework.stream({ session, modelUrl: server.url }))
        if (print(event).includes('It is classified. ')) shown.resolve();
    };
    await t.rejects(readAll(), { name: 'VetoError', plugin: account, reason: 'that is classified' });
  });

/** Opens a session whose model breaks off its first answer after a sentence. Each `ask` asks it the same. */
async function startBrokenOff(t: Test, account: string, fetch?: typeof globalThis.fetch) {
  const [framework] = Object.values(frameworks);
  if (framework === undefined) throw new Error('there is no framework');
  await fixture.install({ account, slug: account, code: SENTENCES });
  const server = await startModelServer(t);
  const breakOff = (response: ServerResponse) =>
    void stream(response).write(openAiStart + openAiDelta('Two loafs. '), () => response.destroy());
  server.answers = [breakOff, openAi('Three loafs.')];
  const session = await open(account, fetch);
  const ask = () =>
    collect(framework, { session, modelUrl: server.url, messages: [{ role: 'user', content: 'hello' }] });
  return { session, ask };
}

soakTest(t, 'a piece that arrives while a text that broke off is ended belongs to that text', async (t) => {
  let late: ((path: string, init?: RequestInit) => Promise<unknown>) | null = null;
  const fetchAndAdd: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (late === null || init?.method !== 'GET' || !/\/turns\/[^/]+$/.test(String(input))) return response;
    const add = late;
    late = null;
    const looked = await response.clone().json();
    await add(String(input), { ...init, body: JSON.stringify({ ...looked.outputs[0], text: 'Late. ', piece: 1 }) });
    return response;
  };
  const { session, ask } = await startBrokenOff(t, 'late-piece', fetchAndAdd);
  t.ok((await ask()).error);
  late = async (path, init) => {
    const { id, text, piece } = JSON.parse(String(init?.body));
    const body = JSON.stringify({ id, text, piece });
    const headers = { ...(init?.headers as Record<string, string>), 'content-type': 'application/json' };
    const added = await fetch(`${path}/output`, { method: 'POST', headers, body });
    t.equal(added.status, 200);
  };
  t.equal((await ask()).error, null);
  t.equal(late, null, 'the piece came after the look');
  t.same(await readTranscript(session), ['user: hello', 'assistant: Two loaves. Late. ', 'assistant: Three loaves.']);
});

soakTest(
  t,
  'a text that broke off and lost its id to another message does not keep its turn from ending',
  async (t) => {
    const { session, ask } = await startBrokenOff(t, 'lost-id');
    t.ok((await ask()).error);
    const [left] = (await session.turns()).items;
    const [output] = (await session.turn(left?.id ?? '').look()).outputs;
    t.match(output, { state: 'open', pieces: 1 });
    await session.append([{ id: output?.id ?? '', role: 'assistant', text: 'Other.' }]);
    t.equal((await ask()).error, null);
    t.match((await session.turns()).items, [{ id: left?.id, state: 'ended' }]);
    t.same((await readTranscript(session)).sort(), [
      'assistant: Other.',
      'assistant: Three loaves.',
      'assistant: Two loaves. ',
      'user: hello',
    ]);
  },
);

await fixture.install({
  account: 'baker',
  slug: 'oven-guard',
  code: `
    middleware.toolCall = ({ call, cancel }) => {
      if (call.arguments.degrees > 250) cancel('too hot');
      if (call.arguments.degrees === 200) return { call: { arguments: { degrees: 210 } } };
    };
    middleware.toolResult = ({ result }) => {
      return { result: { content: [{ type: 'text', text: result.content[0].text.replace('4711', '[code]') }] } };
    };`,
});

for (const { name, framework, ways } of listWays(true))
  for (const isStreamed of ways)
    t.test(`${name}${isStreamed ? ', streamed' : ''}: the framework's own tools pass the plugins`, async (t) => {
      const token = await fixture.issuer.issue('baker');
      const session = await connect({ url, token }).start({ agentId: 'a', strict: true });
      const model = await startModelServer(t);
      const oven = (degrees: number, id: string): ScriptedCall => ({ name: 'oven', args: { degrees }, id });
      const script = (first: readonly ScriptedCall[], text: string) => (response: ServerResponse, asked: Asked) => {
        if (asked.body.messages.at(-1).role === 'tool') reply(text)(response, asked);
        else sendCalls(response, asked, first);
      };
      const heated: number[] = [];
      const heat = ({ degrees }: { degrees: number }): string => {
        heated.push(degrees);
        return `code 4711 at ${degrees}`;
      };
      const readResults = () =>
        Object.fromEntries(
          model.asked
            .at(-1)
            ?.body.messages.filter(({ role }: { role: string }) => role === 'tool')
            .map(({ tool_call_id, content }: { tool_call_id: string; content: unknown }) => [
              tool_call_id,
              JSON.stringify(content),
            ]) ?? [],
        );
      model.answers = [script([oven(300, 'c1'), oven(200, 'c2')], 'Warm.')];
      let seen = '';
      const onResult = (result: unknown): void => {
        seen += print(result);
      };
      const turn = { session, modelUrl: model.url, oven: heat, onResult };
      /** Returns the error of a turn, whose events and result are added to `seen`. */
      const heatOnce = async (text: string): Promise<unknown> => {
        if (!isStreamed) return failGenerate(framework, { ...turn, text });
        const { text: events, error } = await collect(framework, { ...turn, text });
        seen += events;
        return error;
      };
      t.equal(await heatOnce('Heat it'), null);
      t.same(heated, [210], 'a refused call does not run, and a changed one runs as it was changed');
      t.match(
        readResults(),
        { c1: /too hot/, c2: /code \[code\] at 210/ },
        'the model reads why, and the judged result',
      );
      model.answers = [script([oven(400, 'c3')], 'It stays cold.')];
      t.equal(await heatOnce('Hotter'), null);
      t.same(heated, [210]);
      t.match(seen, /210/);
      t.notMatch(seen, /degrees\W+[234]00/, 'no event and no result has arguments as they were before');
      t.match(readResults(), { c3: /too hot/ }, 'where all are refused, the model is asked again');
      const kept = await readTranscript(session);
      t.match(
        kept.filter((line) => !line.startsWith('notice')),
        [
          'user: Heat it',
          /^tool: .*too hot/,
          'tool: code [code] at 210',
          'assistant: Warm.',
          'user: Hotter',
          /^tool: .*too hot/,
          'assistant: It stays cold.',
        ],
      );
      t.same((await session.turns({ state: 'open' })).items, [], 'and no turn is left open');
    });

for (const { name, framework, ways } of listWays(false, 'langchain'))
  for (const isStreamed of ways)
    t.test(
      `${name}${isStreamed ? ', streamed' : ''}: the session's tools that the runtime performs run once`,
      async (t) => {
        const heated: unknown[] = [];
        const heat = (args: unknown): string => {
          heated.push(args);
          return `code 4711 at ${(args as { degrees: number }).degrees}`;
        };
        const tools = [
          { name: 'oven', description: 'Heats', parameters: OVEN, run: heat },
          { name: 'timer', description: 'Waits' },
        ];
        const session = await connect({ url, token: await fixture.issuer.issue('baker') }).start({
          agentId: 'a',
          tools,
        });
        const model = await startModelServer(t);
        for (const [degrees, result] of [
          [200, 'code [code] at 210'],
          [300, 'too hot'],
        ] as const) {
          model.answers = [callThenSay('oven', { degrees }, `c${degrees}`, 'Done.')];
          t.equal(await run(framework, isStreamed, { session, modelUrl: model.url, text: `${degrees}` }), null);
          t.match(JSON.stringify(model.asked.at(-1)?.body.messages), result, 'the model reads the judged result');
        }
        t.same(heated, [{ degrees: 210 }], 'with the judged arguments; a refused call does not run');
        const offered = model.asked
          .at(-1)
          ?.body.tools.map(({ function: { name } }: { function: { name: string } }) => name);
        t.same(offered, ['oven'], 'a tool without a function cannot run here');
        t.match((await session.turns()).items, [{ state: 'ended' }, { state: 'ended' }]);
      },
    );

for (const { name, framework, ways } of amount({ quick: [], soak: listWays(false) }))
  for (const isStreamed of ways)
    t.test(
      `${name}${isStreamed ? ', streamed' : ''}: the app's tool in place of the session's is judged`,
      async (t) => {
        const client = connect({ url, token: await fixture.issuer.issue('baker') });
        const heated: unknown[] = [];
        const oven = ({ degrees }: { degrees: number }): string => {
          heated.push(degrees);
          return 'code 4711';
        };
        const tools = [
          { name: 'oven', description: 'Heats', parameters: OVEN, run: () => t.fail('the app replaced it') },
        ];
        const session = await client.start({ agentId: 'a', tools });
        const model = await startModelServer(t);
        for (const [degrees, result] of [
          [200, 'code [code]'],
          [300, 'too hot'],
        ] as const) {
          model.answers = [callThenSay('oven', { degrees }, `c${degrees}`, 'Done.')];
          t.equal(await run(framework, isStreamed, { session, modelUrl: model.url, text: `${degrees}`, oven }), null);
          t.match(JSON.stringify(model.asked.at(-1)?.body.messages), result, 'the model reads the judged result');
        }
        t.same(heated, [210], 'with the judged arguments; a refused call does not run');
      },
    );

// Results of the OpenAI Agents SDK have no pictures in requests of this form.
for (const { name, framework, ways } of amount({ quick: [], soak: listWays(true) }))
  for (const isStreamed of ways)
    if (name !== 'openai-agents')
      t.test(`${name}${isStreamed ? ', streamed' : ''}: the model sees a picture of the runtime's tool`, async (t) => {
        const data = Buffer.from('a picture').toString('base64');
        const photo = { content: [{ type: 'image' as const, data, mimeType: 'image/png' }], isError: false };
        const client = connect({ url, token: await fixture.issuer.issue('plain') });
        const tools = [{ name: 'photo', description: 'Shows the oven', run: async () => photo }];
        const session = await client.start({ agentId: 'a', tools });
        const model = await startModelServer(t);
        model.answers = [callThenSay('photo', {}, 'c1', 'Brown.')];
        t.equal(await run(framework, isStreamed, { session, modelUrl: model.url }), null);
        const seen = JSON.stringify(model.asked.at(-1)?.body.messages);
        t.match(seen, data);
        t.notMatch(seen, 'mimeType', 'not the text of the transcript');
      });

soakTest(t, 'ai-sdk: the model sees a picture of the runtime’s tool in requests that lack the tool', async (t) => {
  const data = Buffer.from('a picture').toString('base64');
  const photo = { content: [{ type: 'image' as const, data, mimeType: 'image/png' }], isError: false };
  const client = connect({ url, token: await fixture.issuer.issue('plain') });
  const tools = [{ name: 'photo', description: 'Shows the oven', run: async () => photo }];
  const session = await client.start({ agentId: 'a', tools });
  const model = await startModelServer(t);
  const checkSeen = (request: string): void => {
    const { messages, tools } = model.asked.at(-1)?.body ?? {};
    t.equal(tools, undefined);
    t.match(JSON.stringify(messages), data, request);
    t.notMatch(JSON.stringify(messages), 'mimeType', request);
  };
  const { messages, ...settings } = await askAiSdk({ session, modelUrl: model.url });
  model.answers = [callThenSay('photo', {}, 'c1', 'Brown.')];
  const first = await generateText({
    ...settings,
    messages: messages as ModelMessage[],
    prepareStep: ({ stepNumber }) => (stepNumber === 0 ? {} : { activeTools: [] }),
  });
  checkSeen('in the same turn');
  model.answers = [reply('Yes.')];
  const later = [...messages, ...first.responseMessages, { role: 'user', content: 'Sure?' }] as ModelMessage[];
  const { tools: _unused, ...withoutTools } = settings;
  await generateText({ ...withoutTools, messages: later });
  checkSeen('in a later turn');
});

for (const { name, framework, ways } of listWays(false, 'ai-sdk'))
  for (const isStreamed of ways)
    t.test(
      `${name}${isStreamed ? ', streamed' : ''}: a model that numbers the calls of each answer from zero`,
      async (t) => {
        const token = await fixture.issuer.issue('baker');
        const session = await connect({ url, token }).start({ agentId: 'a', strict: true });
        const model = await startModelServer(t);
        const readResults = ({ body }: Asked): string[] =>
          body.messages
            .filter(({ role }: { role: string }) => role === 'tool')
            .map(({ content }: { content: unknown }) => JSON.stringify(content));
        model.answers = [
          (response, asked) => {
            const degrees = [100, 120][readResults(asked).length];
            if (degrees === undefined) reply('Warm.')(response, asked);
            else sendCalls(response, asked, [{ name: 'oven', args: { degrees }, id: 'call_0' }]);
          },
        ];
        const turn = {
          session,
          modelUrl: model.url,
          oven: ({ degrees }: { degrees: number }) => `code 4711 at ${degrees}`,
        };
        t.equal(await run(framework, isStreamed, turn), null);
        const results = readResults(model.asked.at(-1) as Asked);
        t.match(results, [/\[code\] at 100/, /\[code\] at 120/], 'each result is judged, and none replaces another');
        t.same(await readTranscript(session), [
          'user: hello',
          'tool: code [code] at 100',
          'tool: code [code] at 120',
          'assistant: Warm.',
        ]);
      },
    );

for (const { name, framework, ways } of amount({ quick: [], soak: listWays(true) }))
  for (const isStreamed of ways)
    t.test(
      `${name}${isStreamed ? ', streamed' : ''}: another process continues a turn whose calls are numbered`,
      async (t) => {
        accounts += 1;
        const account = `numbered-${accounts}`;
        await fixture.install({ account, slug: account, code: JUDGE });
        const token = await fixture.issuer.issue(account);
        const client = () => connect({ url, token, runtime: 'numbering' });
        const model = await startModelServer(t);
        const call = (tool: string, args: object) => (response: ServerResponse, asked: Asked) =>
          sendCalls(response, asked, [{ name: tool, args, id: 'call_0' }]);
        const fail = (response: ServerResponse) => void response.writeHead(400).end();
        const heated: number[] = [];
        const oven = ({ degrees }: { degrees: number }): string => {
          heated.push(degrees);
          return `warm at ${degrees}`;
        };
        const add = `${account}__add`;
        const options = { messageId: 'm1' };
        const turnOf = (session: Session) => ({ session, modelUrl: model.url, oven, options });
        /** Runs a turn that fails after a call, and again in another process. Returns the transcript and what the model read last. */
        const runTwice = async (first: ReturnType<typeof call>, second: ReturnType<typeof call>) => {
          const session = await client().start({ agentId: 'a' });
          model.answers = [first, fail];
          t.not(await run(framework, isStreamed, turnOf(session)), null, 'the model fails');
          model.answers = [second, reply('Done.')];
          t.equal(await run(framework, isStreamed, turnOf(client().open(session.id))), null);
          t.match((await session.turns()).items, [{ state: 'ended' }], 'in the same turn');
          return [...(await readTranscript(session)), JSON.stringify(model.asked.at(-1)?.body.messages)];
        };
        const warm = (degrees: number) => `tool: warm at ${degrees}`;
        const own = await runTwice(call('oven', { degrees: 100 }), call('oven', { degrees: 120 }));
        t.match(own, ['user: hello', warm(100), warm(120), 'assistant: Done.', /warm at 120/]);
        t.same(heated, [100, 120]);
        const again = await runTwice(call('oven', { degrees: 140 }), call('oven', { degrees: 140 }));
        t.match(again, ['user: hello', warm(140), 'assistant: Done.', /warm at 140/]);
        t.same(heated, [100, 120, 140], 'a call that has its result does not run again');
        const plugins = await runTwice(call(add, { a: 1 }), call(add, { a: 5 }));
        t.match(plugins, ['user: hello', 'tool: 2', 'tool: 6', 'assistant: Done.', /"6"/]);
        const mixed = await runTwice(call('oven', { degrees: 160 }), call(add, { a: 6 }));
        t.match(mixed, ['user: hello', warm(160), 'tool: 7', 'assistant: Done.', /"7"/], 'the result of its own call');

        const stopped = new AbortController();
        const session = await client().start({ agentId: 'a' });
        const stopInside = ({ degrees }: { degrees: number }): string => {
          stopped.abort(new Error('the process ends'));
          return oven({ degrees });
        };
        model.answers = [call('oven', { degrees: 180 })];
        await run(framework, isStreamed, { ...turnOf(session), oven: stopInside, signal: stopped.signal });
        model.answers = [call('oven', { degrees: 180 }), reply('I look first.')];
        t.equal(await run(framework, isStreamed, turnOf(client().open(session.id))), null);
        t.same(heated.at(-1), 180);
        t.equal(heated.filter((degrees) => degrees === 180).length, 1, 'a call without a result may have run');
        t.match(JSON.stringify(model.asked.at(-1)?.body.messages), /The tool may have run/, 'the model reads that');
        t.match(await readTranscript(session), ['user: hello', /may have run/, 'assistant: I look first.']);
      },
    );

soakTest(t, 'ai-sdk: a call of a plugin’s tool that gets another id has it from its first part on', async (t) => {
  const account = 'renamed';
  await fixture.install({ account, slug: account, code: JUDGE });
  const token = await fixture.issuer.issue(account);
  const session = await connect({ url, token, runtime: 'renaming' }).start({ agentId: 'a' });
  const model = await startModelServer(t);
  const call = (name: string, args: object) => (response: ServerResponse, asked: Asked) =>
    sendCalls(response, asked, [{ name, args, id: 'call_0' }]);
  const turn = { modelUrl: model.url, oven: () => 'warm', options: { messageId: 'm1' } };
  const aiSdkAgent = distinct['ai-sdk'] as Framework;
  model.answers = [call('oven', { degrees: 100 }), (response) => void response.writeHead(400).end()];
  t.ok(
    (await collect(aiSdkAgent, { ...turn, session })).error,
    'the model fails after a call of the framework’s own tool',
  );
  model.answers = [call(`${account}__add`, { a: 1 }), reply('Done.')];
  const ids: string[] = [];
  const again = connect({ url, token, runtime: 'renaming' }).open(session.id);
  for await (const part of aiSdkAgent.stream({ ...turn, session: again })) {
    const { type, id, toolCallId = id } = part as { type: string; id?: string; toolCallId?: string };
    if (/^tool-(input-|call$|result$)/.test(type)) ids.push(`${toolCallId}`);
  }
  t.ok(ids.length >= 4, 'input, call and result');
  t.same([...new Set(ids)], ['call_0-2']);
});

/** Answers a question whether a call may run, in another process perhaps. Returns the text of the turn. */
type Decide = (again: TurnRun, isApproved: boolean) => Promise<string>;
/** Runs a streamed turn until its call needs an approval. */
const suspensions: Readonly<Record<string, (run: TurnRun) => Promise<Decide>>> = {
  async 'ai-sdk'(run) {
    const toolApproval = { oven: 'user-approval' } as never;
    const asked = await askAiSdk(run);
    const first = streamText({ ...asked, toolApproval });
    await first.consumeStream();
    const { messages } = await first.response;
    const parts = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : [...content]));
    const request = parts.find((part) => part.type === 'tool-approval-request');
    return async (again, approved) => {
      const approvalId = request?.approvalId ?? '';
      const approval = { type: 'tool-approval-response' as const, approvalId, approved, reason: 'not today' };
      const all = [...asked.messages, ...messages, { role: 'tool' as const, content: [approval] }];
      return streamText({ ...(await askAiSdk(again)), toolApproval, messages: all }).text;
    };
  },
  async langchain(run) {
    const bind = (one: TurnRun) => openChatModel(one).bindTools?.(ovenOfLangchain(one));
    const { messages } = toMessages(run);
    let said: AIMessageChunk | undefined;
    for await (const chunk of (await bind(run)?.stream(messages)) ?? []) said = said?.concat(chunk) ?? chunk;
    const [call] = said?.tool_calls ?? [];
    return async (again, isApproved) => {
      const [oven] = ovenOfLangchain(again);
      const refusal = new ToolMessage({ content: 'not today', tool_call_id: call?.id ?? '', status: 'error' });
      const result = isApproved ? await oven?.invoke(call as never) : refusal;
      let text = '';
      for await (const chunk of (await bind(again)?.stream([...messages, said, result] as never)) ?? [])
        text += chunk.text;
      return text;
    };
  },
  async 'openai-agents'(run) {
    const { runner, agent } = await openAgents(run);
    const first = await runner.run(agent, toItems(run), { stream: true });
    await first.completed;
    return async (again, isApproved) => {
      const opened = await openAgents(again);
      const state = await RunState.fromString(opened.agent, first.state.toString());
      for (const pending of state.getInterruptions())
        if (isApproved) state.approve(pending);
        else state.reject(pending);
      const next = await opened.runner.run(opened.agent, state, { stream: true });
      await next.completed;
      return next.finalOutput ?? '';
    };
  },
};
// The adapters' test of refusals has those of a person, too.
for (const [name, suspend] of listCases(suspensions, 'ai-sdk'))
  for (const isApproved of amount({ quick: [true], soak: [true, false] }))
    t.test(`${name}: a call that a person ${isApproved ? 'approves' : 'refuses'} in another process`, async (t) => {
      const token = await fixture.issuer.issue('baker');
      const connectAgain = () => connect({ url, token, runtime: `approval-${name}` });
      const session = await connectAgain().start({ agentId: 'a', strict: true });
      const model = await startModelServer(t);
      model.answers = [callThenSay('oven', { degrees: 200 }, 'c1', 'I see.')];
      const heated: number[] = [];
      const oven = ({ degrees }: { degrees: number }): string => {
        heated.push(degrees);
        return `code 4711 at ${degrees}`;
      };
      const turn = { session, modelUrl: model.url, text: 'Heat it', oven, needsApproval: true };
      const decide = await suspend(turn);
      t.same(heated, []);
      t.match((await session.turns()).items, [{ state: 'open' }], 'the turn waits');
      const again = { ...turn, session: connectAgain().open(session.id) };
      t.equal(await decide(again, isApproved), 'I see.');
      t.same(heated, isApproved ? [210] : []);
      const result = isApproved ? /code \[code\] at 210/ : /not today|not approved/;
      t.match(JSON.stringify(model.asked.at(-1)?.body.messages), result);
      t.match(await readTranscript(session), ['user: Heat it', result, 'assistant: I see.']);
      t.match((await session.turns()).items, [{ state: 'ended' }], 'the same turn has ended');
    });

const BRAIN = `providers.brain = {
  models: [{ id: 'm', name: 'M' }],
  async *chat({ messages, tools }) {
    const last = messages.at(-1);
    const answer = { model: 'm', usage: { inputTokens: 1, outputTokens: 1 } };
    if (last.role !== 'tool') {
      const { name } = tools[0];
      yield { toolCall: { index: 0, id: 'c1', name, argumentsText: '{"degrees":' } };
      yield { toolCall: { index: 0, argumentsText: '180}' } };
      return { ...answer, text: '', toolCalls: [{ id: 'c1', name, arguments: { degrees: 180 } }] };
    }
    const words = ['Two ', 'loa', 'fs: ', last.text];
    for (const text of words) yield { text };
    return { ...answer, text: words.join('') };
  },
};`;
for (const { name, framework, ways } of listWays(true, 'openai-agents'))
  for (const isStreamed of ways)
    t.test(`${name}${isStreamed ? ', streamed' : ''}: the model of a plugin calls tools and is judged`, async (t) => {
      accounts += 1;
      const account = `brain-${accounts}`;
      await fixture.install({ account, slug: account, code: BRAIN + GUARD });
      const session = await open(account);
      const turn = {
        session,
        modelUrl: `${url}/v1`,
        model: `${account}__brain/m`,
        apiKey: await fixture.issuer.issue(account),
        oven: ({ degrees }: { degrees: number }) => `warm at ${degrees}`,
      };
      if (isStreamed) {
        const { text, error } = await collect(framework, turn);
        t.equal(error, null);
        t.match(text, /Two loaves: warm at 180/);
        t.notMatch(text, /loafs|fs: /);
      } else t.equal(await framework.generate(turn), 'Two loaves: warm at 180');
      t.same(await readTranscript(session), ['user: hello', 'tool: warm at 180', 'assistant: Two loaves: warm at 180']);
    });

for (const [name, framework] of listCases(frameworks, 'langchain'))
  t.test(`${name}: a stream that its reader leaves: the transcript has what was shown`, async (t) => {
    const slow = await startSlowModel(t, 'is best.');
    const session = await open('plain');
    for await (const event of framework.stream({ session, modelUrl: slow.url })) {
      const shown = print(event);
      // A raw event comes before that of the text.
      if (shown.includes('Wholemeal ') && !/"type":"(raw|model)"/.test(shown)) break;
    }
    const model = await startModelServer(t);
    model.answers = [reply('It goes on.')];
    const messages = [
      { role: 'user' as const, content: 'hello' },
      { role: 'assistant' as const, content: 'Wholemeal ' },
      { role: 'user' as const, content: 'and now?' },
    ];
    t.equal(await framework.generate({ session, modelUrl: model.url, messages }), 'It goes on.');
    slow.finish();
    t.same(await readTranscript(session), [
      'user: hello',
      'assistant: Wholemeal ',
      'user: and now?',
      'assistant: It goes on.',
    ]);
  });

t.test('ai-sdk: a stream that is cancelled closes the request to the model', async (t) => {
  const server = await startModelServer(t);
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  server.answers = [
    (response) => {
      response.once('close', resolve);
      stream(response).write(openAiStart + openAiDelta('Wholemeal '));
    },
  ];
  const session = await open('plain');
  const { model } = await askAiSdk({ session, modelUrl: server.url });
  const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'hello' }] }];
  const reader = (await model.doStream({ prompt })).stream.getReader();
  for (let next = await reader.read(); next.value?.type !== 'text-delta'; ) next = await reader.read();
  await reader.cancel();
  await closed;
  t.same(await readTranscript(session), ['user: hello', 'assistant: Wholemeal ']);
});

t.test(
  'ai-sdk: the transcript has the text of a second answer, after refused calls, whose reader leaves',
  async (t) => {
    const server = await startModelServer(t);
    server.answers = [
      (response, asked) => sendCalls(response, asked, [{ name: 'oven', args: { degrees: 300 }, id: 'c1' }]),
      (response) => void stream(response).write(openAiStart + openAiDelta('It stays ')),
    ];
    const session = await open('baker');
    const { model } = await askAiSdk({ session, modelUrl: server.url });
    const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'Heat it' }] }];
    const tools = [{ type: 'function' as const, name: 'oven', inputSchema: OVEN }];
    const reader = (await model.doStream({ prompt, tools })).stream.getReader();
    for (let next = await reader.read(); next.value?.type !== 'text-delta'; ) next = await reader.read();
    await reader.cancel();
    t.match(await readTranscript(session), ['user: Heat it', /too hot/, /too hot/, 'assistant: It stays ']);
  },
);

/** What the AI SDK asks a model that calls `oven`, which plugins refuse. */
const HEAT_IT = {
  prompt: [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'Heat it' }] }],
  tools: [{ type: 'function' as const, name: 'oven', inputSchema: OVEN }],
};
const overheat = (response: ServerResponse, asked: Asked): void =>
  sendCalls(response, asked, [{ name: 'oven', args: { degrees: 300 }, id: 'c1' }]);

async function readToEnd(reader: ReadableStreamDefaultReader<unknown>): Promise<void> {
  while (!(await reader.read()).done);
}

t.test('ai-sdk: a stream that is cancelled while the model is asked again closes that request', async (t) => {
  const server = await startModelServer(t);
  const asked = Promise.withResolvers<ServerResponse>();
  server.answers = [overheat, (response) => asked.resolve(response), reply('It stays cold.')];
  const session = await open('baker');
  const { model } = await askAiSdk({ session, modelUrl: server.url });
  const reader = (await model.doStream(HEAT_IT)).stream.getReader();
  const reading = readToEnd(reader);
  // The model sends not even headers.
  const closed = once(await asked.promise, 'close');
  await Promise.all([closed, reader.cancel(), reading]);
  await model.doGenerate(HEAT_IT);
  t.match((await session.turns()).items, [{ state: 'ended' }], 'the same message can be asked again');
  t.match(await readTranscript(session), ['user: Heat it', /too hot/, /too hot/, 'assistant: It stays cold.']);
});

t.test('ai-sdk: a stream that is cancelled while plugins prepare the second request does not make it', async (t) => {
  const server = await startModelServer(t);
  server.answers = [overheat, reply('It stays cold.')];
  const preparing = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  const holdSecondPrompt: typeof fetch = async (input, init) => {
    if (String(input).endsWith('/prompt') && server.asked.length > 0) {
      preparing.resolve();
      await held.promise;
    }
    return fetch(input, init);
  };
  const session = await open('baker', holdSecondPrompt);
  const { model } = await askAiSdk({ session, modelUrl: server.url });
  const reader = (await model.doStream(HEAT_IT)).stream.getReader();
  const reading = readToEnd(reader);
  await preparing.promise;
  const cancelled = reader.cancel();
  held.resolve();
  await Promise.all([cancelled, reading]);
  t.equal(server.asked.length, 1);
  await model.doGenerate(HEAT_IT);
  t.match((await session.turns()).items, [{ state: 'ended' }], 'the same message can be asked again');
  t.match(await readTranscript(session), ['user: Heat it', /too hot/, /too hot/, 'assistant: It stays cold.']);
});

t.test(
  'ai-sdk: a cancelled stream closes the second request of a model that ignores aborts at its headers',
  async (t) => {
    const server = await startModelServer(t);
    const asked = Promise.withResolvers<ServerResponse>();
    server.answers = [overheat, (response) => asked.resolve(response)];
    const provider = createOpenAICompatible({
      name: 'local',
      baseURL: server.url,
      fetch: (input, init) => fetch(input, { ...init, signal: null }),
    });
    const middleware = aiSdk.bulkhead(await open('baker'));
    const model = wrapLanguageModel({ model: provider('m'), middleware });
    const reader = (await model.doStream(HEAT_IT)).stream.getReader();
    const reading = readToEnd(reader);
    const response = await asked.promise;
    const closed = once(response, 'close');
    const cancelled = reader.cancel();
    stream(response).flushHeaders();
    await Promise.all([closed, cancelled, reading]);
  },
);

/** Answers that break off after a word. The second one only for a framework that misses the reason to finish. */
const breakOff = (end: string) => (response: ServerResponse) => {
  stream(response).end(openAiStart + openAiDelta('Wholemeal ') + end);
};
const failInside = breakOff('data: {"error":{"message":"overloaded","type":"server_error"}}\n\ndata: [DONE]\n\n');
for (const [name, framework, answer] of [
  ...listCases(distinct).map(([name, framework]) => [name, framework, failInside] as const),
  ['ai-sdk, without a reason to finish', distinct['ai-sdk'] as Framework, breakOff('data: [DONE]\n\n')] as const,
])
  t.test(`${name}: a stream that fails in the middle leaves its turn open for a repeated call`, async (t) => {
    const server = await startModelServer(t);
    server.answers = [answer, reply('Wholemeal is best.')];
    const session = await open('plain');
    const run = { session, modelUrl: server.url };
    t.not((await collect(framework, run)).error, null);
    t.match((await session.turns()).items, [{ state: 'open' }]);
    t.equal(await framework.generate(run), 'Wholemeal is best.');
    const turns = (await session.turns()).items;
    t.match(turns, [{ state: 'ended' }]);
    t.equal(turns.length, 1, 'the message is not judged again');
    t.same(await readTranscript(session), ['user: hello', 'assistant: Wholemeal ', 'assistant: Wholemeal is best.']);
  });

t.test('ai-sdk: the same message can be asked again as soon as the app reads an error', async (t) => {
  const left = Promise.withResolvers<void>();
  const parts = [
    { type: 'text-start', id: '1' },
    { type: 'text-delta', id: '1', delta: 'Wholemeal ' },
    { type: 'error', error: 'overloaded' },
  ];
  const model = {
    ...AI_SDK_MODEL,
    doGenerate: async () => ({
      content: [{ type: 'text', text: 'Wholemeal is best.' }],
      finishReason: { unified: 'stop' },
      usage: {},
      warnings: [],
    }),
    doStream: async () => ({
      stream: new ReadableStream({
        start(controller) {
          for (const part of parts) controller.enqueue(part);
        },
        cancel: () => left.resolve(),
      }),
    }),
  };
  const session = await open('plain');
  const judged = wrapLanguageModel({ model: model as never, middleware: aiSdk.bulkhead(session) });
  const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'hello' }] }];
  const reader = (await judged.doStream({ prompt })).stream.getReader();
  while ((await reader.read()).value?.type !== 'error');
  // The failed stream has no end yet.
  await judged.doGenerate({ prompt });
  await reader.cancel();
  await left.promise;
  const turns = (await session.turns()).items;
  t.match(turns, [{ state: 'ended' }]);
  t.equal(turns.length, 1, 'the message is not judged again');
  t.same(await readTranscript(session), ['user: hello', 'assistant: Wholemeal ', 'assistant: Wholemeal is best.']);
});

soakTest(
  t,
  'ai-sdk: a message that is asked again waits until the transcript has what its failed answer showed',
  async (t) => {
    const sending = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    const holdOutput: typeof fetch = async (input, init) => {
      if (String(input).endsWith('/output')) {
        sending.resolve();
        await held.promise;
      }
      return fetch(input, init);
    };
    const finishReason = { unified: 'error' };
    const parts = [
      { type: 'text-start', id: '1' },
      { type: 'text-delta', id: '1', delta: 'Wholemeal ' },
      { type: 'error', error: 'overloaded' },
      { type: 'finish', finishReason, usage: {} },
    ];
    let isAskedAgain = false;
    const model = {
      ...AI_SDK_MODEL,
      async doGenerate() {
        isAskedAgain = true;
        const content = [{ type: 'text', text: 'Wholemeal is best.' }];
        return { content, finishReason: { unified: 'stop' }, usage: {}, warnings: [] };
      },
      doStream: async () => ({
        stream: new ReadableStream({
          start(controller) {
            for (const part of parts) controller.enqueue(part);
            controller.close();
          },
        }),
      }),
    };
    const session = await open('plain', holdOutput);
    const judged = wrapLanguageModel({ model: model as never, middleware: aiSdk.bulkhead(session) });
    const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'hello' }] }];
    const reader = (await judged.doStream({ prompt })).stream.getReader();
    while ((await reader.read()).value?.type !== 'error');
    await sending.promise;
    const answered = judged.doGenerate({ prompt });
    // The second request would need one round trip to the service before it asks the model.
    for (let trip = 0; trip < 3; trip += 1) await session.turns();
    t.notOk(isAskedAgain);
    held.resolve();
    await answered;
    while (!(await reader.read()).done);
    t.match((await session.turns()).items, [{ state: 'ended' }]);
    t.same(await readTranscript(session), ['user: hello', 'assistant: Wholemeal ', 'assistant: Wholemeal is best.']);
  },
);

t.test('ai-sdk: the provider’s data about a judged text is left out, and a text without an end is kept', async (t) => {
  const providerMetadata = { local: { logprobs: 'loafs' } };
  const parts = [
    { type: 'text-start', id: '1', providerMetadata },
    { type: 'text-delta', id: '1', delta: 'Two loafs.', providerMetadata },
    { type: 'error', error: 'overloaded' },
    { type: 'finish', finishReason: { unified: 'error' }, usage: {}, providerMetadata },
  ];
  const content = [{ type: 'text', text: 'Two loafs.', providerMetadata }];
  const sendParts = (controller: ReadableStreamDefaultController): void => {
    for (const part of parts) controller.enqueue(part);
    controller.close();
  };
  const model = {
    ...AI_SDK_MODEL,
    doGenerate: async () => ({ content, finishReason: { unified: 'stop' }, usage: {}, warnings: [], providerMetadata }),
    doStream: async () => ({ stream: new ReadableStream({ start: sendParts }) }),
  };
  const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'hello' }] }];
  for (const [account, shown, hidden] of [
    ['guarded', 'Two loaves.', /loafs/],
    ['plain', 'Two loafs.', /loaves/],
  ] as const) {
    const session = await open(account);
    const judged = wrapLanguageModel({ model: model as never, middleware: aiSdk.bulkhead(session) });
    let streamed = '';
    for await (const part of (await judged.doStream({ prompt })).stream as unknown as AsyncIterable<unknown>)
      streamed += print(part);
    t.match(streamed, shown);
    t.notMatch(streamed, hidden);
    t.same(await readTranscript(session), ['user: hello', `assistant: ${shown}`]);
    t.match((await session.turns()).items, [{ state: 'open' }], 'the model failed');
    t.notMatch(print(await judged.doGenerate({ prompt })), hidden);
    t.match((await session.turns()).items, [{ state: 'ended' }]);
  }
});

/** Asks a model of the AI SDK. Returns the texts of the answer, or of its stream. */
const askTexts = {
  async whole(session: Session, model: ReturnType<typeof createModelOfTexts>, tools = {}): Promise<string[]> {
    const judged = wrapLanguageModel({ model, middleware: aiSdk.bulkhead(session) });
    const { content } = await generateText({ model: judged, prompt: 'hello', tools, maxRetries: 0 });
    return content.flatMap((part) => (part.type === 'text' ? [part.text] : []));
  },
  async streamed(session: Session, model: ReturnType<typeof createModelOfTexts>, tools = {}): Promise<string[]> {
    const judged = wrapLanguageModel({ model, middleware: aiSdk.bulkhead(session) });
    const asked = streamText({ model: judged, prompt: 'hello', tools, maxRetries: 0, onError: () => undefined });
    const texts = new Map<string, string>();
    for await (const part of asked.fullStream) {
      if (part.type === 'error') throw part.error;
      if (part.type === 'text-delta') texts.set(part.id, (texts.get(part.id) ?? '') + part.text);
    }
    return [...texts.values()];
  },
};

await fixture.install({ account: 'sentences', slug: 'sentences', code: SENTENCES });
for (const [way, askFor] of listCases(askTexts, 'streamed'))
  t.test(`ai-sdk, ${way}: plugins judge the texts of an answer as one`, async (t) => {
    for (const account of ['guarded', 'sentences']) {
      let runs = 0;
      const tools = {
        oven: dynamicTool({
          inputSchema: jsonSchema(OVEN),
          execute: async () => {
            runs += 1;
            return 'warm';
          },
        }),
      };
      const call = { type: 'tool-call', toolCallId: 'c1', toolName: 'oven', input: '{"degrees":200}' };
      const secret = createModelOfTexts(['It is class', 'ified', '.'], [call]);
      const asked = askFor(await open(account), secret, tools);
      await t.rejects(asked, { name: 'VetoError', reason: 'that is classified' }, account);
      t.equal(runs, 0, 'a call of an answer that a plugin cancels does not run');
      const session = await open(account);
      t.same(await askFor(session, createModelOfTexts(['Two lo', 'af', 's.'])), ['Two loaves.'], account);
      t.same(await readTranscript(session), ['user: hello', 'assistant: Two loaves.']);
      const unchanged = await askFor(await open(account), createModelOfTexts(['Rye ', 'is fine.']));
      t.equal(unchanged.join(''), 'Rye is fine.');
    }
    const session = await open('plain');
    t.same(await askFor(session, createModelOfTexts(['Two ', 'loa', 'fs.'])), ['Two ', 'loa', 'fs.']);
    t.same(await readTranscript(session), ['user: hello', 'assistant: Two loafs.']);
  });

soakTest(
  t,
  'ai-sdk: a stream that breaks off between two texts lets no unjudged text out, and loses no veto',
  async (t) => {
    const fail = async (): Promise<void> => {
      throw new Error('the connection broke');
    };
    const askBroken = async (session: Session, text: string, breakOff = fail) => {
      const model = wrapLanguageModel({
        model: createModelOfTexts([text, 'ified.'], [], breakOff),
        middleware: aiSdk.bulkhead(session),
      });
      const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'hello' }] }];
      let shown = '';
      try {
        for await (const part of (await model.doStream({ prompt })).stream as unknown as AsyncIterable<unknown>)
          shown += print(part);
        return { shown, error: null };
      } catch (error) {
        return { shown, error };
      }
    };
    for (const [account, before] of [
      ['guarded', []],
      ['sentences', ['assistant: Two loaves. ']],
    ] as const) {
      const session = await open(account);
      const { shown, error } = await askBroken(session, 'Two loafs. It is class');
      t.match(error, { message: 'the connection broke' }, account);
      t.notMatch(shown, /loafs|class/, account);
      t.same(await askTexts.whole(session, createModelOfTexts(['Rye.'])), ['Rye.']);
      t.same(await readTranscript(session), ['user: hello', ...before, 'assistant: Rye.'], account);
    }
    for (const end of ['with an error', 'without a reason to finish']) {
      const account = `between-${end.length}`;
      const session = await open(account);
      const { shown, error } = await askBroken(session, 'It is classified.', async () => {
        await fixture.install({ account, slug: account, code: GUARD });
        if (end === 'with an error') await fail();
      });
      t.match(shown, /It is classified/, 'no plugin judged messages');
      t.match(error, { name: 'VetoError', plugin: account }, end);
    }
    const session = await open('plain');
    const { error } = await askBroken(session, 'Rye.', async () => {
      await session.clear({ by: 'user' });
      await fail();
    });
    t.match(error, { message: 'the connection broke' }, 'not that the cleared turn takes no output');
  },
);

t.test('openai-agents: a stream without a response loses no veto of what was shown', async (t) => {
  const session = await open('unfinished');
  const scripted = {
    async *getStreamedResponse() {
      yield { type: 'output_text_delta', delta: 'It is classified.' };
      await fixture.install({ account: 'unfinished', slug: 'unfinished', code: GUARD });
    },
  };
  const settings = openAiAgents.bulkhead(session, { modelProvider: { getModel: () => scripted as never } });
  const runner = new Runner({ ...settings, tracingDisabled: true });
  const result = await runner.run(new Agent({ name: 'Baker', model: 'm' }), 'hello', { stream: true });
  await t.rejects(result.completed, { name: 'VetoError', plugin: 'unfinished' });
});

t.test('openai-agents: plugins judge the messages of an answer as one', async (t) => {
  const ask = async (session: Session, texts: readonly string[], isStreamed: boolean) => {
    const scripted = createAgentsModel(() => texts.map((text) => assistant(text)));
    const settings = openAiAgents.bulkhead(session, { modelProvider: { getModel: () => scripted } });
    const runner = new Runner({ ...settings, tracingDisabled: true });
    const agent = new Agent({ name: 'Baker', model: 'm' });
    if (!isStreamed) return (await runner.run(agent, 'hello')).finalOutput;
    const result = await runner.run(agent, 'hello', { stream: true });
    await result.completed;
    return result.finalOutput;
  };
  for (const isStreamed of [false, true]) {
    const asked = ask(await open('guarded'), ['It is class', 'ified.'], isStreamed);
    await t.rejects(asked, { name: 'VetoError', reason: 'that is classified' });
    const session = await open('guarded');
    t.equal(await ask(session, ['Two lo', 'afs.'], isStreamed), 'Two loaves.');
    t.same(await readTranscript(session), ['user: hello', 'assistant: Two loaves.']);
    const plain = await open('plain');
    t.equal(await ask(plain, ['Rye ', 'is fine.'], isStreamed), 'is fine.', 'the framework takes the last message');
    t.same(await readTranscript(plain), ['user: hello', 'assistant: Rye is fine.']);
  }
});

t.test('ai-sdk: an answer whose model failed or was interrupted ends no turn', async (t) => {
  const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'hello' }] }];
  for (const unified of ['error', 'interrupted']) {
    const content = [{ type: 'text', text: 'Half' }];
    const doGenerate = async () => ({ content, finishReason: { unified }, usage: {}, warnings: [] });
    const session = await open('plain');
    const model = { ...AI_SDK_MODEL, doGenerate } as never;
    await wrapLanguageModel({ model, middleware: aiSdk.bulkhead(session) }).doGenerate({ prompt });
    t.match((await session.turns()).items, [{ state: 'open' }], unified);
  }
});

t.test('openai-agents: a refusal, which comes without deltas, is judged and in the transcript', async (t) => {
  const server = await startModelServer(t);
  const refuse = (refusal: string) => (response: ServerResponse) => {
    const chunk = (delta: object, finish_reason: string | null) =>
      `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
    stream(response).end(`${chunk({ role: 'assistant', refusal }, null)}${chunk({}, 'stop')}data: [DONE]\n\n`);
  };
  const framework = frameworks['openai-agents'] as Framework;
  for (const [account, shown] of [
    ['guarded', 'No loaves.'],
    ['plain', 'No loafs.'],
  ] as const) {
    server.answers = [refuse('No loafs.')];
    const session = await open(account);
    await collect(framework, { session, modelUrl: server.url });
    t.same(await readTranscript(session), ['user: hello', `assistant: ${shown}`]);
  }
});
