/**
 * Calls of plugins' tools that the service does not make, because a person refuses them or the service cannot take them: plugins judge
 * the text that the framework writes as their result, and the model reads why the service did not take a call.
 */
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from '@langchain/core/messages';
import { Agent, type AgentInputItem, assistant, Runner, RunState, user } from '@openai/agents';
import { generateText, type ModelMessage, stepCountIs, wrapLanguageModel } from 'ai';
import t from 'tap';
import * as aiSdk from '../../sdk/adapters/ai-sdk.ts';
import * as langchain from '../../sdk/adapters/langchain.ts';
import * as openAiAgents from '../../sdk/adapters/openai-agents.ts';
import { connect, type Session } from '../../sdk/session/session.ts';
import { amount, listCases, soakTest } from '../runner/soak.ts';
import { startSupervisorFixture, withStartedPlugins } from '../supervisor/supervisor-fixture.ts';
import { AI_SDK_MODEL, createAgentsModel, ScriptedChatModel } from './scripted-models.ts';

const fixture = withStartedPlugins(await startSupervisorFixture(t));
const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });

const FILES = `tools.read = {
  description: 'Reads a file.',
  parameters: { type: 'object', properties: { path: { type: 'string' } } },
  handler: () => 'flour',
};`;
const GUARD = `
  middleware.toolCall = ({ call, cancel }) => {
    if (call.name !== 'files__read') cancel('it is another tool');
    if (/FORBIDDEN/.test(JSON.stringify(call.arguments))) cancel('it is forbidden');
  };
  middleware.toolResult = ({ call, result, cancel }) => {
    if (call.arguments.path === undefined) cancel('it is of another call');
    if (/SECRET/.test(JSON.stringify(result))) cancel('it is secret');
  };`;
const BROKEN = `middleware.toolCall = () => { throw new Error('x'); };`;
await fixture.install({ account: 'guarded', slug: 'files', code: FILES });
await fixture.install({ account: 'guarded', slug: 'guard', code: GUARD });
await fixture.install({ account: 'broken', slug: 'broken', code: FILES + BROKEN, required: true });

/** Starts a session. The returned function opens it in another process of the same runtime. */
async function startSession(account = 'guarded') {
  const token = await fixture.issuer.issue(account);
  const { id } = await connect({ url, token, runtime: 'refusals' }).start({ agentId: 'a' });
  return (fetch = globalThis.fetch) => connect({ url, token, runtime: 'refusals', fetch }).open(id);
}

/** A transcript that has no results, as where a summary replaces them. */
const withoutResults: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (!response.headers.get('content-type')?.includes('application/json')) return response;
  const body = JSON.parse(await response.text());
  for (const prompt of [body, body.prompt])
    if (prompt?.messages) prompt.messages = prompt.messages.filter(({ role }: { role: string }) => role !== 'tool');
  return new Response(JSON.stringify(body), { status: response.status, headers: response.headers });
};

interface Answer {
  readonly text?: string;
  readonly call?: { readonly path: string };
}
interface Conversation {
  /** Asks the model for a call of the tool, which waits for a person. */
  call(session: Session, path: string): Promise<void>;
  /** Refuses the call, and goes on. Returns what the model was asked. */
  refuse(session: Session, reason: string): Promise<string>;
  /** Writes a text as the result of the call, as an app does whose run did not go on. */
  write(reason: string): void;
  /** Leaves the first message out. */
  forget(): void;
  /** Sends another message with all that was said before. Returns what the model was asked. */
  say(session: Session, text: string): Promise<string>;
  /** Runs a turn in which the model calls the tool, which needs no approval. Returns what the model was asked then. */
  run(session: Session, path: string): Promise<string>;
}

function converseInAiSdk(tool: string): Conversation {
  let messages: ModelMessage[] = [];
  async function ask(session: Session, answers: readonly Answer[], approval?: 'user-approval'): Promise<string> {
    const asked: string[] = [];
    const model = {
      ...AI_SDK_MODEL,
      async doGenerate({ prompt }: { prompt: unknown }) {
        const { text, call } = answers[asked.length] ?? {};
        asked.push(JSON.stringify(prompt));
        const part = call
          ? { type: 'tool-call', toolCallId: 'c1', toolName: tool, input: JSON.stringify(call) }
          : { type: 'text', text };
        const finishReason = { unified: call ? 'tool-calls' : 'stop' };
        return { content: [part], finishReason, usage: { inputTokens: {}, outputTokens: {} }, warnings: [] };
      },
    };
    const { responseMessages } = await generateText({
      model: wrapLanguageModel({ model: model as never, middleware: aiSdk.bulkhead(session) }),
      tools: await aiSdk.bulkheadTools(session),
      ...(approval ? { toolApproval: { [tool]: approval } as never } : {}),
      stopWhen: stepCountIs(4),
      messages,
      maxRetries: 0,
    });
    messages.push(...responseMessages);
    return asked.at(-1) ?? '';
  }
  return {
    async call(session, path) {
      messages = [{ role: 'user', content: 'Read it' }];
      await ask(session, [{ call: { path } }], 'user-approval');
    },
    async refuse(session, reason) {
      const parts = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : [...content]));
      const request = parts.find((part) => part.type === 'tool-approval-request');
      const approvalId = request?.approvalId ?? '';
      messages.push({
        role: 'tool',
        content: [{ type: 'tool-approval-response', approvalId, approved: false, reason }],
      });
      return ask(session, [{ text: 'I see.' }], 'user-approval');
    },
    write(reason) {
      const output = { type: 'execution-denied' as const, reason };
      messages.push({ role: 'tool', content: [{ type: 'tool-result', toolCallId: 'c1', toolName: tool, output }] });
    },
    forget: () => void messages.shift(),
    async say(session, text) {
      messages.push({ role: 'user', content: text });
      return ask(session, [{ text: 'Yes.' }]);
    },
    async run(session, path) {
      messages = [{ role: 'user', content: 'Read it' }];
      return ask(session, [{ call: { path } }, { text: 'I see.' }]);
    },
  };
}

function converseInLangchain(tool: string): Conversation {
  let messages: BaseMessage[] = [];
  async function ask(session: Session, { text = '', call }: Answer): Promise<string> {
    const calls = call ? [{ id: 'c1', name: tool, args: call }] : [];
    const model = new ScriptedChatModel(() => new AIMessage({ content: text, tool_calls: calls }));
    const tools = await langchain.bulkheadTools(session);
    const judged = langchain.bulkhead(session, model);
    messages.push((await judged.bindTools?.(tools).invoke(messages)) as AIMessage);
    return model.asked;
  }
  const call = async (session: Session, path: string): Promise<void> => {
    messages = [new HumanMessage('Read it')];
    await ask(session, { call: { path } });
  };
  const write = (content: string): void => {
    messages.push(new ToolMessage({ content, tool_call_id: 'c1', name: tool, status: 'error' }));
  };
  return {
    call,
    refuse(session, content) {
      write(content);
      return ask(session, { text: 'I see.' });
    },
    write,
    forget: () => void messages.shift(),
    say(session, text) {
      messages.push(new HumanMessage(text));
      return ask(session, { text: 'Yes.' });
    },
    async run(session, path) {
      await call(session, path);
      const [offered] = await langchain.bulkheadTools(session);
      messages.push(await offered?.invoke({ type: 'tool_call', id: 'c1', name: tool, args: { path } }));
      return ask(session, { text: 'I see.' });
    },
  };
}

function converseInAgents(tool: string): Conversation {
  let history: AgentInputItem[] = [];
  let state = '';
  async function open(session: Session, answers: readonly Answer[], needsApproval: boolean) {
    const asked: string[] = [];
    const model = createAgentsModel((input) => {
      const { text = '', call } = answers[asked.length] ?? {};
      asked.push(JSON.stringify(input));
      if (!call) return [assistant(text)];
      return [{ type: 'function_call', callId: 'c1', name: tool, arguments: JSON.stringify(call) }];
    });
    const settings = openAiAgents.bulkhead(session, { modelProvider: { getModel: () => model } });
    const offered = await openAiAgents.bulkheadTools(session);
    const tools = offered.map((one) => Object.assign(one, { needsApproval: async () => needsApproval }));
    const agent = new Agent({ name: 'Baker', model: 'm', tools });
    const runner = new Runner({ ...settings, tracingDisabled: true });
    return { runner, agent, asked };
  }
  return {
    async call(session, path) {
      const { runner, agent } = await open(session, [{ call: { path } }], true);
      const called = await runner.run(agent, 'Read it');
      state = called.state.toString();
      history = called.history;
    },
    async refuse(session, message) {
      const { runner, agent, asked } = await open(session, [{ text: 'I see.' }], true);
      const restored = await RunState.fromString(agent, state);
      for (const pending of restored.getInterruptions()) restored.reject(pending, { message });
      history = (await runner.run(agent, restored)).history;
      return asked.at(-1) ?? '';
    },
    write(text) {
      const output = { type: 'text' as const, text };
      history.push({ type: 'function_call_result', name: tool, callId: 'c1', status: 'completed', output });
    },
    forget: () => void history.shift(),
    async say(session, text) {
      const { runner, agent, asked } = await open(session, [{ text: 'Yes.' }], false);
      history = (await runner.run(agent, [...history, user(text)])).history;
      return asked.at(-1) ?? '';
    },
    async run(session, path) {
      const { runner, agent, asked } = await open(session, [{ call: { path } }, { text: 'I see.' }], false);
      history = (await runner.run(agent, 'Read it')).history;
      return asked.at(-1) ?? '';
    },
  };
}

const frameworks: Readonly<Record<string, (tool: string) => Conversation>> = {
  'ai-sdk': converseInAiSdk,
  langchain: converseInLangchain,
  'openai-agents': converseInAgents,
};

const readTranscript = async (session: Session) =>
  (await session.messages()).items.filter(({ role }) => role === 'tool').map(({ text }) => text);

for (const [name, converse] of Object.entries(frameworks)) {
  t.test(`${name}: plugins judge a person's reason for refusing a call of a plugin's tool`, async (t) => {
    const cases = [
      { path: 'a.txt', reason: 'not today', read: /not today/ },
      { path: 'a.txt', reason: 'The plan is SECRET', read: /withheld its result: it is secret/ },
      { path: 'FORBIDDEN', reason: 'The plan is SECRET', read: /it is forbidden/ },
    ];
    for (const { path, reason, read } of cases) {
      const openAgain = await startSession();
      const { call, refuse, say } = converse('files__read');
      await call(openAgain(), path);
      const asked = [
        await refuse(openAgain(), reason),
        await say(openAgain(), 'and now?'),
        await say(openAgain(withoutResults), 'and then?'),
      ];
      for (const one of asked) {
        t.match(one, read);
        t.notMatch(one, /SECRET/);
      }
      t.match(await readTranscript(openAgain()), [read], 'the transcript has it, once');
    }
  });

  for (const way of amount({ quick: ['cleared'], soak: ['ended', 'cleared'] }))
    t.test(`${name}: a person's reason for refusing a call in a turn that was ${way} is left out`, async (t) => {
      const openAgain = await startSession();
      const { call, write, say, forget } = converse('files__read');
      const session = openAgain();
      await call(session, 'a.txt');
      const [turn] = (await session.turns()).items;
      if (way === 'ended')
        await openAgain()
          .turn(turn?.id ?? '')
          .end();
      else await openAgain().clear();
      write('The plan is SECRET');
      for (const again of [session, openAgain()]) {
        const asked = await say(again, 'and now?');
        t.match(asked, /left out/);
        t.notMatch(asked, /SECRET/);
      }
      forget();
      const asked = await say(openAgain(), 'and then?');
      t.match(asked, /left out/);
      t.notMatch(asked, /SECRET/);
    });

  t.test(`${name}: a person's reason does not pass while a required plugin does not run`, async (t) => {
    const openAgain = await startSession('broken');
    const { call, refuse } = converse('broken__read');
    await call(openAgain(), 'a.txt');
    await t.rejects(refuse(openAgain(), 'not today'), { name: 'VetoError', isFinal: false });
  });
}

for (const [name, converse] of listCases(frameworks, 'ai-sdk'))
  t.test(
    `${name}: judged results are found without the message of their turn, for as long as the service has them`,
    async (t) => {
      const openAgain = await startSession();
      const { call, refuse, say, forget } = converse('files__read');
      await call(openAgain(), 'a.txt');
      await refuse(openAgain(), 'The plan is SECRET');
      forget();
      t.match(await say(openAgain(), 'and now?'), /it is secret/);
      const asked = await say(openAgain(withoutResults), 'and then?');
      t.match(asked, /left out/);
      t.notMatch(asked, /SECRET/);
      const other = await startSession();
      const run = converse('files__read');
      t.match(await run.run(other(), 'a.txt'), /flour/);
      run.forget();
      t.match(await run.say(other(), 'and now?'), /flour/);
    },
  );

for (const [name, converse] of listCases(frameworks, 'langchain'))
  t.test(`${name}: the model reads why the service did not take a call of a plugin's tool`, async (t) => {
    for (const [account, tool, path, read] of [
      ['guarded', 'files__read', 'a\0b', /must not contain U\+0000/],
      ['broken', 'broken__read', 'a.txt', /“broken” failed with an error/],
    ] as const) {
      const openAgain = await startSession(account);
      const judged: string[] = [];
      const watch: typeof fetch = (input, init) => {
        if (String(input).includes('/calls/')) judged.push(new URL(String(input)).pathname);
        return fetch(input, init);
      };
      const { run, say } = converse(tool);
      const session = openAgain(watch);
      t.match(await run(session, path), read);
      t.equal(judged.length, 1, 'the text of the service is not judged as a result');
      t.same(await readTranscript(openAgain()), []);
      if (account === 'guarded') t.match(await say(session, 'and now?'), read, 'it stays in later turns');
    }
  });
soakTest(t, 'langchain: the texts of the service in place of the last 1,000 results stay in later turns', async (t) => {
  const openAgain = await startSession();
  const title = 'Bad request';
  const refuseCalls: typeof fetch = async (input, init) =>
    String(input).includes('/calls/')
      ? Response.json({ type: 'about:blank', title, status: 400, code: 'bad_request', detail: title }, { status: 400 })
      : fetch(input, init);
  const session = openAgain(refuseCalls);
  const [offered] = await langchain.bulkheadTools(session);
  const calls = Array.from({ length: 1_001 }, (_, at) => ({ id: `c${at}`, name: 'files__read', args: { path: 'a' } }));
  const answers = [new AIMessage({ content: '', tool_calls: calls }), new AIMessage('I see.'), new AIMessage('Yes.')];
  const model = new ScriptedChatModel(() => answers.shift() ?? new AIMessage(''));
  const judged = langchain.bulkhead(session, model).bindTools?.([offered as never]);
  const messages: BaseMessage[] = [new HumanMessage('Read it')];
  messages.push((await judged?.invoke(messages)) as AIMessage);
  for (const call of calls) messages.push(await offered?.invoke({ type: 'tool_call', ...call }));
  const countLeftOut = () => model.asked.split('left out').length - 1;
  messages.push((await judged?.invoke(messages)) as AIMessage);
  t.equal(countLeftOut(), 0);
  messages.push(new HumanMessage('and now?'));
  await judged?.invoke(messages);
  t.equal(countLeftOut(), 1);
});
