/** Plugins' model providers for clients of OpenAI's protocol: its own client, and two frameworks. */
import { randomUUID } from 'node:crypto';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { OpenAIClient } from '@langchain/openai';
import { generateText, jsonSchema, stepCountIs, streamText, tool, wrapLanguageModel } from 'ai';
import { pino } from 'pino';
import t from 'tap';
import { bulkhead } from '../../../sdk/adapters/ai-sdk.ts';
import { connect } from '../../../sdk/session/client.ts';
import { soakTest } from '../../runner/soak.ts';
import { startSupervisorFixture, withStartedPlugins } from '../supervisor-fixture.ts';

const operatorLog: string[] = [];
const logger = pino({ level: 'error' }, { write: (line: string) => void operatorLog.push(line) });
const fixture = await startSupervisorFixture(t, { logger });
const baseURL = `${await fixture.app.listen({ port: 0, host: '127.0.0.1' })}/v1`;
await fixture.install({
  slug: 'acme',
  code: `providers.brain = {
    models: [{ id: 'small', name: 'Small' }],
    chat(request) {
      const last = request.messages.at(-1);
      const answer = (text, more = {}) => ({ text, model: request.model, usage: { inputTokens: 3, outputTokens: 4 }, ...more });
      if (last.text === 'fail') throw new Error('the secret reason');
      if (last.role === 'tool') return answer('It is ' + last.text + ' for ' + last.toolCallId);
      if (request.tools) return answer('', { toolCalls: [{ id: 'c1', name: request.tools[0].name, arguments: { a: 2, b: 3 } }] });
      if (last.images) return answer(last.images[0].mimeType + ' ' + last.images[0].data.length);
      return answer(JSON.stringify({ messages: request.messages, maxTokens: request.maxTokens, schema: request.schema }));
    },
  };`,
});
/** Yields what it is told, each when the command `next` was run; `ended` says how it ended. */
const DRIP = `let gates = [];
  const gate = (index) => (gates[index] ??= Promise.withResolvers());
  const whole = { model: 'm', usage: { inputTokens: 1, outputTokens: 2 } };
  let passed = 0;
  const endings = {};
  const ending = (mode) => (endings[mode] ??= Promise.withResolvers());
  const answers = {
    words: { yields: ['The ', 'quick ', 'brown ', 'fox ', 'jumps'].map((text) => ({ text })), returns: { text: 'The quick brown fox jumps.' } },
    calls: {
      yields: [
        { text: 'So: ' },
        { toolCall: { index: 0, id: 'c1', name: 'add' } },
        { toolCall: { index: 0, argumentsText: '{"a": 2, ' } },
        { toolCall: { index: 0, argumentsText: '"b": 3}' } },
      ],
      returns: { text: 'So: ', toolCalls: [{ id: 'c1', name: 'add', arguments: { a: 2, b: 3 } }, { id: 'c2', name: 'stop', arguments: {} }] },
    },
    broken: { yields: [{ text: 'Some ' }], throws: 'the vendor is gone' },
    vetoed: { yields: [{ text: 'Some ' }], cancels: 'not today' },
    shapeless: { yields: [{ text: 'Some ' }, { text: 5 }], returns: { text: 'Some ' } },
    other: { yields: [{ text: 'Some ' }], returns: { text: 'None' } },
    otherCall: { yields: [{ toolCall: { index: 0, id: 'c1', name: 'add', argumentsText: '{}' } }], returns: { text: '', toolCalls: [{ id: 'c1', name: 'add', arguments: { a: 1 } }] } },
    lateCall: { yields: [{ text: 'Some ' }, { toolCall: { index: 1, id: 'c1', name: 'add' } }], returns: { text: 'Some ' } },
    long: { yields: [{ text: 'Some ' }, { text: 'x'.repeat(262_140) }], returns: { text: '' } },
    longCall: {
      yields: Array.from({ length: 5 }, () => ({ toolCall: { index: 0, id: 'c1', name: 'add', argumentsText: 'x'.repeat(250_000) } })),
      returns: { text: '' },
    },
    secret: { yields: ['It is zk-0', '123', '456789, 1', '\\ud83d', '\\ude42.'].map((text) => ({ text })), returns: { text: 'It is zk-0123456789, 1\\ud83d\\ude42.' } },
  };
  providers.tap = {
    models: [{ id: 'm', name: 'M' }],
    async *chat(request, ctx) {
      const [name, mode] = request.messages.at(-1).text.split(' ');
      const { yields, returns, throws, cancels } = answers[name];
      try {
        for (const delta of yields) {
          if (mode === 'gated') await gate(passed++).promise;
          yield delta;
        }
        if (throws) throw new Error(throws);
        if (cancels) ctx.cancel(cancels);
        if (mode?.startsWith('open')) await new Promise((_resolve, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)));
        return { ...returns, ...whole };
      } finally {
        ending(mode).resolve('aborted: ' + ctx.signal.aborted);
      }
    },
  };
  commands.next = { description: 'd', handler: (input) => (gate(Number(input)).resolve(), 'ok') };
  commands.ended = { description: 'd', handler: (mode) => ending(mode).promise };`;
/** Yields nothing, so that its answer is passed on when it has ended. */
const WHOLE = `providers.whole = {
  models: [{ id: 'm', name: 'M' }],
  chat: () => ({ text: 'all of it', model: 'm', usage: { inputTokens: 1, outputTokens: 2 } }),
};`;
await fixture.install({ slug: 'drip', secrets: { key: 'zk-0123456789' }, code: DRIP });
const token = await fixture.issuer.issue('ann');
const client = new OpenAIClient({ baseURL, apiKey: token, maxRetries: 0 });
const model = 'acme__brain/small';
const hello = [{ role: 'user' as const, content: 'hello' }];

t.test('OpenAI’s client asks a model and lists models', async (t) => {
  const messages = [{ role: 'developer' as const, content: 'Be brief.' }, ...hello];
  const schema = { type: 'object', properties: { a: { type: 'number' } } };
  const { choices, usage, object } = await client.chat.completions.create({
    model,
    messages,
    max_completion_tokens: 9,
    top_p: 0.5,
    response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
  });
  t.equal(object, 'chat.completion');
  t.equal(choices[0]?.finish_reason, 'stop');
  t.same(JSON.parse(choices[0]?.message.content ?? ''), {
    messages: [
      { role: 'system', text: 'Be brief.' },
      { role: 'user', text: 'hello' },
    ],
    maxTokens: 9,
    schema,
  });
  t.match(usage, { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 });
  t.match((await client.models.list()).data, [{ id: model, object: 'model', owned_by: 'acme' }]);
});

t.test('it streams, and sends pictures', async (t) => {
  const url = `data:image/png;base64,${Buffer.from('pixels').toString('base64')}`;
  const content = [
    { type: 'text' as const, text: 'look' },
    { type: 'image_url' as const, image_url: { url } },
  ];
  const stream = await client.chat.completions.create({
    model,
    messages: [{ role: 'user', content }],
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = '';
  const ends: unknown[] = [];
  let total = 0;
  for await (const { choices, usage } of stream) {
    text += choices[0]?.delta.content ?? '';
    if (choices[0]?.finish_reason) ends.push(choices[0].finish_reason);
    total = usage?.total_tokens ?? total;
  }
  t.equal(text, 'image/png 8');
  t.same(ends, ['stop']);
  t.equal(total, 7);
  const elsewhere = [{ type: 'image_url' as const, image_url: { url: 'https://example.com/a.png' } }];
  await t.rejects(client.chat.completions.create({ model, messages: [{ role: 'user', content: elsewhere }] }), {
    status: 400,
    message: /data: address/,
  });
});

t.test('content that no provider gets is refused by its name', async (t) => {
  const parts = [
    { type: 'input_audio' as const, input_audio: { data: 'AAAA', format: 'wav' as const } },
    { type: 'file' as const, file: { file_id: 'f' } },
  ];
  for (const part of parts)
    await t.rejects(
      client.chat.completions.create({
        model,
        messages: [{ role: 'user', content: [{ type: 'text', text: 'hear' }, part] }],
      }),
      { status: 400, message: new RegExp(`“${part.type}” is not supported`) },
      part.type,
    );
});

t.test('one model is found by its id, and every error below /v1 has OpenAI’s form', async (t) => {
  t.match(await client.models.retrieve(model), { id: model, object: 'model', owned_by: 'acme' });
  const call = async (method: 'GET' | 'POST', url: string, authorization = `Bearer ${token}`) => {
    const { statusCode, headers, json } = await fixture.app.inject({ method, url, headers: { authorization } });
    return { statusCode, type: headers['content-type'], body: json() };
  };
  t.match(await call('GET', `/v1/models/${model}`), { statusCode: 200, body: { id: model } }, 'with a slash');
  const wrong = { message: String, type: 'invalid_request_error', param: null };
  for (const [status, method, url, code] of [
    [404, 'GET', '/v1/models/acme__brain%2Flarge', 'not_found'],
    [404, 'GET', '/v1/models/acme__brain/large', 'not_found'],
    [405, 'GET', '/v1/chat/completions', 'method_not_allowed'],
    [404, 'POST', '/v1/embeddings', 'not_found'],
    [404, 'POST', '/v1/responses', 'not_found'],
    [400, 'GET', '/v1/%zz', 'bad_request'],
  ] as const) {
    const answer = { statusCode: status, type: /^application\/json/, body: { error: { ...wrong, code } } };
    t.match(await call(method, url), answer, `${method} ${url}`);
  }
  t.match(await call('GET', '/v1/models/x', ''), {
    statusCode: 401,
    body: { error: { type: 'authentication_error' } },
  });
  t.match(await call('GET', '/v2/models'), { statusCode: 404, type: /problem\+json/ }, 'elsewhere');
});

t.test('tools are called, streamed and by a framework', async (t) => {
  const parameters = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } };
  const tools = [{ type: 'function' as const, function: { name: 'add', parameters } }];
  const stream = await client.chat.completions.create({ model, messages: hello, tools, stream: true });
  const calls = [];
  for await (const { choices } of stream) calls.push(...(choices[0]?.delta.tool_calls ?? []));
  t.match(calls, [{ index: 0, id: 'c1', function: { name: 'add', arguments: '{"a":2,"b":3}' } }]);

  const add = tool({
    inputSchema: jsonSchema<{ a: number; b: number }>(parameters as never),
    execute: async ({ a, b }) => a + b,
  });
  const provider = createOpenAICompatible({ name: 'acme', baseURL, apiKey: token });
  const { text } = await generateText({
    model: provider(model),
    prompt: 'add',
    tools: { add },
    stopWhen: stepCountIs(3),
  });
  t.equal(text, 'It is 5 for c1');
});

const drip = 'drip__tap/m';
const say = (content: string) => [{ role: 'user' as const, content }];
const stream = (content: string, options = {}) =>
  client.chat.completions.create({ model: drip, messages: say(content), stream: true, ...options });
const session = await fixture.session();
const command = async (name: string, input: string | number = '') => {
  const { body } = await fixture.call('POST', `/sessions/${session}/commands/drip__${name}`, { input: String(input) });
  return body.text;
};

t.test('each piece leaves before the plugin has the next', async (t) => {
  // The plugin yields a piece when the one before has arrived here.
  let seen = 0;
  const texts: string[] = [];
  const asked = stream('words gated', { stream_options: { include_usage: true } });
  await command('next', seen);
  for await (const { choices, usage } of await asked) {
    if (usage) t.equal(usage.total_tokens, 3);
    const { content } = choices[0]?.delta ?? {};
    if (!content) continue;
    texts.push(content);
    seen += 1;
    await command('next', seen);
  }
  t.same(texts, ['The ', 'quick ', 'brown ', 'fox ', 'jumps', '.'], 'what the whole has beyond them comes at the end');
  t.equal(await command('ended', 'gated'), 'aborted: false');
});

soakTest(t, 'tool calls in pieces', async (t) => {
  const deltas = [];
  let finish = '';
  for await (const { choices } of await stream('calls')) {
    deltas.push(...(choices[0]?.delta.tool_calls ?? []));
    finish = choices[0]?.finish_reason ?? finish;
  }
  t.same(deltas, [
    { index: 0, id: 'c1', type: 'function', function: { name: 'add', arguments: '' } },
    { index: 0, function: { arguments: '{"a": 2, ' } },
    { index: 0, function: { arguments: '"b": 3}' } },
    { index: 1, id: 'c2', type: 'function', function: { name: 'stop', arguments: '{}' } },
  ]);
  t.equal(finish, 'tool_calls');
  const provider = createOpenAICompatible({ name: 'drip', baseURL, apiKey: token });
  const streamed = streamText({ model: provider(drip), prompt: 'calls' });
  t.match(await streamed.toolCalls, [
    { toolName: 'add', input: { a: 2, b: 3 } },
    { toolName: 'stop', input: {} },
  ]);
  const { choices } = await client.chat.completions.create({ model: drip, messages: say('calls') });
  t.match(choices[0]?.message, { content: 'So: ', tool_calls: [{ id: 'c1' }, { id: 'c2' }] }, 'whole as well');
});

t.test('an error in mid-stream ends it, in OpenAI’s form', async (t) => {
  const read = async (content: string) => {
    let text = '';
    try {
      for await (const { choices } of await stream(content)) text += choices[0]?.delta.content ?? '';
      return { text };
    } catch (error) {
      const { code, message } = error as { code: string; message: string };
      return { text, code, message };
    }
  };
  const fails = (message: string) => ({ code: 'plugin_failed', message: `drip__tap failed: ${message}` });
  t.match(await read('broken'), { text: 'Some ', ...fails('the vendor is gone') });
  t.match(await read('vetoed'), { text: 'Some ', code: 'cancelled', message: 'drip__tap refused: not today' });
  t.match(await read('shapeless'), {
    text: 'Some ',
    code: 'plugin_failed',
    message: /yielded a malformed delta: text: must be text/,
  });
  t.match(await read('other'), {
    text: 'Some ',
    ...fails('the text that it returned does not begin with the text that it yielded'),
  });
  t.match(await read('otherCall'), fails('tool call 0 that it returned is not the one that it yielded'));
  t.match(await read('lateCall'), {
    text: 'Some ',
    message: /^drip__tap failed: the first delta of tool call 1 must have/,
  });
  t.match(await read('long'), { text: 'Some ', ...fails('it yielded more than 262144 characters of text') });
  t.match(await read('longCall'), fails('it yielded more than 1048576 characters of arguments'));
  t.match(await read('secret'), { text: 'It is [secret key], 1🙂.' }, 'a secret that is split, and half a letter');
  const logged = await fixture.readLog('providers.tap (error): the vendor is gone');
  t.equal(logged.length, 1);
});

t.test('a stream ends with its token', async (t) => {
  const revocable = await fixture.issueRevocable();
  const other = new OpenAIClient({ baseURL, apiKey: revocable.token, maxRetries: 0 });
  const lasting = await other.chat.completions.create({ model: drip, messages: say('words open-1'), stream: true });
  const read = async () => {
    for await (const { choices } of lasting) if (choices[0]?.delta.content === 'jumps') await revocable.revoke();
  };
  await t.rejects(read(), { code: 'unauthenticated', message: 'The token is invalid or expired. Sign in again.' });
  t.equal(await command('ended', 'open-1'), 'aborted: true');
});

t.test('an adapter judges a plugin’s model like any other', async (t) => {
  const own = withStartedPlugins(fixture.withNewAccount());
  await own.install({ slug: 'drip-2', code: DRIP });
  const judged = await own.session();
  const apiKey = await fixture.issuer.issue(own.account);
  const sessions = connect({ url: baseURL.slice(0, -'/v1'.length), token: apiKey });
  const plain = createOpenAICompatible({ name: 'drip', baseURL, apiKey })('drip-2__tap/m');
  const pieces = async (): Promise<string[]> => {
    const model = wrapLanguageModel({ model: plain, middleware: bulkhead(sessions.open(judged)) });
    const texts: string[] = [];
    for await (const text of streamText({ model, prompt: 'words' }).textStream) texts.push(text);
    return texts;
  };
  t.same(await pieces(), ['The ', 'quick ', 'brown ', 'fox ', 'jumps', '.'], 'untouched where no plugin judges');
  await own.install({
    slug: 'dog-guard',
    code: `middleware.outboundMessage = { stream: true, handler: ({ message }) => ({ message: { text: message.text.replaceAll('fox', 'dog') } }) };`,
  });
  t.equal((await pieces()).join(''), 'The quick brown dog jumps.');
  const { items } = (await own.call('GET', `/sessions/${judged}/messages`)).body;
  t.same(
    items.filter(({ role }: { role: string }) => role === 'assistant').map(({ text }: { text: string }) => text),
    ['The quick brown fox jumps.', 'The quick brown dog jumps.'],
  );
});

t.test('closing the request aborts the plugin', async (t) => {
  const left = await stream('words open');
  for await (const { choices } of left) if (choices[0]?.delta.content === 'jumps') break;
  t.equal(await command('ended', 'open'), 'aborted: true');
  t.notMatch(operatorLog.join(''), /the runtime closed the request/, 'which is no error that operators hear of');
});

soakTest(t, 'a caller that leaves before it reads the last piece ends the call', async (t) => {
  const own = fixture.withNewAccount();
  const { accountId } = await own.install({ slug: 'brain', code: WHOLE });
  const plugin = (await own.supervisor.pluginsCache.get(accountId)).plugins[0];
  if (!plugin) throw new Error('it is not installed');
  const left = new AbortController();
  const result = await own.supervisor.fleet.invoke(plugin, {
    target: { kind: 'providers', name: 'whole' },
    invocationId: randomUUID(),
    session: null,
    deadlineAt: Date.now() + 60_000,
    context: { settings: {}, request: { messages: [], model: 'm' } },
    signal: left.signal,
    onDelta: () => {
      left.abort();
      return new Promise(() => undefined);
    },
  });
  t.match(result, { kind: 'unavailable', message: 'its caller left before it read the answer' });
});

t.test('a session’s provider streams to the client of the session API', async (t) => {
  const sessions = connect({ url: baseURL.slice(0, -'/v1'.length), token });
  const opened = sessions.open(session);
  const ask = (text: string) => opened.streamCompletion('drip__tap', { messages: [{ role: 'user', text }] });
  const pieces: string[] = [];
  const words = ask('words');
  let next = await words.next();
  for (; !next.done; next = await words.next()) pieces.push(next.value);
  t.same(pieces, ['The ', 'quick ', 'brown ', 'fox ', 'jumps', '.']);
  t.same(next.value, { text: pieces.join(''), model: 'm', usage: { inputTokens: 1, outputTokens: 2 } });
  const broken = ask('broken');
  t.same(await broken.next(), { done: false, value: 'Some ' });
  await t.rejects(broken.next(), { name: 'BulkheadError', status: 502, code: 'plugin_failed' });
  for await (const piece of ask('words open-3')) if (piece === 'jumps') break;
  t.equal(await command('ended', 'open-3'), 'aborted: true', 'a reader that leaves aborts the call');
  const none = opened.streamCompletion('drip__none', { messages: [{ role: 'user', text: '' }] });
  await t.rejects(none.next(), { name: 'BulkheadError', status: 404 });
});

t.test('errors are in OpenAI’s form', async (t) => {
  const ask = (fields: object, key = token) =>
    new OpenAIClient({ baseURL, apiKey: key, maxRetries: 0 }).chat.completions.create({
      model,
      messages: hello,
      ...fields,
    } as never);
  await t.rejects(ask({}, 'nonsense'), { status: 401, type: 'authentication_error', code: 'unauthenticated' });
  await t.rejects(ask({ model: 'acme__brain/big' }), {
    status: 422,
    code: 'invalid_arguments',
    message: /it has small/,
  });
  await t.rejects(ask({ model: 'nobody' }), { status: 404, code: 'not_found', message: /GET \/v1\/models/ });
  await t.rejects(ask({ messages: [] }), { status: 400, code: 'bad_request', param: 'messages' });
  const failed = await ask({ messages: [{ role: 'user', content: 'fail' }], stream: true }).then(
    () => null,
    (error: Error) => error,
  );
  t.match(failed, { status: 502, code: 'plugin_failed', type: 'server_error' }, 'before a stream begins');
  const bob = await fixture.issuer.issue('bob');
  await t.rejects(ask({}, bob), { status: 404, code: 'not_found' });
});

t.test('the JSON in texts of a body is bounded, too', async (t) => {
  const ask = (text: string, calls = 1) => {
    const call = { id: 'c', type: 'function', function: { name: 'add', arguments: text } };
    const messages = [{ role: 'assistant', tool_calls: Array.from({ length: calls }, () => call) }, ...hello];
    return fixture.call('POST', '/v1/chat/completions', { model, messages });
  };
  const field = 'messages.0.tool_calls.0.function.arguments';
  const deep = { message: `${field}: the text nests deeper than 90 levels.`, param: field };
  t.match(await ask(`${'['.repeat(1e6)}${']'.repeat(1e6)}`), { status: 400, body: { error: deep } });
  t.match(await ask(`${'['.repeat(90)}${']'.repeat(90)}`), { status: 200 });
  t.match(await ask(`[${'0,'.repeat(10_000)}0]`), { status: 200 });
  t.match(await ask(`[${'0,'.repeat(10_000)}0]`, 20), { status: 413, body: { error: { code: 'too_large' } } });
  t.match(await ask('{'), {
    status: 400,
    body: { error: { message: /arguments: the text is not JSON/, param: field } },
  });
  t.match(await ask(''), { status: 200 }, 'of a tool without parameters, as some models write it');
});

soakTest(t, 'a stream that outlasts its supervisor breaks off', async (t) => {
  const lasting = await stream('words open-2');
  const read = async () => {
    for await (const { choices } of lasting)
      if (choices[0]?.delta.content === 'jumps') await fixture.supervisor.stop(Promise.resolve());
  };
  await t.rejects(read());
});
