/** Which turn a call of the model is in: runs at once, runs within others, retries, and turns that were cleared elsewhere. */
import { AIMessage, HumanMessage, ToolMessage } from '@langchain/core/messages';
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { dynamicTool, generateText, jsonSchema, type ModelMessage, stepCountIs, wrapLanguageModel } from 'ai';
import t from 'tap';
import * as aiSdk from '../../sdk/adapters/ai-sdk.ts';
import type { AdapterOptions } from '../../sdk/adapters/judged-conversation.ts';
import * as langchain from '../../sdk/adapters/langchain.ts';
import { connect, type Session } from '../../sdk/session/session.ts';
import { startSupervisorFixture, withStartedPlugins } from '../supervisor/supervisor-fixture.ts';
import { AI_SDK_MODEL, ScriptedChatModel } from './scripted-models.ts';

const fixture = withStartedPlugins(await startSupervisorFixture(t));
const url = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
const GUARD = `middleware.outboundMessage = (ctx) => { if (/classified/.test(ctx.message.text)) ctx.cancel('no'); };`;
await fixture.install({ account: 'ann', slug: 'guard', code: GUARD });

const token = await fixture.issuer.issue('ann');
const openSession = (): Promise<Session> => connect({ url, token, runtime: 'turns-test' }).start({ agentId: 'a' });
const reopenSession = ({ id }: Session, runtime = 'turns-test'): Session => connect({ url, token, runtime }).open(id);

interface Answer {
  readonly text?: string;
  /** A call of the tool `oven` with this id. */
  readonly call?: string;
}
/** Gets the number of the request, from 0, and what it asks, as JSON. */
type AnswerTo = (at: number, asked: string) => Promise<Answer> | Answer;

const createAiModel = (answerTo: AnswerTo) => {
  let requests = 0;
  const model = {
    ...AI_SDK_MODEL,
    async doGenerate({ prompt }: { prompt: unknown }) {
      const { text, call } = await answerTo(requests++, JSON.stringify(prompt));
      const content = [
        ...(text === undefined ? [] : [{ type: 'text', text }]),
        ...(call === undefined ? [] : [{ type: 'tool-call', toolCallId: call, toolName: 'oven', input: '{}' }]),
      ];
      const finishReason = { unified: call === undefined ? 'stop' : 'tool-calls' };
      return { content, finishReason, usage: { inputTokens: {}, outputTokens: {} }, warnings: [] };
    },
  };
  return model as unknown as Parameters<typeof wrapLanguageModel>[0]['model'];
};
const openChatModel = (session: Session, answerTo: AnswerTo, options: AdapterOptions = {}) => {
  let requests = 0;
  const model = new ScriptedChatModel(async (messages) => {
    const { text = '', call } = await answerTo(requests++, JSON.stringify(messages));
    const calls = call === undefined ? [] : [{ id: call, name: 'oven', args: {} }];
    return new AIMessage({ content: text, tool_calls: calls });
  });
  return langchain.bulkhead(session, model, options);
};

/** Asks a model of the AI SDK with a text, as one adapter does. */
const createAsk = (session: Session, answerTo: AnswerTo, options: AdapterOptions = {}) => {
  const model = wrapLanguageModel({ model: createAiModel(answerTo), middleware: aiSdk.bulkhead(session, options) });
  return async (prompt: string) => (await generateText({ model, prompt, maxRetries: 0 })).text;
};
const listTurns = async (session: Session) =>
  (await session.turns()).items.map(({ state, message }) => `${state}: ${message?.text}`);

/** Resolves when this many have called it. */
function createMeeting(count: number): () => Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let left = count;
  return () => {
    left -= 1;
    if (left === 0) resolve();
    return promise;
  };
}

t.test('ai-sdk: the same words at once are two messages', async (t) => {
  const session = await openSession();
  const meet = createMeeting(2);
  const ask = createAsk(session, async (at) => {
    await meet();
    return { text: `answer ${at}` };
  });
  const texts = await Promise.all([ask('hello'), ask('hello')]);
  t.same(texts.sort(), ['answer 0', 'answer 1']);
  t.same(await listTurns(session), ['ended: hello', 'ended: hello']);
});

t.test('langchain: two nodes of a graph at once, one of which answers the message of the app', async (t) => {
  const session = await openSession();
  const meet = createMeeting(2);
  const answerTo: AnswerTo = async (at) => {
    await meet();
    return { text: `answer ${at}` };
  };
  const model = openChatModel(session, answerTo, { messageId: 'm1' });
  const answer = async ({ messages }: typeof MessagesAnnotation.State) => ({
    messages: [await model.invoke(messages)],
  });
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('one', answer)
    .addNode('two', answer)
    .addEdge(START, 'one')
    .addEdge(START, 'two')
    .addEdge('one', END)
    .addEdge('two', END)
    .compile();
  const { messages } = await graph.invoke({ messages: [new HumanMessage('hello')] });
  t.same(
    messages
      .slice(1)
      .map(({ text }) => text)
      .sort(),
    ['answer 0', 'answer 1'],
  );
  const { items } = await session.turns();
  t.match(items, [
    { id: 'm1', state: 'ended', trigger: 'user', message: { text: 'hello' } },
    { state: 'ended', trigger: 'tool', message: { text: 'hello' } },
  ]);
});

t.test(
  'langchain: runs with the same words at once go on each in its turn, also with the same ids of calls',
  async (t) => {
    const session = await openSession();
    const model = openChatModel(session, (_at, asked) =>
      asked.includes('tool_call_id') ? { text: 'done' } : { call: 'call_0' },
    );
    const message = new HumanMessage('hello');
    const called = [await model.invoke([message]), await model.invoke([message])];
    const ids = called.map(({ tool_calls: calls = [] }) => calls[0]?.id ?? '');
    t.equal(new Set(ids).size, 2);
    for (const [index, said] of called.entries()) {
      const result = new ToolMessage({ content: `warm ${index}`, tool_call_id: ids[index] ?? '', name: 'oven' });
      t.equal((await model.invoke([message, said, result])).text, 'done');
    }
    t.same(await listTurns(session), ['ended: hello', 'ended: hello']);
    for (const [index, { id }] of (await session.turns()).items.entries())
      t.match(await session.turn(id).look(), { calls: [{ result: { content: [{ text: `warm ${index}` }] } }] });
  },
);

t.test('langchain: a structured answer is a call without a result, and the message is answered after it', async (t) => {
  const session = await openSession();
  const answerTo: AnswerTo = (at) => (at === 0 ? { call: 'c1' } : { text: 'answer' });
  const model = openChatModel(session, answerTo, { messageId: 'm1' });
  const schema = { name: 'oven', type: 'object', properties: {} };
  const structured = model.withStructuredOutput(schema, { includeRaw: true });
  t.match((await structured.invoke([new HumanMessage('hello')])).raw, { tool_calls: [{ id: 'c1' }] });
  t.equal((await model.invoke([new HumanMessage('hello')])).text, 'answer');
  t.match((await session.turns()).items, [{ id: 'm1', state: 'ended' }]);
  t.equal((await session.turns()).items.length, 1);
});

t.test('a run within another one has a turn of its own, which the messages after it do not end', async (t) => {
  const session = await openSession();
  const inner = createAsk(session, () => ({ text: 'inner answer' }));
  const model = openChatModel(session, (at) => (at === 0 ? { call: 'c1' } : { text: 'answer' }));
  const message = new HumanMessage('hello');
  const said = await model.invoke([message]);
  t.equal(await inner('hello'), 'inner answer');
  const result = new ToolMessage({ content: 'inner answer', tool_call_id: 'c1', name: 'oven' });
  t.equal((await model.invoke([message, said, result])).text, 'answer');
  t.same(await listTurns(session), ['ended: hello', 'ended: hello']);
  const [outer] = (await session.turns()).items;
  t.match(await session.turn(outer?.id ?? '').look(), { outputs: [{ text: 'answer' }] });
});

t.test('a run whose model failed, or whose answer a plugin cancelled, is tried again in its turn', async (t) => {
  const session = await openSession();
  const ask = createAsk(session, (at) => {
    if (at === 0) throw new Error('no model');
    return { text: at === 1 ? 'classified' : 'answer' };
  });
  await t.rejects(ask('hello'), /no model/);
  await t.rejects(ask('hello'), { name: 'VetoError' });
  t.equal(await ask('hello'), 'answer');
  t.same(await listTurns(session), ['ended: hello']);
});

t.test('the next message does not wait for a turn that another process left open', async (t) => {
  const session = await openSession();
  await t.rejects(createAsk(session, () => ({ text: 'classified' }))('hello'), { name: 'VetoError' });
  const elsewhere = reopenSession(session, 'elsewhere');
  const model = openChatModel(elsewhere, () => ({ text: 'answer' }));
  const again = [new HumanMessage('hello'), new AIMessage('I may not say that.'), new HumanMessage('and now?')];
  t.equal((await model.invoke(again)).text, 'answer');
  t.same(await listTurns(session), ['open: hello', 'ended: and now?']);

  const called = [new HumanMessage('heat'), await openChatModel(session, () => ({ call: 'c1' })).invoke('heat')];
  const result = new ToolMessage({ content: 'warm', tool_call_id: 'c1', name: 'oven' });
  const stopped = [...called, result, new HumanMessage('thanks')];
  t.equal((await model.invoke(stopped)).text, 'answer');
  t.same((await listTurns(session)).slice(2), ['open: heat', 'ended: thanks']);
  const { items } = await session.turns();
  t.match(await session.turn(items[2]?.id ?? '').look(), { calls: [{ state: 'performing', result: null }] });
  const later = [...stopped, new AIMessage('answer'), new HumanMessage('bye')];
  t.equal((await openChatModel(session, () => ({ text: 'done' })).invoke(later)).text, 'done');
  t.same((await listTurns(session)).slice(2), ['ended: heat', 'ended: thanks', 'ended: bye']);
});

t.test(
  'a text in place of a result reaches no model before the process with the lease lets plugins judge it',
  async (t) => {
    const code = `tools.add = { description: 'Adds', parameters: { type: 'object' }, handler: () => '3' };
    middleware.toolResult = () => ({ result: { content: [{ type: 'text', text: 'judged' }] } });`;
    await fixture.install({ account: 'dan', slug: 'sums', code });
    const client = connect({ url, token: await fixture.issuer.issue('dan'), runtime: 'turns-test' });
    const session = await client.start({ agentId: 'a' });
    const elsewhere = connect({ url, token: await fixture.issuer.issue('dan'), runtime: 'elsewhere' }).open(session.id);
    const calls = [{ id: 'c1', name: 'sums__add', args: {} }];
    const model = new ScriptedChatModel(() => new AIMessage({ content: '', tool_calls: calls }));
    const question = new HumanMessage('add');
    const said = await langchain.bulkhead(session, model).invoke([question]);
    const refusal = new ToolMessage({ content: 'I say no', tool_call_id: 'c1', name: 'sums__add', status: 'error' });
    const messages = [question, said, refusal, new HumanMessage('thanks')];
    const prompts: string[] = [];
    const answerTo: AnswerTo = (_at, asked) => {
      prompts.push(asked);
      return { text: 'answer' };
    };
    await langchain.bulkheadTools(elsewhere);
    await openChatModel(elsewhere, answerTo).invoke(messages);
    t.notMatch(prompts[0], /I say no/);
    t.match(prompts[0], /left out/);
    await langchain.bulkheadTools(session);
    const later = [...messages, new AIMessage('answer'), new HumanMessage('bye')];
    await openChatModel(session, answerTo).invoke(later);
    t.match(prompts[1], /judged/);
    t.notMatch(prompts[1], /I say no|left out/);
    t.same(await listTurns(session), ['ended: add', 'ended: thanks', 'ended: bye']);
  },
);

t.test('steps without the message of the user go on in the turn of their calls', async (t) => {
  for (const options of [{}, { messageId: 'm1' }]) {
    const session = await openSession();
    let asked = '';
    const answerTo: AnswerTo = (at, prompt) => {
      asked = prompt;
      return at < 3 ? { call: `c${at}` } : { text: 'done' };
    };
    const model = wrapLanguageModel({ model: createAiModel(answerTo), middleware: aiSdk.bulkhead(session, options) });
    const oven = dynamicTool({ inputSchema: jsonSchema({ type: 'object' }), execute: async () => 'warm' });
    const { text } = await generateText({
      model,
      tools: { oven },
      stopWhen: stepCountIs(5),
      prompt: 'heat',
      maxRetries: 0,
      prepareStep: ({ messages }) => ({ messages: messages.slice(-2) }),
    });
    t.equal(text, 'done');
    t.match(asked, /c2.*warm/);
    t.notMatch(asked, /heat|left out/);
    t.same(await listTurns(session), ['ended: heat']);
    const results = (await session.messages()).items.filter(({ role }) => role === 'tool');
    t.equal(results.length, 3);
    const unknown = [{ role: 'assistant' as const, content: 'warm' }];
    await t.rejects(generateText({ model, messages: unknown, maxRetries: 0 }), /needs a message of the user/);
  }
});

t.test('after a restart, messages with ids of the app are known by what was sent', async (t) => {
  const code = `middleware.inboundMessage = ({ message, cancel }) => {
    if (/awful/.test(message.text)) cancel('no');
    return { message: { text: message.text.replace('bad', '***') } };
  };`;
  await fixture.install({ account: 'cat', slug: 'words', code });
  const client = connect({ url, token: await fixture.issuer.issue('cat'), runtime: 'turns-test' });
  const { id } = await client.start({ agentId: 'a' });
  const words = { type: 'text' as const, text: 'What is it?' };
  const picture = { type: 'file' as const, mediaType: 'image/png', data: 'iVBORw0KGgo=' };
  const contents = [[words, picture], 'a bad word', 'an awful word', 'a bad word', 'next'];
  const messages: ModelMessage[] = [];
  for (const [index, content] of contents.entries()) {
    messages.push({ role: 'user', content });
    const middleware = aiSdk.bulkhead(client.open(id), { messageId: `m${index}` });
    const model = wrapLanguageModel({ model: createAiModel(() => ({ text: 'answer' })), middleware });
    const asked = generateText({ model, messages, maxRetries: 0 });
    if (index === 2) await t.rejects(asked, { name: 'VetoError' });
    else await asked;
    messages.push({ role: 'assistant', content: 'answer' });
  }
  t.match((await client.open(id).turns()).items, [
    { id: 'm0', state: 'ended' },
    { id: 'm1', state: 'ended' },
    { id: 'm2', state: 'vetoed' },
    { id: 'm3', state: 'ended' },
    { id: 'm4', state: 'ended' },
  ]);
  t.equal((await client.open(id).turns()).items.length, 5);
  const said = (await client.open(id).messages()).items.filter(({ role }) => role === 'user').map(({ text }) => text);
  t.same(said, ['What is it?', 'a *** word', 'a *** word', 'next']);
});

t.test('after a restart, a message with a picture is known whose turn was left open', async (t) => {
  const { id } = await openSession();
  const client = connect({ url, token, runtime: 'turns-test' });
  const picture = { type: 'file' as const, mediaType: 'image/png', data: 'iVBORw0KGgo=' };
  const messages: ModelMessage[] = [{ role: 'user', content: [{ type: 'text', text: 'What is it?' }, picture] }];
  const ask = (messageId: string, text: string) => {
    const middleware = aiSdk.bulkhead(client.open(id), { messageId });
    const model = wrapLanguageModel({ model: createAiModel(() => ({ text })), middleware });
    return generateText({ model, messages, maxRetries: 0 });
  };
  await t.rejects(ask('m0', 'classified'), { name: 'VetoError' });
  messages.push({ role: 'assistant', content: 'I may not say that.' }, { role: 'user', content: 'and now?' });
  await ask('m1', 'answer');
  t.same(await listTurns(client.open(id)), ['ended: What is it?', 'ended: and now?']);
});

t.test('a request makes few comparisons for messages that the session does not have', async (t) => {
  const session = await openSession();
  for (let at = 0; at < 7; at += 1)
    await (await session.openTurn({ id: `m${at}`, text: `text ${at}`, trigger: 'user' })).end();
  const later = reopenSession(session);
  const open = later.openTurn.bind(later);
  let requests = 0;
  later.openTurn = (...request: Parameters<typeof open>) => {
    requests += 1;
    return open(...request);
  };
  const texts = ['one', 'two', 'three'];
  const imported = texts.flatMap((text) => [new HumanMessage(text), new AIMessage('answer')]);
  const model = openChatModel(later, () => ({ text: 'answer' }));
  t.equal((await model.invoke([...imported, new HumanMessage('next')])).text, 'answer');
  t.equal(requests, 5 + texts.length + 1);
});

t.test('an app ends the turn of a run that ended with a tool', async (t) => {
  const session = await openSession();
  const question = new HumanMessage('heat');
  const said = await openChatModel(session, () => ({ call: 'c1' }), { messageId: 'm1' }).invoke([question]);
  t.match(await session.turn('m1').end('warm'), { state: 'ended' });
  t.match(await session.turn('m1').look(), { outputs: [{ text: 'warm' }] });
  let asked = '';
  const answerTo: AnswerTo = (_at, messages) => {
    asked = messages;
    return { text: 'done' };
  };
  const result = new ToolMessage({ content: 'warm', tool_call_id: 'c1', name: 'oven' });
  const messages = [question, said, result, new HumanMessage('bye')];
  t.equal((await openChatModel(session, answerTo, { messageId: 'm2' }).invoke(messages)).text, 'done');
  t.match(asked, /left out/);
  t.same(await listTurns(session), ['ended: heat', 'ended: bye']);
});

t.test('messages of a session that was cleared elsewhere do not stop the ones after it', async (t) => {
  const session = await openSession();
  await createAsk(session, () => ({ text: 'answer' }), { messageId: 'm1' })('hello');
  const model = openChatModel(reopenSession(session), () => ({ text: 'answer' }));
  const hello = [new HumanMessage('hello'), new AIMessage('answer')];
  await model.invoke([...hello, new HumanMessage('next')]);
  await session.clear({ by: 'user' });
  const other = [new HumanMessage('other'), new AIMessage('answer'), new HumanMessage('more')];
  t.equal((await model.invoke(other)).text, 'answer');
  t.same((await listTurns(session)).slice(-2), ['ended: other', 'ended: more']);
});

t.test('words that come again without their picture are a new message', async (t) => {
  const session = await openSession();
  const asked: string[] = [];
  const answerTo: AnswerTo = (at, prompt) => {
    asked.push(prompt);
    if (at === 0) throw new Error('no model');
    return { text: 'answer' };
  };
  const model = wrapLanguageModel({ model: createAiModel(answerTo), middleware: aiSdk.bulkhead(session) });
  const words = { type: 'text' as const, text: 'What is it?' };
  const picture = { type: 'file' as const, mediaType: 'image/png', data: 'iVBORw0KGgo=' };
  const first = { role: 'user' as const, content: [words, picture] };
  const again = { role: 'user' as const, content: [words] };
  await t.rejects(generateText({ model, messages: [first], maxRetries: 0 }), /no model/);
  await generateText({ model, messages: [first, again], maxRetries: 0 });
  t.same(await listTurns(session), ['ended: What is it?', 'ended: What is it?']);
  t.equal(asked[1]?.match(/iVBORw0KGgo/g)?.length, 1, 'the picture is in the first message alone');
});

t.test('words whose turn was cleared or ended elsewhere are a new message', async (t) => {
  const session = await openSession();
  const ask = createAsk(session, (at) => ({ text: at % 2 === 0 ? 'classified' : 'answer' }));
  await t.rejects(ask('hello'), { name: 'VetoError' });
  await reopenSession(session).clear({ by: 'user' });
  t.equal(await ask('hello'), 'answer');
  await t.rejects(ask('again'), { name: 'VetoError' });
  const left = (await session.turns({ state: 'open' })).items;
  await reopenSession(session)
    .turn(left[0]?.id ?? '')
    .end();
  t.equal(await ask('again'), 'answer');
  t.same((await session.turns({ state: 'open' })).items, []);
});

t.test('a run that goes on after its session was cleared is stopped', async (t) => {
  const session = await openSession();
  const model = openChatModel(session, (at) => (at === 0 ? { call: 'c1' } : { text: 'answer' }));
  const message = new HumanMessage('hello');
  const said = await model.invoke([message]);
  await reopenSession(session).clear({ by: 'user' });
  const result = new ToolMessage({ content: 'warm', tool_call_id: 'c1', name: 'oven' });
  await t.rejects(model.invoke([message, said, result]), { code: 'turn_ended' });
  t.same(
    (await session.messages()).items.filter(({ role }) => role === 'user'),
    [],
  );
});

t.test('the id of the app is of one message, and sent again it is judged once', async (t) => {
  const session = await openSession();
  const answerTo: AnswerTo = () => ({ text: 'answer' });
  const ask = createAsk(session, answerTo, { messageId: 'm1' });
  t.equal(await ask('hello'), 'answer');
  await t.rejects(ask('hello'), { code: 'turn_ended' });
  await t.rejects(createAsk(session, answerTo, { messageId: 'm1' })('as a template: hello'), { code: 'turn_ended' });
  t.equal(await ask('of an agent that works for the first'), 'answer');
  t.match((await session.turns()).items, [{ id: 'm1', trigger: 'user' }, { trigger: 'tool' }]);
});
