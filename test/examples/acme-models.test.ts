/** `acme-models`: its models are asked like any other, and its vendor, which streams, with `fetch`. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { OpenAIClient } from '@langchain/openai';
import t from 'tap';
import { STREAM_BOUNDS } from '../../supervisor/host/http/body-streams.ts';
import { eventually } from '../runner/eventually.ts';
import { killProcess } from '../runner/harness.ts';
import { soakTest } from '../runner/soak.ts';
import { type Installed, type SupervisorFixture, startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';
import { readExample, startVendor } from './example.ts';

const requests: { authorization: string | undefined; body: unknown }[] = [];
let status = 200;
const formatChunk = (chunk: object) => `data: ${JSON.stringify(chunk)}\n\n`;
const textChunk = (content: string) => formatChunk({ choices: [{ delta: { content } }] });
const callChunk = (part: object) => formatChunk({ choices: [{ delta: { tool_calls: [part] } }] });
const END = `${formatChunk({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 2 } })}data: [DONE]\n\n`;

/** An answer that the test goes on with. */
let held: ServerResponse | null = null;
const vendor = await startVendor(t, ['api.acme.example'], async (request, response) => {
  const body = JSON.parse((await request.toArray()).join(''));
  requests.push({ authorization: request.headers.authorization, body });
  response.writeHead(status, { 'content-type': 'text/event-stream' });
  const asked = body.messages.at(-1).content;
  if (asked === 'hold') {
    held = response;
    response.write(textChunk('0'));
  } else if (asked === 'call') {
    const called = { index: 0, id: 'c1', function: { name: 'add', arguments: '{"a":' } };
    response.end(callChunk(called) + callChunk({ index: 0, function: { arguments: '2}' } }) + END);
  } else response.end(textChunk('Fo') + textChunk('ur.') + END);
});
// Acme may be silent for longer than the hosts of other handlers, which get no response in a millisecond.
const bounds = { ...STREAM_BOUNDS, idleMs: 1 };
const fixture = await startSupervisorFixture(t, { http: { ...vendor.http, bounds } });
const install = async (on: SupervisorFixture): Promise<Installed> =>
  on.install(await readExample('acme-models', { secrets: { apiKey: 'acme-canary' }, addresses: vendor.addresses }));
const installed = await install(fixture);
await fixture.install({
  slug: 'asker',
  capabilities: ['host.llm', 'host.models:read'],
  code: `tools.run = { description: 'd', parameters: { type: 'object' }, handler: async (args) => {
    const said = args.messages ? await host.llm.complete(args).catch((error) => ({ refused: error.message })) : await host.models.list();
    return { content: [{ type: 'json', json: said }] };
  } };`,
});

async function run(args: object) {
  const path = `/sessions/${await fixture.session()}/tools/asker__run`;
  // A first start may be late on a busy machine; the answer says so and asks to come again.
  return eventually(async () => {
    const { body } = await fixture.call('POST', path, { arguments: args });
    const answer = body.content?.[0]?.json;
    return /is unavailable now/.test(answer?.refused) ? null : answer;
  });
}
const question = { messages: [{ role: 'user', text: '2 + 2?' }], model: 'acme-models__acme/deep' };

t.test('its models are listed and asked', async (t) => {
  t.match(await run({}), [
    { id: 'acme-models__acme/swift', name: 'Acme Swift', contextWindow: 32_000 },
    { id: 'acme-models__acme/deep' },
  ]);
  const answer = await run({ ...question, system: 'Be brief.', maxTokens: 5 });
  t.same(answer, { text: 'Four.', model: question.model, usage: { inputTokens: 9, outputTokens: 2 } });
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: '2 + 2?' },
  ];
  t.same(requests.at(-1), {
    authorization: 'Bearer acme-canary',
    body: { model: 'deep', messages, max_tokens: 5, stream: true, stream_options: { include_usage: true } },
  });
});

t.test('what it cannot do and what Acme refuses is a failure, and no words of it get out', async (t) => {
  const before = requests.length;
  t.match((await run({ ...question, schema: { type: 'object' } })).refused, /acme-models__acme failed/);
  t.equal(requests.length, before);
  status = 401;
  const { refused } = await run(question);
  status = 200;
  t.match(refused, /acme-models__acme failed/);
  t.notMatch(refused, /401|canary/);
});

const baseURL = `${await fixture.app.listen({ port: 0, host: '127.0.0.1' })}/v1`;
const client = new OpenAIClient({ baseURL, apiKey: await fixture.issuer.issue('ann'), maxRetries: 0 });
const stream = (content: string) =>
  client.chat.completions.create({
    model: question.model,
    messages: [{ role: 'user', content }],
    stream: true,
  });

t.test('Acme sends each piece when the one before has reached the client of /v1/chat/completions', async (t) => {
  const texts: string[] = [];
  for await (const { choices } of await stream('hold')) {
    const text = choices[0]?.delta.content;
    if (!text) continue;
    texts.push(text);
    if (texts.length < 5) held?.write(textChunk(String(texts.length)));
    else held?.end(END);
  }
  t.same(texts, ['0', '1', '2', '3', '4']);
});

soakTest(t, 'its tool calls arrive in pieces', async (t) => {
  const calls = [];
  for await (const { choices } of await stream('call')) calls.push(...(choices[0]?.delta.tool_calls ?? []));
  t.same(calls, [
    { index: 0, id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a":' } },
    { index: 0, function: { arguments: '2}' } },
  ]);
});

/** Ends a stream after its first piece. @returns what the client got, when Acme's connection is closed as well */
async function breakOff(asked: typeof stream, end: () => unknown): Promise<{ text: string; failure: Error | null }> {
  let text = '';
  try {
    for await (const { choices } of await asked('hold')) {
      const piece = choices[0]?.delta.content;
      if (!piece) continue;
      text += piece;
      const closed = held && once(held, 'close');
      await end();
      await closed;
    }
    return { text, failure: null };
  } catch (failure) {
    return { text, failure: failure as Error };
  }
}

soakTest(t, 'in mid-stream: the client leaves, the plugin loses its host, its process dies', async (t) => {
  const left = await stream('hold');
  for await (const { choices } of left) if (choices[0]?.delta.content) break;
  await once(held as unknown as ServerResponse, 'close');

  const revoked = await breakOff(stream, async () => {
    await fixture.pool.query(
      `UPDATE installations SET granted_capabilities = array_remove(granted_capabilities, 'host.http:api.acme.example'),
         updated_at = clock_timestamp() WHERE id = $1`,
      [installed.installationId],
    );
    await fixture.notify(installed.installationId);
  });
  t.match(revoked, { text: '0', failure: { code: 'plugin_failed', message: 'acme-models__acme failed: terminated' } });
  await fixture.pool.query(
    `UPDATE installations SET granted_capabilities = granted_capabilities || '{host.http:api.acme.example}',
       updated_at = clock_timestamp() WHERE id = $1`,
    [installed.installationId],
  );
  await fixture.notify(installed.installationId);

  const killed = await breakOff(stream, () => killProcess(fixture.supervisor.fleet.getPid(installed.installationId)));
  t.match(killed, { text: '0', failure: { code: /^(plugin_failed|unavailable)$/ } });
});
