/** Plugins' model providers for clients of OpenAI's protocol: its own client, and two frameworks. */
import type { AddressInfo } from 'node:net';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { OpenAIClient } from '@langchain/openai';
import { generateText, jsonSchema, stepCountIs, tool } from 'ai';
import t from 'tap';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const fixture = await startSupervisorFixture(t);
await fixture.app.listen({ port: 0, host: '127.0.0.1' });
const baseURL = `http://127.0.0.1:${(fixture.app.server.address() as AddressInfo).port}/v1`;
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
  const deep = 'messages: the text of a tool call’s arguments nests deeper than 90 levels.';
  t.match(await ask(`${'['.repeat(1e6)}${']'.repeat(1e6)}`), { status: 400, body: { error: { message: deep } } });
  t.match(await ask(`${'['.repeat(90)}${']'.repeat(90)}`), { status: 200 });
  t.match(await ask(`[${'0,'.repeat(10_000)}0]`), { status: 200 });
  t.match(await ask(`[${'0,'.repeat(10_000)}0]`, 20), { status: 413, body: { error: { code: 'too_large' } } });
  t.match(await ask('{'), { status: 400, body: { error: { message: /arguments is not JSON/ } } });
});
