/** `host.models` and `host.llm` against servers that speak the vendors' wire formats. */
import type { ServerResponse } from 'node:http';
import { APICallError } from 'ai';
import t from 'tap';
import { readUsage } from '../../../db/accounts/model-usage.ts';
import { notifyInstallationChanged } from '../../../db/postgres/notifications.ts';
import { Invocations } from '../../../supervisor/calls/invocations.ts';
import type { HostScope } from '../../../supervisor/host/host-call.ts';
import type { ModelProvider } from '../../../supervisor/host/llm/configuration.ts';
import { askEndpoint } from '../../../supervisor/host/llm/endpoint.ts';
import { type LlmDeps, openLlm } from '../../../supervisor/host/llm/llm.ts';
import { EndpointFault } from '../../../supervisor/host/llm/model.ts';
import { eventually } from '../../runner/eventually.ts';
import { connectionEnds } from '../../runner/open-ends.ts';
import { amount, listCases } from '../../runner/soak.ts';
import { type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';
import { ASK, hello, writeTool } from './asking-plugin.ts';
import {
  anthropic,
  anthropicUntil,
  type ModelServer,
  openAi,
  openAiDelta,
  openAiEvents,
  openAiInPieces,
  refuse,
  startModelServer,
  stream,
} from './model-server.ts';

const KEY = 'sk-very-secret-0123456789';
const price = { inputPerMillion: 1_000_000, outputPerMillion: 2_000_000 };
const providerOf = (server: ModelServer, more: Partial<ModelProvider> = {}): ModelProvider => ({
  name: 'main',
  kind: 'openai',
  baseUrl: server.url,
  apiKey: KEY,
  structuredOutputs: true,
  models: [{ id: 'org/big', name: 'Big', contextWindow: 128_000, price }],
  ...more,
});
const asker = { slug: 'asker', capabilities: ['host.llm', 'host.models'], code: ASK };

async function run(fixture: SupervisorFixture, slug: string, args: unknown = {}) {
  const path = `/sessions/${await fixture.session()}/tools/${slug}__run`;
  // A first start may be late on a busy machine; the answer says so and asks to come again.
  const body = await eventually(async () => {
    const answer = await fixture.call('POST', path, { arguments: args });
    return answer.status === 503 ? null : answer.body;
  });
  return body.content?.[0]?.json ?? body.content?.[0]?.text ?? body;
}

const server = await startModelServer(t);
const claude = { id: 'claude', name: 'C', contextWindow: undefined, price: undefined };
const fixture = await startSupervisorFixture(t, {
  models: [providerOf(server), providerOf(server, { name: 'other', kind: 'anthropic', models: [claude] })],
});
const installed = await fixture.install(asker);
/** What the supervisor of `logging` logged. */
const errors: string[] = [];
const logging = await startSupervisorFixture(t, {
  models: [providerOf(server, { apiKey: 'letters_only' })],
  onError: ({ message }) => void errors.push(message),
});
await logging.install(asker);

t.test('without a model the error names the setting', async (t) => {
  const bare = await startSupervisorFixture(t);
  await bare.install(asker);
  const result = await run(bare, 'asker', hello);
  t.match(result.refused, /no model is configured: set MODELS_FILE/);
});

t.test('an OpenAI-compatible model is called with streaming and answers as a whole', async (t) => {
  server.answers = [openAiInPieces(3, 'Grü', 'ße, ', '世界 🌍')];
  const result = await run(fixture, 'asker', {
    system: 'Be brief.',
    maxTokens: 50,
    temperature: 0.5,
    messages: [
      { role: 'user', text: 'hi' },
      { role: 'assistant', text: 'yes?' },
      { role: 'system', text: 'In German.' },
      { role: 'user', text: 'greet' },
    ],
  });
  t.same(result, { text: 'Grüße, 世界 🌍', model: 'main/org/big', usage: { inputTokens: 11, outputTokens: 7 } });
  const received = server.asked.at(-1);
  t.equal(received?.path, '/v1/chat/completions');
  t.equal(received?.headers.authorization, `Bearer ${KEY}`);
  t.match(received?.body, { model: 'org/big', stream: true, max_tokens: 50, temperature: 0.5 });
  t.same(received?.body.stream_options, { include_usage: true });
  t.same(received?.body.messages, [
    { role: 'system', content: 'Be brief.\n\nIn German.' },
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: 'yes?' },
    { role: 'user', content: 'greet' },
  ]);
  const metrics = await fixture.supervisor.metrics.registry.metrics();
  t.match(metrics, 'bulkhead_model_tokens_total{slug="asker",provider="main",direction="input"} 11');
  t.match(metrics, 'bulkhead_model_tokens_total{slug="asker",provider="main",direction="output"} 7');
  t.match(metrics, 'bulkhead_model_cost_total{slug="asker",provider="main"} 25');
});

t.test('maxTokens is sent in the field that the endpoint accepts', async (t) => {
  const ask = async (baseUrl: string, more: Partial<ModelProvider> = {}) => {
    let body = {};
    await askEndpoint({
      provider: providerOf(server, { baseUrl, ...more }),
      modelId: 'big',
      request: { messages: [{ role: 'user', text: 'hello' }], maxTokens: 50 },
      signal: new AbortController().signal,
      fetch: async (_url, init) => {
        body = JSON.parse(String(init?.body));
        return new Response(openAiEvents(['hi']).toString(), { headers: { 'content-type': 'text/event-stream' } });
      },
      onBrokenOff: () => undefined,
    });
    const { max_tokens, max_completion_tokens } = body as Record<string, unknown>;
    return { max_tokens, max_completion_tokens };
  };
  const old = { max_tokens: 50, max_completion_tokens: undefined };
  const current = { max_tokens: undefined, max_completion_tokens: 50 };
  t.same(await ask('https://api.openai.com/v1'), current);
  t.same(await ask('https://eu.api.openai.com/v1/'), current);
  t.same(await ask('https://models.example.com/v1'), old);
  t.same(await ask('https://api.openai.com.example.com/v1'), old);
  t.same(await ask('https://notapi.openai.com/v1'), old);
  t.same(await ask('https://models.example.com/v1', { maxTokensField: 'max_completion_tokens' }), current);
  t.same(await ask('https://api.openai.com/v1', { maxTokensField: 'max_tokens' }), old);
});

t.test('an Anthropic model too', async (t) => {
  server.answers = [anthropic('Hello ', 'there')];
  const result = await run(fixture, 'asker', { ...hello, system: 'Be kind.', model: 'claude' });
  t.same(result, { text: 'Hello there', model: 'other/claude', usage: { inputTokens: 21, outputTokens: 9 } });
  const received = server.asked.at(-1);
  t.equal(received?.path, '/v1/messages');
  t.equal(received?.headers['x-api-key'], KEY);
  t.match(received?.body, { model: 'claude', stream: true, system: [{ type: 'text', text: 'Be kind.' }] });
});

t.test('a busy model is retried after its delay; a rejected key is not retried and not shown', async (t) => {
  server.answers = [refuse(429, 'slow down', { 'retry-after': '1' }), openAi('done')];
  const started = performance.now();
  t.equal((await run(fixture, 'asker', hello)).text, 'done');
  t.ok(performance.now() - started >= 950, 'Retry-After was waited for');
  server.answers = [refuse(503, 'overloaded', { 'retry-after-ms': '10' }), openAi('again')];
  t.equal((await run(fixture, 'asker', hello)).text, 'again');
  server.asked.length = 0;
  server.answers = [refuse(401, `Incorrect API key provided: ${KEY}`)];
  const refused = await run(fixture, 'asker', hello);
  t.match(refused.refused, /main rejected the operator’s key \(401\)/);
  t.notMatch(JSON.stringify(refused), KEY);
  t.equal(server.asked.length, 1);
  server.answers = [(response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()];
  server.asked.length = 0;
  t.match((await run(fixture, 'asker', hello)).refused, /main redirects \(302\)/, 'redirects are not followed');
  t.equal(server.asked.length, 1);
});

t.test('a request that is refused for a minute or longer is not repeated', async (t) => {
  const inAnHour = new Date(Date.now() + 3_600_000).toUTCString();
  const all = [{ 'retry-after': '60' }, { 'retry-after': '86400' }, { 'retry-after': inAnHour }];
  const waits = amount({ quick: all.slice(0, 1), soak: all });
  for (const headers of [...waits, { 'retry-after-ms': '60000', 'retry-after': '1' }])
    for (const [status, refused] of [
      [429, 'main accepts no more requests for now (429); try again later'],
      [503, 'main failed (503); try again later'],
    ] as const) {
      server.asked.length = 0;
      server.answers = [refuse(status, 'wait', headers), openAi('too early')];
      t.same(await run(fixture, 'asker', hello), { refused: `host.llm.complete: ${refused}` });
      t.equal(server.asked.length, 1);
    }
});

t.test('a refusal names what the endpoint refused, also in the log of the supervisor, and shows no key', async (t) => {
  errors.length = 0;
  const refusals: [object, string][] = [
    [{ code: 'unsupported_parameter', param: 'max_tokens' }, ': unsupported_parameter, max_tokens'],
    [{ type: 'invalid_request_error', code: null, param: null }, ': invalid_request_error'],
    [{ code: 'letters_only', param: 'is.letters_only' }, ''],
    [{ code: KEY, param: `see ${KEY}` }, ''],
    [{ code: 400, param: { name: 'n' } }, ''],
  ];
  for (const [error, names] of refusals) {
    server.answers = [
      (response) => {
        response.writeHead(400, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ error: { message: KEY, ...error } }));
      },
    ];
    const refused = `main rejected this request (400)${names}`;
    t.same(await run(logging, 'asker', hello), { refused: `host.llm.complete: ${refused}` });
  }
  const logged = (refused: string) =>
    `A call of the plugin asker to a model endpoint of MODELS_FILE failed: main rejected this request (400)${refused}.`;
  const first = [': unsupported_parameter, max_tokens', ': invalid_request_error', ''].map(logged);
  t.same(errors, first, 'what repeats is counted');
});

t.test('a wrong baseUrl and an endpoint that fails are named in the log of the supervisor', async (t) => {
  errors.length = 0;
  const page = (type: string, text: string) => (response: ServerResponse) =>
    void response.writeHead(200, { 'content-type': type }).end(text);
  const noStream = 'main sends no stream of events; check its baseUrl';
  const faults: readonly [ModelServer['answers'][number], string][] = [
    [
      refuse(308, 'moved', { location: server.url }),
      'main redirects (308); its baseUrl must be the address that it redirects to',
    ],
    [page('text/html', '<p>Sign in</p>'), noStream],
    [page('application/json', '{"choices":[{"message":{"content":"hi"}}]}'), noStream],
    [refuse(503, 'overloaded', { 'retry-after-ms': '1' }), 'main failed (503); try again later'],
    [(response) => void stream(response).end('data: {not json\n\n'), 'main failed while it answered'],
  ];
  for (const [answer, fault] of faults) {
    server.answers = [answer];
    t.same(await run(logging, 'asker', hello), { refused: `host.llm.complete: ${fault}` });
  }
  t.same(
    errors,
    [...new Set(faults.map(([, fault]) => fault))].map(
      (fault) => `A call of the plugin asker to a model endpoint of MODELS_FILE failed: ${fault}.`,
    ),
  );
});

t.test('an endpoint that cannot be reached is named with the code of the error', async (t) => {
  let calls = 0;
  const asking = askEndpoint({
    provider: providerOf(server),
    modelId: 'big',
    request: { messages: [{ role: 'user', text: 'hello' }] },
    signal: new AbortController().signal,
    fetch: async () => {
      calls += 1;
      // As the library makes it of what fetch throws, except for the pause before the next try.
      throw new APICallError({
        message: `of ${KEY}`,
        url: server.url,
        requestBodyValues: {},
        responseHeaders: { 'retry-after-ms': '1' },
        cause: Object.assign(new Error(KEY), { code: 'ENOTFOUND' }),
        isRetryable: true,
      });
    },
    onBrokenOff: () => undefined,
  });
  await t.rejects(asking, { constructor: EndpointFault, message: 'main cannot be reached (ENOTFOUND)' });
  t.equal(calls, 4);
});

t.test('an interrupted answer is an error', async (t) => {
  const half = openAiDelta('half of ');
  server.answers = [
    (response) => void stream(response).write(half, () => response.socket?.destroy()),
    (response) => void stream(response).end(half),
    (response) => void stream(response).end(`${half}data: {"error":{"message":"secret ${KEY}"}}\n\n`),
    (response) => void stream(response).end('data: {not json\n\n'),
  ];
  for (const how of ['connection cut', 'no end', 'an error in the stream', 'no JSON']) {
    const { refused } = await run(fixture, 'asker', hello);
    t.match(refused, /^host\.llm\.complete: main (failed while it answered|broke off|cannot be reached)/, how);
    t.notMatch(refused, KEY);
  }
});

const openAiUntil = (finish: string) => (response: ServerResponse) =>
  void stream(response).end(openAiEvents(['{"n":'], undefined, finish));

const cutOffs = {
  length: [openAiUntil('length'), 'main/org/big'],
  content_filter: [openAiUntil('content_filter'), 'main/org/big'],
  max_tokens: [anthropicUntil('max_tokens', 'half of '), 'other/claude'],
  refusal: [anthropicUntil('refusal', 'half of '), 'other/claude'],
} as const;
for (const [n, [how, [answer, model]]] of listCases(cutOffs, 'length', 'refusal').entries())
  t.test(`an answer that the model cuts off is an error that says why, and is not free: ${how}`, async (t) => {
    const own = fixture.withNewAccount();
    const { installationId } = await own.install({ ...asker, slug: `cut-off-${n}` });
    const isFilter = how === 'content_filter' || how === 'refusal';
    const [name] = model.split('/');
    server.answers = [answer];
    t.same(await run(own, `cut-off-${n}`, { ...hello, model }), {
      refused: isFilter
        ? `host.llm.complete: ${name} withheld its answer, or the rest of it: its content filter stopped it`
        : `host.llm.complete: ${name} cut its answer off at its own limit of tokens; set maxTokens, or ask for a shorter answer`,
    });
    const total = await eventually(async () => {
      const usage = await readUsage(own.pool, installationId);
      return usage.total.outputTokens > 0 && usage.total;
    });
    t.match(total, { answers: 0, ...(name === 'main' ? { inputTokens: 11, outputTokens: 7 } : { inputTokens: 21 }) });
  });

t.test('an answer that ends at the maxTokens of its request is returned, except as JSON', async (t) => {
  server.answers = [openAiUntil('length')];
  const { text, usage } = await run(fixture, 'asker', { ...hello, maxTokens: 7 });
  t.same({ text, usage }, { text: '{"n":', usage: { inputTokens: 11, outputTokens: 7 } });
  t.same(await run(fixture, 'asker', { ...hello, maxTokens: 7, schema: { type: 'object' } }), {
    refused: 'host.llm.complete: main cut its answer off at 7 tokens; raise maxTokens, or ask for less',
  });
});

t.test('an endless answer is stopped and its connection closed', async (t) => {
  server.answers = [
    (response) => {
      stream(response);
      const more = (): void => {
        if (!response.destroyed) response.write(openAiDelta('x'.repeat(10_000)), () => setImmediate(more));
      };
      more();
    },
  ];
  t.match((await run(fixture, 'asker', hello)).refused, /longer than 262144 characters/);
  await eventually(async () => server.sockets.size === 0);
  server.answers = [
    (response) => {
      stream(response);
      const more = (): void => {
        if (!response.destroyed) response.write('x'.repeat(65_536), () => setImmediate(more));
      };
      more();
    },
  ];
  t.match((await run(fixture, 'asker', hello)).refused, /main failed|main broke off/, 'one line without end');
  await eventually(async () => server.sockets.size === 0);
});

t.test('a child that exits during a call leaves no connection', async (t) => {
  server.answers = [openAi('warm')];
  await run(fixture, 'asker', hello);
  const silent = (response: Parameters<typeof stream>[0]) => void stream(response).write(openAiDelta('and then'));
  server.answers = [silent];
  server.asked.length = 0;
  const asking = Promise.all([1, 2, 3, 4].map(() => run(fixture, 'asker', hello)));
  await eventually(async () => server.asked.length === 4);
  await fixture.supervisor.fleet.retire(installed.installationId, 0);
  await asking;
  const port = Number(new URL(server.url).port);
  t.ok(await eventually(async () => server.sockets.size === 0 && connectionEnds(port) === 0), 'at both ends');
});

t.test('revoking the grant ends the call and closes its connection', async (t) => {
  const held = await fixture.install({ ...asker, slug: 'held' });
  server.answers = [(response) => void stream(response).write(openAiDelta('and then'))];
  server.asked.length = 0;
  const asking = run(fixture, 'held', hello);
  await eventually(async () => server.asked.length === 1);
  await fixture.pool.query(
    `UPDATE installations SET granted_capabilities = '{tools.run}', updated_at = clock_timestamp() WHERE id = $1`,
    [held.installationId],
  );
  await notifyInstallationChanged(fixture.pool, held.installationId);
  t.match((await asking).refused, /host\.llm\.complete is not granted any more/);
  await eventually(async () => server.sockets.size === 0);
});

t.test('a structured answer is validated against the schema of its request', async (t) => {
  const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
  server.answers = [openAi('{"ci', 'ty":"Bern"}')];
  const result = await run(fixture, 'asker', { ...hello, schema });
  t.same(result.json, { city: 'Bern' });
  t.same(server.asked.at(-1)?.body.response_format.json_schema.schema, schema);
  server.answers = [openAi('```json\n{"city":"Bern"}\n```')];
  t.same((await run(fixture, 'asker', { ...hello, schema })).json, { city: 'Bern' });
  server.answers = [openAi('{"city":7}')];
  t.match((await run(fixture, 'asker', { ...hello, schema })).refused, /does not fit the schema: city must be string/);
  server.answers = [openAi('Bern.')];
  t.match((await run(fixture, 'asker', { ...hello, schema })).refused, /is not JSON/);
  server.asked.length = 0;
  const remote = { $ref: 'http://127.0.0.1:1/schema.json' };
  t.match((await run(fixture, 'asker', { ...hello, schema: remote })).refused, /schema cannot be used/);
  t.equal(server.asked.length, 0, 'no model is called with a schema that cannot be checked');
  server.answers = [openAi('"x"')];
  const loop = { allOf: [{ $ref: '#' }] };
  t.match((await run(fixture, 'asker', { ...hello, schema: loop })).refused, /schema cannot be used: .*without end/);
});

t.test('an answer whose check never ends costs the plugin that asked', async (t) => {
  const { installationId } = await fixture.install({ ...asker, slug: 'endless' });
  server.answers = [openAi(JSON.stringify(`${'a'.repeat(60)}!`))];
  server.asked.length = 0;
  let hasEnded = false;
  const endless = run(fixture, 'endless', { ...hello, schema: { pattern: '^(a+)+$' } }).finally(() => {
    hasEnded = true;
  });
  await eventually(async () => server.asked.length === 1);
  server.answers = [openAi('{"city":"Bern"}')];
  t.match((await run(fixture, 'asker', { ...hello, schema: { type: 'object' } })).json, { city: 'Bern' });
  t.equal(hasEnded, false);
  await fixture.supervisor.fleet.retire(installationId, 0);
  await endless;
});

t.test('one installation asks for eight answers at once, no more', async (t) => {
  await fixture.install({
    ...asker,
    slug: 'crowd',
    code: writeTool(`
      let refused = 0;
      const countRefusal = (error) => {
        refused += 1;
        if (refused === 2) host.log('two are refused');
        return error.message;
      };
      const one = () => host.llm.complete(args).then(() => 'ok', countRefusal);
      return { content: [{ type: 'json', json: await Promise.all(Array.from({ length: 10 }, one)) }] };`),
  });
  // Those of a run that was given up, as a late start makes it, do not count.
  const waiting = new Set<() => void>();
  server.answers = [
    (response) => {
      const go = () => openAi('x')(response);
      waiting.add(go);
      response.once('close', () => waiting.delete(go));
    },
  ];
  // The plugin may send its last calls when the first ones have arrived: those wait until the last ones are refused.
  const isRefused = async () => {
    await fixture.supervisor.logs.flush();
    return (await fixture.pool.query("SELECT FROM plugin_logs WHERE message = 'two are refused'")).rows.length > 0;
  };
  const running: Promise<string[]> = run(fixture, 'crowd', hello);
  await eventually(async () => waiting.size === 8 && (await isRefused())).catch(() => undefined);
  for (const each of waiting) each();
  const outcomes = await running;
  t.equal(outcomes.filter((outcome) => outcome === 'ok').length, 8, outcomes.join('; '));
  t.equal(outcomes.filter((outcome) => /more than 8 calls at once/.test(outcome)).length, 2);
});

t.test('an account that uses its share of the model calls leaves connections for the others', async (t) => {
  const held = await startModelServer(t);
  held.answers = [() => undefined];
  const { supervisor, pool } = fixture;
  const llm = openLlm({
    otherPlugins: { loadPlugins: async () => ({ plugins: [] }) } as unknown as LlmDeps['otherPlugins'],
    invocations: new Invocations(),
    metrics: supervisor.metrics,
    pool,
    models: [providerOf(held)],
    tokensPerDay: 0,
    // The accounts do not exist, so their tokens are not counted.
    onError: () => undefined,
  });
  t.teardown(() => llm.close());
  const ask = (accountId: string, installationId: string) => {
    const plugin = { accountId, installationId, slug: 'asker' };
    const scope = { plugin, signal: new AbortController().signal } as unknown as HostScope;
    return llm.calls['llm.complete'](scope, { request: { messages: [{ role: 'user', text: 'hi' }] } }).then(
      ({ text }) => text,
      (error: Error) => error.message,
    );
  };
  const share = Array.from({ length: 64 }, (_, at) => ask('ann', `one-${at % 8}`));
  t.match(await ask('ann', 'two'), 'this account already runs 64 model calls');
  await eventually(async () => held.asked.length === 64);
  held.answers = [openAi('x')];
  t.equal(await ask('ben', 'three'), 'x');
  await llm.close();
  await Promise.all(share);
});

t.test('waiting for a model does not use up a hook’s time', async (t) => {
  await fixture.install({
    ...asker,
    slug: 'thinker',
    code: `middleware.systemPrompt = async (ctx) =>
      (await host.llm.complete({ messages: [{ role: 'user', text: ctx.systemPrompt }] })).text;`,
  });
  server.answers = [(response) => void setTimeout(() => stream(response).end(openAiEvents(['thought over'])), 3_500)];
  const session = await fixture.session();
  const answer = await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, {
    context: { systemPrompt: 'p', model: 'm' },
  });
  t.match(JSON.stringify(answer.body), 'thought over', 'its budget is three seconds');
});
