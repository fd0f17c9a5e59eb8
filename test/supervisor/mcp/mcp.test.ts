/** A session as a Model Context Protocol server, asked by the official client over HTTP. */
import { randomUUID } from 'node:crypto';
import { registerHooks } from 'node:module';
import type { AddressInfo } from 'node:net';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CancelledNotificationSchema,
  type ClientCapabilities,
  ElicitationCompleteNotificationSchema,
  ElicitRequestSchema,
  type ElicitResult,
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import t, { type Test } from 'tap';
import { saveSecret } from '../../../db/files/secrets.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { readEvents } from '../../../sdk/session/event-stream.ts';
import { Transport } from '../../../sdk/session/transport.ts';
import { issueRecordedToken } from '../../../service/identity/recorded-tokens.ts';
import { untilLockIsAwaited } from '../../fixtures/lock-waits.ts';
import { registerParts } from '../../fixtures/registrations.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { storeKey, waitForKey } from '../held-handlers.ts';
import {
  type SupervisorFixture,
  startPlugin,
  startSupervisorFixture,
  withStartedPlugins,
} from '../supervisor-fixture.ts';

const fixture = await startSupervisorFixture(t, { sessionApi: { consoleUrl: 'https://console.example' } });
await fixture.app.listen({ port: 0, host: '127.0.0.1' });
const { port } = fixture.app.server.address() as AddressInfo;

const code = `
  tools.add = {
    description: 'Adds one',
    parameters: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] },
    handler: ({ a }) => ({ content: [{ type: 'json', json: { sum: a + 1 } }] }),
  };
  tools.fail = { description: 'Fails', parameters: {}, handler: () => { throw new Error('the shelf is empty'); } };
  tools.wait = {
    description: 'Waits until nobody wants it any more',
    parameters: {},
    handler: (args, ctx) => new Promise((resolve) => ctx.signal.addEventListener('abort', () => { host.log('given up', { why: ctx.signal.reason.message }); resolve('x'); })),
  };
  commands.greet = { description: 'Greets', handler: (input) => 'Greet ' + input };
`;
const installed = await fixture.install({
  slug: 'kit',
  code,
  capabilities: ['host.http:api.example.com'],
  files: {
    'skills/bread/SKILL.md': '---\nname: bread\ndescription: Bakes\n---\nKnead.',
    'skills/bread/table.csv': 'a,b\n',
  },
  discovered: { skills: [{ name: 'bread', description: 'Bakes' }], commands: [] },
});

const connect = (test: Test, session: string, account = 'ann') => connectTo(test, `/sessions/${session}/mcp`, account);

/** @param mayStream when the client's request for its stream is sent */
async function connectTo(test: Test, path: string, account: string, mayStream: Promise<void> = Promise.resolve()) {
  const client = new Client({ name: 'test', version: '1.0.0' });
  const streamOpened = Promise.withResolvers<void>();
  const transport = new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}${path}`), {
    requestInit: { headers: { authorization: `Bearer ${await fixture.issuer.issue(account)}` } },
    fetch: async (url, init) => {
      if (init?.method === 'GET') await mayStream;
      const response = await fetch(url, init);
      if (init?.method === 'GET') streamOpened.resolve();
      return response;
    },
  });
  test.teardown(() => client.close());
  await client.connect(transport as never);
  // The client opens its stream by itself once it is connected.
  return { client, transport, streamOpened: streamOpened.promise };
}
const session = await fixture.session();

t.test('a server that could not be loaded for one request is loaded for the next', async (t) => {
  let isBroken = true;
  const hooks = registerHooks({
    resolve: (specifier, context, nextResolve) => {
      if (specifier !== './connections.ts' || !isBroken) return nextResolve(specifier, context);
      isBroken = false;
      throw new Error('EMFILE: too many open files');
    },
  });
  t.teardown(() => hooks.deregister());
  await t.rejects(connectTo(t, '/mcp', 'ann'), { code: 500 });
  const { client } = await connectTo(t, '/mcp', 'ann');
  t.ok((await client.listTools()).tools.length > 0);
});

t.test('the clients of the account’s address share one session', async (t) => {
  const [one, two] = await Promise.all([connectTo(t, '/mcp', 'ann'), connectTo(t, '/mcp', 'ann')]);
  for (const { client } of [one, two]) {
    const names = (await client.listTools()).tools.map(({ name }) => name);
    t.ok(names.includes('kit__add'));
    t.match(await client.callTool({ name: 'kit__add', arguments: { a: 1 } }), { structuredContent: { sum: 2 } });
  }
  const { items } = (await fixture.call('GET', '/sessions?limit=1000')).body;
  t.equal(items.filter(({ agentId }: { agentId: string }) => agentId === 'mcp').length, 1);
  const bob = await connectTo(t, '/mcp', 'bob');
  t.same((await bob.client.listTools()).tools, [], 'each account has its own');
});

t.test('only a message starts the session of the account’s address', async (t) => {
  const own = fixture.withNewAccount();
  const token = await issueRecordedToken(own.pool, own.issuer, {
    subject: own.account,
    name: 'reader',
    scopes: ['sessions:read'],
  });
  const headers = { authorization: `Bearer ${token}`, accept: 'text/event-stream' };
  const { status } = await fetch(`http://127.0.0.1:${port}/mcp`, { headers });
  t.equal(status, 404);
  t.same((await own.call('GET', '/sessions')).body.items, []);
});

t.test('a token that may only read opens streams of connections that exist, and begins none with its id', async (t) => {
  const own = fixture.withNewAccount();
  const read = { subject: own.account, name: 'reader', scopes: ['sessions:read'] as const };
  const authorization = `Bearer ${await issueRecordedToken(own.pool, own.issuer, read)}`;
  const { transport } = await connectTo(t, '/mcp', own.account);
  const open = async (id = '') => {
    const headers = { authorization, accept: 'text/event-stream', 'mcp-session-id': id };
    const { status, body } = await fetch(`http://127.0.0.1:${port}/mcp`, { headers });
    await body?.cancel();
    return status;
  };
  t.equal(await open(transport.sessionId), 200);
  t.equal(await open(`${randomUUID()}.`), 404);
});

t.test('tools of the host are described, and one that is turned off ends in open connections, too', async (t) => {
  const { body } = await fixture.call('POST', '/sessions', { agentId: 'a', hostTools: ['todo', 'ssh'] });
  const { client } = await connect(t, body.id);
  const { tools } = await client.listTools();
  for (const [name, openWorldHint] of Object.entries({ todo__list: false, ssh__run: true }))
    t.match(tools.find((tool) => tool.name === name)?.annotations, { openWorldHint }, name);
  const list = { name: 'todo__list', arguments: {} };
  t.notOk((await client.callTool(list)).isError);
  t.equal((await fixture.call('PUT', `/sessions/${body.id}/tools`, { hostTools: [] })).status, 200);
  t.same(
    (await client.listTools()).tools.filter(({ name }) => name === list.name),
    [],
  );
  await t.rejects(client.callTool(list), /No tool has this name/);
});

t.test('the stream of a connection ends with its token', async (t) => {
  const { token, revoke } = await fixture.issueRevocable('ann');
  const streamOpened = Promise.withResolvers<number>();
  const transport = new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/sessions/${session}/mcp`), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      if (init?.method === 'GET') streamOpened.resolve(response.status);
      return response;
    },
    reconnectionOptions: {
      maxRetries: 0,
      initialReconnectionDelay: 1,
      maxReconnectionDelay: 1,
      reconnectionDelayGrowFactor: 1,
    },
  });
  const client = new Client({ name: 'test', version: '1.0.0' });
  t.teardown(() => client.close());
  await client.connect(transport as never);
  t.equal(await streamOpened.promise, 200);
  const broken = new Promise<Error>((resolve) => {
    client.onerror = resolve;
  });
  const revokedAt = performance.now();
  await revoke();
  await broken;
  t.ok(performance.now() - revokedAt < 10_000, `${performance.now() - revokedAt} ms`);
  await t.rejects(client.listTools(), /401|invalid or expired/);
});

t.test('tools are listed with their schemas and called', async (t) => {
  const { client } = await connect(t, session);
  t.match(client.getServerVersion(), { name: 'bulkhead' });
  const { tools } = await client.listTools();
  t.match(
    tools.find(({ name }) => name === 'kit__add'),
    {
      title: 'add (kit)',
      description: 'Adds one',
      inputSchema: { type: 'object', required: ['a'] },
      annotations: { openWorldHint: true },
    },
  );
  t.match(await client.callTool({ name: 'kit__add', arguments: { a: 2 } }), {
    content: [{ type: 'text', text: '{"sum":3}' }],
    structuredContent: { sum: 3 },
    isError: false,
  });
  t.match(await client.callTool({ name: 'kit__fail' }), { isError: true, content: [{ text: /the shelf is empty/ }] });
  t.match(await client.callTool({ name: 'kit__add', arguments: { a: 'x' } }), {
    isError: true,
    content: [{ text: 'arguments.a must be number.' }],
  });
  await t.rejects(client.callTool({ name: 'kits__add' }), { code: -32_602, message: /Did you mean kit__add/ });
});

t.test('the own text of a plugin that does not load reaches no model', async (t) => {
  const own = fixture.withNewAccount();
  const registrations = registerParts({ tools: { run: { description: 'd', parameters: {} } } });
  await own.install({ slug: 'unloadable', code: 'throw new Error("SECRET");', registrations });
  const { client } = await connect(t, await own.session(), own.account);
  t.match(await client.callTool({ name: 'unloadable__run' }), {
    isError: true,
    content: [{ text: 'unloadable__run: its code does not load; its own log says why' }],
  });
});

t.test('commands are prompts', async (t) => {
  const { client } = await connect(t, session);
  t.match(await client.listPrompts(), {
    prompts: [{ name: 'kit__greet', description: 'Greets', arguments: [{ name: 'input' }] }],
  });
  const { messages } = await client.getPrompt({ name: 'kit__greet', arguments: { input: 'Bob' } });
  t.same(messages, [{ role: 'user', content: { type: 'text', text: 'Greet Bob' } }]);
  await t.rejects(client.getPrompt({ name: 'kit__none' }), { code: -32_602 });
});

t.test('skills with their files are resources', async (t) => {
  const { client } = await connect(t, session);
  const { resources } = await client.listResources();
  t.match(resources, [
    { uri: 'skill://kit__bread/SKILL.md', name: 'kit__bread', description: 'Bakes', mimeType: 'text/markdown' },
    { uri: 'skill://kit__bread/table.csv', size: 4 },
  ]);
  t.match(await client.readResource({ uri: 'skill://kit__bread/SKILL.md' }), { contents: [{ text: 'Knead.' }] });
  t.match(await client.readResource({ uri: 'skill://kit__bread/table.csv' }), { contents: [{ text: 'a,b\n' }] });
  t.match((await client.listResourceTemplates()).resourceTemplates, [{ uriTemplate: 'media://{id}' }]);
  for (const uri of [
    'skill://kit__bread/../x',
    'skill://kit__bread/%2e%2e/x',
    'skill://other__x/SKILL.md',
    'media://none',
    'file:///etc/passwd',
  ]) {
    await t.rejects(client.readResource({ uri }), { code: -32_002 }, uri);
  }
});

t.test('prompts and resources are judged like calls of tools', async (t) => {
  const own = withStartedPlugins(fixture.withNewAccount());
  const { slug } = await own.install({
    code: `commands.say = { description: 'Says', handler: (input) => {
        if (input === 'fail') throw new Error('SECRET');
        return 'say ' + input;
      } };
      tools.keep = { description: 'Keeps', parameters: {}, handler: async (args) => {
        const { id } = await host.media.put(new TextEncoder().encode(args.text), args.mediaType);
        return id;
      } };`,
    capabilities: ['host.media'],
    files: { 'skills/s/SKILL.md': '---\nname: s\ndescription: Bakes\n---\nSECRET' },
    discovered: { skills: [{ name: 's', description: 'Bakes' }], commands: [] },
  });
  await own.install({
    slug: `guard-${own.account}`,
    required: true,
    code: `middleware.toolCall = ({ call, cancel }) => {
        if (call.name === 'run_command' && call.arguments.input === 'never') cancel('never');
        if (call.name === 'run_command' && call.arguments.input === 'old') return { call: { arguments: { input: 'new' } } };
      };
      middleware.toolResult = ({ result, cancel }) => {
        const text = JSON.stringify(result);
        if (text.includes('SECRET')) cancel('no secrets');
        if (text.includes('drawn')) return { result: { ...result, content: [
          { type: 'text', text: 'Its labels are hidden.' },
          { type: 'image', mimeType: 'image/png', data: 'AAEC' },
          { type: 'json', json: { labels: 2 } },
        ] } };
        if (text.includes('lengthy')) return { result: { ...result, content: [
          { type: 'text', text: result.content[0].text.replace('lengthy', 'long') },
        ] } };
        if (text.includes('stale')) return { result: { ...result, content: [{ type: 'text', text: 'good' }] } };
      };`,
  });
  const opened = await own.session();
  const { client } = await connect(t, opened, own.account);
  const say = async (input: string) => {
    const { messages } = await client.getPrompt({ name: `${slug}__say`, arguments: { input } });
    return messages[0]?.content.type === 'text' ? messages[0].content.text : null;
  };
  t.equal(await say('hi'), 'say hi');
  t.equal(await say('stale'), 'good', 'as plugins change it');
  t.equal(await say('old'), 'say new');
  await t.rejects(say('SECRET'), { message: /withheld its result: no secrets/ });
  await t.rejects(say('never'), { message: /cancelled the operation: never/ });
  await t.rejects(say('fail'), { message: /withheld its result: no secrets/ }, 'an error has text of the plugin');
  const read = async (uri: string) => (await client.readResource({ uri })).contents[0];
  await t.rejects(read(`skill://${slug}__s/SKILL.md`), { message: /no secrets/ });
  const keep = async (text: string, mediaType: string) => {
    const kept = await own.call('POST', `/sessions/${opened}/tools/${slug}__keep`, { arguments: { text, mediaType } });
    return `media://${kept.body.content[0].text}`;
  };
  await t.rejects(read(await keep('SECRET', 'text/plain')), { message: /no secrets/ });
  t.match(await read(await keep('stale', 'text/plain')), { mimeType: 'text/plain', text: 'good' });
  const long = await read(await keep(`lengthy${'x'.repeat(300_000)}`, 'text/plain'));
  t.match(long, { text: /^long(x{300000})$/ }, 'larger than a result of a tool');
  const uri = await keep('drawn', 'text/plain');
  t.same(
    (await client.readResource({ uri })).contents,
    [
      { uri, mimeType: 'text/plain', text: 'Its labels are hidden.' },
      { uri, mimeType: 'image/png', blob: 'AAEC' },
      { uri, mimeType: 'application/json', text: '{"labels":2}' },
    ],
    'each part that a plugin returns, with the bytes of a picture',
  );
  const { messages: drawn } = await client.getPrompt({ name: `${slug}__say`, arguments: { input: 'drawn' } });
  t.same(
    drawn.map(({ content }) => content),
    [
      { type: 'text', text: 'Its labels are hidden.' },
      { type: 'image', mimeType: 'image/png', data: 'AAEC' },
      { type: 'text', text: '{"labels":2}' },
    ],
  );
  const file = await keep('%PDF-1.4 fine', 'application/pdf');
  t.match(await read(file), { blob: Buffer.from('%PDF-1.4 fine').toString('base64') }, 'a file that is let pass');
});

soakTest(t, 'resources are listed in pages, each with one query', async (t) => {
  const own = fixture.withNewAccount();
  const names = Array.from({ length: 150 }, (_, index) => `s${index}`);
  const { slug, versionId } = await own.install({
    code: '',
    files: Object.fromEntries(names.map((name) => [`skills/${name}/SKILL.md`, 'Knead.'])),
  });
  // One skill has more files than are listed of it.
  await own.pool.query(
    `INSERT INTO version_files (version_id, path, sha256, size_bytes)
     SELECT version_id, format('skills/%s/%s.csv', skill, n), sha256, size_bytes
       FROM version_files, (VALUES ('s0', 3), ('s7', 400), ('s8', 600), ('s9', 1100)) AS s (skill, files),
            generate_series(1, files) AS n
      WHERE version_id = $1 AND path = 'skills/s0/SKILL.md'`,
    [versionId],
  );
  const { client } = await connect(t, await own.session(), own.account);
  await client.listTools();
  const { query } = fixture.pool;
  let queries = 0;
  fixture.pool.query = ((...args: unknown[]) => {
    if (String(args[0]).includes('version_files')) queries += 1;
    return Reflect.apply(query, fixture.pool, args);
  }) as typeof query;
  t.teardown(() => {
    fixture.pool.query = query;
  });
  const pages: string[][] = [];
  let cursor: string | undefined;
  do {
    const before = queries;
    const page = await client.listResources({ cursor });
    t.equal(queries - before, 1);
    pages.push(page.resources.map(({ uri }) => uri));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  const listed = pages.flat();
  t.equal(new Set(listed).size, listed.length);
  t.same(
    names.filter((name) => !listed.includes(`skill://${slug}__${name}/SKILL.md`)),
    [],
    'every skill is listed',
  );
  t.equal(listed.length, 150 + 3 + 400 + 600 + 1_000);
  t.ok(pages.every((page) => page.length <= 1_100));
  t.ok(pages.length > 2 && pages.length < 8, `${pages.length} pages`);
  await t.rejects(client.listResources({ cursor: 'x' }), { code: -32_602, message: /cursor is invalid/ });
});

t.test('a prompt whose plugin is paused while a hook judges its call reaches no model', async (t) => {
  const own = fixture.withNewAccount();
  const prompts = await own.install({
    slug: `prompts-${own.account}`,
    code: '',
    files: { 'commands/say.md': 'Say it.' },
    discovered: { skills: [], commands: [{ name: 'say', description: 'Says' }] },
  });
  const judge = await own.install({
    slug: `judge-${own.account}`,
    capabilities: ['host.storage'],
    code: `middleware.toolCall = async () => {
      await host.storage.set('asked', true);
      ${waitForKey("'go on'")}
    };`,
  });
  await startPlugin(own, judge);
  const { client } = await connect(t, await own.session(), own.account);
  const answer = client.getPrompt({ name: `${prompts.slug}__say`, arguments: {} });
  const isAsked = `SELECT 1 FROM installation_storage WHERE installation_id = $1 AND key = 'asked'`;
  await eventually(async () => (await own.pool.query(isAsked, [judge.installationId])).rowCount === 1);
  await own.change(prompts, `status = 'paused'`);
  await storeKey(own.pool, judge, 'go on');
  await t.rejects(answer, { message: /may not run any more: it was paused/ });
});

t.test('cancelling a call aborts its handler; a call with a progress token gets notifications', async (t) => {
  const { client } = await connect(t, session);
  const control = new AbortController();
  let notifications = 0;
  const call = client.callTool({ name: 'kit__wait' }, undefined, {
    signal: control.signal,
    onprogress: () => {
      notifications += 1;
      control.abort('the user has left');
    },
  });
  await t.rejects(call);
  t.ok(notifications > 0);
  await eventually(async () => {
    await fixture.supervisor.logs.flush();
    const lines = await fixture.pool.query(`SELECT data FROM plugin_logs WHERE message = 'given up'`);
    return lines.rows.length === 1 && lines.rows[0].data.why.includes('cancelled the call: the user has left');
  });
  t.match(await client.callTool({ name: 'kit__add', arguments: { a: 1 } }), { isError: false }, 'the plugin goes on');
});

t.test('clients are notified of changed lists only', async (t) => {
  const { client, streamOpened } = await connect(t, session);
  const messages: string[] = [];
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void messages.push('tools'));
  client.setNotificationHandler(PromptListChangedNotificationSchema, () => void messages.push('prompts'));
  client.setNotificationHandler(ResourceListChangedNotificationSchema, () => void messages.push('resources'));
  await client.listTools();
  await streamOpened;
  await fixture.install({ slug: 'quiet', code: 'middleware.systemPrompt = (ctx) => ctx.systemPrompt;' });
  await fixture.install({
    slug: 'more',
    code: `tools.one = { description: 'x', parameters: {}, handler: () => 'y' };`,
  });
  await eventually(async () => messages.includes('tools'));
  t.ok((await client.listTools()).tools.some(({ name }) => name === 'more__one'));
  t.same([...new Set(messages)], ['tools']);
});

t.test('a list that changes before the client opens its stream is announced when it opens', async (t) => {
  const allowed = Promise.withResolvers<void>();
  const { client: late } = await connectTo(t, `/sessions/${session}/mcp`, 'ann', allowed.promise);
  // Its changes are looked for after those of the first one.
  const { client: other, streamOpened } = await connect(t, session);
  const announced = (client: Client) =>
    new Promise<void>((resolve) => client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve()));
  const [toLate, toOther] = [announced(late), announced(other)];
  await streamOpened;
  await fixture.install({
    slug: 'before-stream',
    code: `tools.one = { description: 'x', parameters: {}, handler: () => 'y' };`,
  });
  await toOther;
  allowed.resolve();
  await toLate;
  t.pass('it was announced');
});

t.test('a connection belongs to its account and session, and ends on DELETE', async (t) => {
  const { client, transport } = await connect(t, session);
  const id = transport.sessionId ?? '';
  const headers = { 'mcp-session-id': id, accept: 'application/json, text/event-stream' };
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  const requestAs = async (path: string, account: string) =>
    (
      await fixture.app.inject({
        method: 'POST',
        url: path,
        payload: list,
        headers: { ...headers, authorization: `Bearer ${await fixture.issuer.issue(account)}` },
      })
    ).statusCode;
  t.equal(await requestAs(`/sessions/${await fixture.session()}/mcp`, 'ann'), 404, 'another session');
  t.equal(await requestAs(`/sessions/${await fixture.session('bob')}/mcp`, 'bob'), 404, 'another account');
  t.equal(await requestAs(`/sessions/${session}/mcp`, 'bob'), 404, 'another account’s session');
  await transport.terminateSession();
  t.equal(await requestAs(`/sessions/${session}/mcp`, 'ann'), 404, 'ended');
  await t.rejects(client.listTools());
});

/** Sends a batch of requests for the list of tools. */
async function sendLists({ sessionId = '' }: StreamableHTTPClientTransport, count: number) {
  return fixture.app.inject({
    method: 'POST',
    url: `/sessions/${session}/mcp`,
    payload: Array.from({ length: count }, (_, id) => ({ jsonrpc: '2.0', id, method: 'tools/list' })),
    headers: {
      authorization: `Bearer ${await fixture.issuer.issue('ann')}`,
      accept: 'application/json, text/event-stream',
      'mcp-session-id': sessionId,
    },
  });
}

t.test('a batch has few messages, because each can be answered with megabytes', async (t) => {
  const { transport } = await connect(t, session);
  const countLists = (body: string) => body.split('"tools":[').length - 1;
  const refused = await sendLists(transport, 100);
  t.equal(countLists(refused.body), 0);
  t.equal(refused.statusCode, 400);
  const error = { code: -32_600, message: /at most 4 messages.*each message in a request of its own/ };
  t.match(JSON.parse(refused.body), { jsonrpc: '2.0', error, id: null });
  t.equal((await sendLists(transport, 5)).statusCode, 400);
  t.equal(countLists((await sendLists(transport, 4)).body), 4);
});

t.test('a message with more values than the protocol needs is refused before the library copies them', async (t) => {
  const { client, transport } = await connect(t, session);
  const token = await fixture.issuer.issue('ann');
  const send = (message: object, sessionId = transport.sessionId) =>
    fixture.app.inject({
      method: 'POST',
      url: `/sessions/${session}/mcp`,
      payload: { jsonrpc: '2.0', id: 1, ...message },
      headers: {
        authorization: `Bearer ${token}`,
        accept: 'application/json, text/event-stream',
        'mcp-session-id': sessionId,
      },
    });
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 0]));
  const error = { code: -32_600, message: /^A message has at most 1000 properties and list entries\. / };
  const tooLarge: Record<string, object> = {
    params: { method: 'ping', params: many(1_001) },
    meta: { method: 'ping', params: { _meta: many(1_001) } },
    arguments: { method: 'tools/call', params: { name: 'kit__add', arguments: many(1_001) } },
    capabilities: { method: 'initialize', params: { capabilities: { experimental: many(1_001) } } },
    result: { result: { content: many(1_001) } },
    list: { method: 'ping', params: { list: Array(1_001).fill(0) } },
    message: { method: 'ping', ...many(1_001) },
  };
  for (const [name, message] of Object.entries(tooLarge)) {
    const refused = await send(message);
    t.equal(refused.statusCode, 400, name);
    t.match(refused.json(), { jsonrpc: '2.0', error, id: name === 'result' ? null : 1 }, name);
  }
  const pinged = await send({ method: 'ping', params: { ...many(900), _meta: many(50) } });
  t.match(pinged.statusCode, 200);
  const list = Array(5_000).fill({ a: 1 });
  t.match(await client.callTool({ name: 'kit__add', arguments: { a: 1, list } }), { structuredContent: { sum: 2 } });
  t.equal((await send({ method: 'ping', params: { text: 'x'.repeat(MIB) } })).statusCode, 413, 'as long as a call');
});

soakTest(t, 'each list of tools is made in a turn of the event loop of its own', async (t) => {
  const { transport } = await connect(t, session);
  const { pluginsCache } = fixture.supervisor;
  const known = await pluginsCache.get(installed.accountId);
  const turns = new Set<number>();
  let turn = 0;
  let countingTurns = setImmediate(countTurn);
  function countTurn(): void {
    turn += 1;
    countingTurns = setImmediate(countTurn);
  }
  const watched = new Proxy(known, {
    get(target, name) {
      if (name === 'tools') turns.add(turn);
      return Reflect.get(target, name);
    },
  });
  const { get } = pluginsCache;
  pluginsCache.get = async () => watched;
  t.teardown(() => {
    clearImmediate(countingTurns);
    pluginsCache.get = get;
  });
  await sendLists(transport, 4);
  t.equal(turns.size, 4);
});

t.test('invalid protocol messages are rejected and leave no connection', async (t) => {
  const path = `/sessions/${session}/mcp`;
  const authorization = `Bearer ${await fixture.issuer.issue('ann')}`;
  const send = async (payload: unknown, accept = 'application/json, text/event-stream') =>
    (
      await fixture.app.inject({
        method: 'POST',
        url: path,
        payload: payload as object,
        headers: { authorization, accept },
      })
    ).statusCode;
  const { clientInfo: _, ...incomplete } = INITIALIZE.params;
  const refused = await post(path, 'ann', null, { ...INITIALIZE, params: incomplete });
  t.equal(refused.status, 400);
  t.same(await refused.json(), {
    jsonrpc: '2.0',
    id: 1,
    error: { code: -32_602, message: 'params.clientInfo is required and must be an object.' },
  });
  t.equal(await send({ jsonrpc: '2.0', id: 1, method: 'tools/list' }), 400, 'before it introduced itself');
  t.equal(await send({ hello: 1 }), 400);
  t.equal(await send({ jsonrpc: '2.0', id: 1, method: 'tools/list' }, 'text/html'), 406);
  t.equal((await fixture.app.inject({ method: 'POST', url: path, payload: {} })).statusCode, 401);
  t.equal((await fixture.app.inject({ method: 'PUT', url: path, headers: { authorization } })).statusCode, 405);
  t.ok(installed.installationId);
});

t.test('a tool’s operation that a required plugin did not see stops, and the client reads why', async (t) => {
  const account = 'strict';
  const tell = `tools.tell = { description: 'd', parameters: {}, handler: async () => {
    const { id } = await host.agents.create({ name: 'Ann', instructions: '' });
    return (await host.agents.send(id, 'hello')).id;
  } };`;
  const { install } = withStartedPlugins(fixture);
  await install({ slug: 'teller', account, capabilities: ['host.agents'], code: tell });
  const broken = 'middleware.agentMessage = () => { throw new Error("x"); };';
  await install({ slug: 'gate', account, code: broken, required: true });
  const { client } = await connect(t, await fixture.session(account), account);
  const result = await client.callTool({ name: 'teller__tell', arguments: {} });
  t.match(result, { isError: true, content: [{ text: /“gate” failed.*this account requires it/ }] });
  const { rows } = await fixture.pool.query(`SELECT 1 FROM session_messages WHERE text = 'hello'`);
  t.equal(rows.length, 0);
});

/** Installs a plugin of a new account that waits for its configuration: `manifest` has its settings and secrets. */
async function installUnconfigured(manifest: object) {
  const own = fixture.withNewAccount();
  const code = `tools.forecast = { description: 'Tells', parameters: {}, handler: (args, ctx) => ctx.settings.city + ' ' + ctx.settings.unit };
    commands.ask = { description: 'Asks', handler: (input, ctx) => input + ' ' + ctx.settings.city };`;
  const plugin = await own.install({ slug: `sky-${own.account}`, code });
  await setManifest(own, plugin.versionId, manifest);
  await own.pool.query(`UPDATE installations SET status = 'needs_configuration' WHERE id = $1`, [
    plugin.installationId,
  ]);
  await own.notify(plugin.installationId);
  const readInstallation = async () =>
    (await own.pool.query('SELECT settings, status FROM installations WHERE id = $1', [plugin.installationId])).rows[0];
  return { ...plugin, own, code, readInstallation, tool: `${plugin.slug}__forecast` };
}
/** Adds settings and secrets to the manifest of a version. */
const setManifest = ({ pool }: Pick<SupervisorFixture, 'pool'>, versionId: string, manifest: object) =>
  pool.query('UPDATE versions SET manifest = manifest || $2 WHERE id = $1', [versionId, JSON.stringify(manifest)]);

const REQUIRED_SETTINGS = {
  settings: {
    city: { label: 'City', description: 'Where you live.', required: true },
    unit: { required: true, enum: ['', 'C', 'F'] },
    note: { required: false },
  },
};

interface Question {
  readonly mode?: string;
  readonly message: string;
  readonly requestedSchema?: unknown;
  readonly url?: string;
}
type Answerer = (question: Question) => Promise<ElicitResult> | ElicitResult;

/** Connects a client whose user answers questions. */
async function connectUser(
  test: Test,
  token: string,
  answer: Answerer,
  modes: ClientCapabilities['elicitation'] = { form: {} },
  at = port,
) {
  const client = new Client({ name: 'test', version: '1.0.0' }, { capabilities: { elicitation: modes } });
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => answer(params as Question));
  const transport = new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${at}/mcp`), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
  });
  test.teardown(() => client.close());
  await client.connect(transport as never);
  return client;
}

t.test('the user is asked once for required settings, and the calls go on', async (t) => {
  const { own, tool, slug, readInstallation } = await installUnconfigured(REQUIRED_SETTINGS);
  const token = await own.issuer.issue(own.account);
  const questions: Question[] = [];
  const asked = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<ElicitResult>();
  const client = await connectUser(t, token, (question) => {
    questions.push(question);
    asked.resolve();
    return answered.promise;
  });
  t.ok(
    (await client.listTools()).tools.some(({ name }) => name === tool),
    'offered to a client that can ask',
  );
  const first = client.callTool({ name: tool });
  await asked.promise;
  const second = client.getPrompt({ name: `${slug}__ask`, arguments: { input: 'rain in' } });
  // The server answers after it has read the second call.
  await client.ping();
  answered.resolve({ action: 'accept', content: { city: 'Bern', unit: 'C', note: 'not asked for' } });
  t.match(await first, { content: [{ text: 'Bern C' }], isError: false });
  t.match(await second, { messages: [{ content: { text: 'rain in Bern' } }] });
  t.same(questions.length, 1);
  t.match(questions[0], { mode: 'form', message: new RegExp(`“${slug}”.*Its author wrote`) });
  t.same(questions[0]?.requestedSchema, {
    type: 'object',
    properties: {
      city: { type: 'string', title: 'City', description: 'Where you live.', minLength: 1, maxLength: 4096 },
      unit: { type: 'string', title: 'unit', enum: ['C', 'F'] },
    },
    required: ['city', 'unit'],
  });
  t.same(await readInstallation(), { settings: { city: 'Bern', unit: 'C' }, status: 'ready' });
});

t.test('without a valid answer the call says what is missing, and nothing is saved', async (t) => {
  const { own, tool, slug, installationId, readInstallation } = await installUnconfigured(REQUIRED_SETTINGS);
  const token = await own.issuer.issue(own.account);
  const scoped = await issueRecordedToken(own.pool, own.issuer, {
    subject: own.account,
    name: 'scoped',
    scopes: ['sessions:write'],
  });
  const sentence = new RegExp(`“${slug}” cannot run before it has city, unit\\. .*/installations/${installationId}`);
  const refusal = { isError: true, content: [{ text: sentence }] };
  const accept = (content: ElicitResult['content']): ElicitResult => ({ action: 'accept', content });
  const answers: Record<string, readonly [ElicitResult | object, RegExp]> = {
    declined: [{ action: 'decline' }, /did not answer with values/],
    cancelled: [{ action: 'cancel' }, /did not answer with values/],
    'no option': [accept({ city: 'Bern', unit: 'K' }), /not saved: settings\.unit: must be one of .*C, F\./],
    'not all': [accept({ city: 'Bern' }), /answer has no text for unit\./],
    'no values': [accept({}), /answer has no text for city, unit\./],
    'no content': [{ action: 'accept' }, /answer has no text for city, unit\./],
    'an empty value': [accept({ city: '', unit: 'C' }), /answer has no text for city\./],
    'not a text': [accept({ city: 3, unit: 'C' }), /answer has no text for city\./],
    'too long': [accept({ city: 'x'.repeat(4097), unit: 'C' }), /not saved: settings\.city: must be at most 4096/],
    'an unknown form': [{}, /client answered the question with an error or in an unknown form/],
  };
  for (const [why, [answer, text]] of Object.entries(answers)) {
    const client = await connectUser(t, token, () => answer as ElicitResult);
    const called = await client.callTool({ name: tool });
    t.match(called, refusal, why);
    t.match(called, { content: [{ text }] }, why);
    await client.close();
  }
  const neverAsked = () => {
    throw new Error('asked');
  };
  const limited = await connectUser(t, scoped, neverAsked);
  t.match(await limited.callTool({ name: tool }), { content: [{ text: /Its user must do this/ }] }, 'a scoped token');
  const { client: plain } = await connectTo(t, '/mcp', own.account);
  t.same(
    (await plain.listTools()).tools.filter(({ name }) => name === tool),
    [],
    'a client that cannot ask',
  );
  t.match(await plain.callTool({ name: tool }), refusal);
  await t.rejects(plain.getPrompt({ name: `${slug}__ask` }), { code: -32_602, message: sentence });
  t.same(await readInstallation(), { settings: {}, status: 'needs_configuration' });
});

t.test('a client goes on with a connection that this process does not know', async (t) => {
  const { own, tool, readInstallation } = await installUnconfigured(REQUIRED_SETTINGS);
  const headers = { authorization: `Bearer ${await own.issuer.issue(own.account)}` };
  const reconnect = async (path: string, suffix: string) => {
    const client = new Client({ name: 'test', version: '1.0.0' }, { capabilities: { elicitation: {} } });
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { city: 'Bern', unit: 'C' } }));
    const options = { requestInit: { headers }, sessionId: `${randomUUID()}${suffix}` };
    const transport = new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}${path}`), options);
    t.teardown(() => client.close());
    // With an id, it does not initialize.
    await client.connect(transport as never);
    return client;
  };
  await t.rejects((await reconnect('/mcp', '')).listTools(), /Session not found/, 'not the id of a connection');
  const plain = await reconnect(`/sessions/${await own.session()}/mcp`, '.');
  t.match(await plain.callTool({ name: tool }), { isError: true }, 'the client could not ask its user');
  const asking = await reconnect('/mcp', '.f');
  const [listed, called] = await Promise.all([asking.listTools(), asking.callTool({ name: tool })]);
  t.ok(listed.tools.some(({ name }) => name === tool));
  t.notOk(called.isError);
  t.match(await readInstallation(), { settings: { city: 'Bern', unit: 'C' } });
});

t.test('a token with scopes cannot answer a question that another token caused', async (t) => {
  const { own, tool, readInstallation } = await installUnconfigured(REQUIRED_SETTINGS);
  const scoped = await issueRecordedToken(own.pool, own.issuer, {
    subject: own.account,
    name: 'scoped',
    scopes: ['sessions:write'],
  });
  let token = await own.issuer.issue(own.account);
  const refused = Promise.withResolvers<number>();
  const client = new Client({ name: 'test', version: '1.0.0' }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, () => {
    token = scoped;
    return { action: 'accept' as const, content: { city: 'Bern', unit: 'C' } };
  });
  const transport = new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`), {
    fetch: async (url, init) => {
      const headers = new Headers(init?.headers);
      headers.set('authorization', `Bearer ${token}`);
      const response = await fetch(url, { ...init, headers });
      if (response.status === 403) refused.resolve(response.status);
      return response;
    },
  });
  t.teardown(() => client.close());
  await client.connect(transport as never);
  const control = new AbortController();
  const call = client.callTool({ name: tool }, undefined, { signal: control.signal });
  t.equal(await refused.promise, 403);
  control.abort('enough');
  await t.rejects(call);
  t.same(await readInstallation(), { settings: {}, status: 'needs_configuration' });
});

t.test('a missing secret is never asked for by form: the user is led to the console', async (t) => {
  const { own, tool, installationId } = await installUnconfigured({ secrets: { key: { required: true } } });
  const token = await own.issuer.issue(own.account);
  const formOnly = await connectUser(t, token, () => {
    throw new Error('asked');
  });
  t.match(await formOnly.callTool({ name: tool }), { content: [{ text: /before it has key\. .*installations/ }] });
  const completed = Promise.withResolvers<string>();
  let question: Question | undefined;
  const client = await connectUser(
    t,
    token,
    async (asked) => {
      question = asked;
      // As the user does in the console.
      await saveSecret(own.pool, own.keys, installationId, 'key', 'sesame');
      await own.pool.query(`UPDATE installations SET status = 'ready' WHERE id = $1`, [installationId]);
      await own.notify(installationId);
      return { action: 'accept' };
    },
    { url: {} },
  );
  client.setNotificationHandler(ElicitationCompleteNotificationSchema, ({ params }) =>
    completed.resolve(params.elicitationId),
  );
  t.match(await client.callTool({ name: tool }), { isError: false });
  t.match(question, { mode: 'url', url: `https://console.example/installations/${installationId}` });
  t.equal(await completed.promise, (question as unknown as { elicitationId: string }).elicitationId);
});

soakTest(t, 'a user whose client leaves in mid-question leaves it to another client', async (t) => {
  const { own, tool, readInstallation } = await installUnconfigured(REQUIRED_SETTINGS);
  const token = await own.issuer.issue(own.account);
  const asked = Promise.withResolvers<void>();
  const leaving = await connectUser(t, token, () => {
    asked.resolve();
    return new Promise<ElicitResult>(() => undefined);
  });
  const left = leaving.callTool({ name: tool });
  await asked.promise;
  const staying = await connectUser(t, token, () => ({ action: 'accept', content: { city: 'Bern', unit: 'F' } }));
  const second = staying.callTool({ name: tool });
  // The server answers after it has read the call.
  await staying.ping();
  await Promise.all([t.rejects(left), leaving.close()]);
  t.match(await second, { content: [{ text: 'Bern F' }], isError: false });
  t.match(await readInstallation(), { status: 'ready' });
});

t.test('a client that cannot answer a question leaves it to another client', async (t) => {
  const { own, tool, readInstallation } = await installUnconfigured(REQUIRED_SETTINGS);
  const token = await own.issuer.issue(own.account);
  const asked = Promise.withResolvers<void>();
  const failed = Promise.withResolvers<ElicitResult>();
  const broken = await connectUser(t, token, () => {
    asked.resolve();
    return failed.promise;
  });
  const first = broken.callTool({ name: tool });
  await asked.promise;
  const other = await connectUser(t, token, () => ({ action: 'accept', content: { city: 'Bern', unit: 'F' } }));
  const second = other.callTool({ name: tool });
  // The server answers after it has read the call.
  await other.ping();
  failed.reject(new Error('it has no form'));
  t.match(await first, { content: [{ text: /client answered the question with an error/ }], isError: true });
  t.match(await second, { content: [{ text: 'Bern F' }], isError: false });
  t.match(await readInstallation(), { status: 'ready' });
});

soakTest(t, 'an answer of a client that has left is not saved', async (t) => {
  const { own, tool, installationId, readInstallation } = await installUnconfigured(REQUIRED_SETTINGS);
  const token = await own.issuer.issue(own.account);
  // The answer waits for the row, and meanwhile its client leaves.
  const holder = await own.pool.connect();
  t.teardown(() => holder.release());
  await holder.query('BEGIN');
  await holder.query('SELECT 1 FROM installations WHERE id = $1 FOR UPDATE', [installationId]);
  const client = await connectUser(t, token, () => ({ action: 'accept', content: { city: 'Bern', unit: 'C' } }));
  const control = new AbortController();
  const call = client.callTool({ name: tool }, undefined, { signal: control.signal });
  await untilLockIsAwaited(own.pool);
  control.abort('enough');
  await t.rejects(call);
  // The server answers after it has read the cancellation.
  await client.ping();
  await holder.query('COMMIT');
  // Behind the answer, which waited first.
  await holder.query('SELECT 1 FROM installations WHERE id = $1 FOR UPDATE', [installationId]);
  t.same(await readInstallation(), { settings: {}, status: 'needs_configuration' });
});

soakTest(t, 'the answer to a question about an old version is not saved, and the next call asks again', async (t) => {
  const setup = await installUnconfigured({ settings: { city: { label: 'City', required: true } } });
  const { own, code, tool, installationId, readInstallation } = setup;
  const token = await own.issuer.issue(own.account);
  const labels: string[] = [];
  const replaceVersion = async (): Promise<void> => {
    const versionId = await own.update(setup, { semVer: '1.1.0', code });
    await setManifest(own, versionId, { settings: { city: { label: 'Full address', required: true } } });
    await own.notify(installationId);
  };
  const client = await connectUser(t, token, async ({ requestedSchema }) => {
    labels.push((requestedSchema as { properties: { city: { title: string } } }).properties.city.title);
    if (labels.length === 1) await replaceVersion();
    return { action: 'accept', content: { city: 'Bern' } };
  });
  t.match(await client.callTool({ name: tool }), {
    isError: true,
    content: [
      { text: /before it has city\. The user was asked about a version that was replaced.*not saved.*call again/ },
    ],
  });
  t.same(await readInstallation(), { settings: {}, status: 'needs_configuration' });
  t.match(await client.callTool({ name: tool }), { isError: false });
  t.same(labels, ['City', 'Full address']);
  t.same(await readInstallation(), { settings: { city: 'Bern' }, status: 'ready' });
});

soakTest(t, 'a client that opens addresses only leads its user to the console for settings, too', async (t) => {
  const { own, tool, installationId } = await installUnconfigured(REQUIRED_SETTINGS);
  const token = await own.issuer.issue(own.account);
  const configure = async (): Promise<void> => {
    const settings = JSON.stringify({ city: 'Bern', unit: 'C' });
    await own.pool.query(`UPDATE installations SET settings = $2, status = 'ready' WHERE id = $1`, [
      installationId,
      settings,
    ]);
    await own.notify(installationId);
  };
  const declining = await connectUser(t, token, () => ({ action: 'decline' }), { url: {} });
  t.match(await declining.callTool({ name: tool }), {
    isError: true,
    content: [{ text: /did not answer with values/ }],
  });
  const cancelled: unknown[] = [];
  // The user sets them without a look at the question.
  const client = await connectUser(
    t,
    token,
    async () => {
      await configure();
      return new Promise<ElicitResult>(() => undefined);
    },
    { url: {} },
  );
  client.setNotificationHandler(CancelledNotificationSchema, ({ params }) => void cancelled.push(params.requestId));
  t.match(await client.callTool({ name: tool }), { content: [{ text: 'Bern C' }], isError: false });
  t.equal(cancelled.length, 1, 'the question is taken back');
});

soakTest(t, 'a client that leaves while its user is in the console leaves nothing waiting', async (t) => {
  const { own, tool } = await installUnconfigured({ secrets: { key: { required: true } } });
  const token = await own.issuer.issue(own.account);
  const asked = Promise.withResolvers<void>();
  const client = await connectUser(
    t,
    token,
    () => {
      asked.resolve();
      return { action: 'accept' };
    },
    { url: {} },
  );
  const control = new AbortController();
  const call = client.callTool({ name: tool }, undefined, { signal: control.signal });
  await asked.promise;
  control.abort('enough');
  await t.rejects(call);
  const other = await connectUser(t, token, () => ({ action: 'decline' }), { url: {} });
  t.match(await other.callTool({ name: tool }), { content: [{ text: /did not answer with values/ }] }, 'asked again');
});

t.test('clients read nothing of internal errors', async (t) => {
  const { client } = await connect(t, session);
  await fixture.pool.query('ALTER TABLE version_files RENAME TO hidden_files');
  try {
    const error = await client.listResources().catch((reason: Error) => reason);
    t.match(error, { code: -32_603 });
    t.notMatch(String(error), /version_files|relation/);
  } finally {
    await fixture.pool.query('ALTER TABLE hidden_files RENAME TO version_files');
  }
  t.equal((await client.listResources()).resources.length, 2);
});

soakTest(t, 'a question that is not answered ends with its time', async (t) => {
  // Any answer is too late.
  const hasty = await startSupervisorFixture(t, { sessionApi: { mcpQuestionMs: 1 } });
  await hasty.app.listen({ port: 0, host: '127.0.0.1' });
  const plugin = await hasty.install({
    slug: 'slow',
    code: `tools.one = { description: 'x', parameters: {}, handler: () => 'y' };`,
    status: 'needs_configuration',
  });
  await hasty.pool.query('UPDATE versions SET manifest = manifest || $2 WHERE id = $1', [
    plugin.versionId,
    JSON.stringify(REQUIRED_SETTINGS),
  ]);
  const client = await connectUser(
    t,
    await hasty.issuer.issue('ann'),
    () => new Promise<ElicitResult>(() => undefined),
    { form: {} },
    (hasty.app.server.address() as AddressInfo).port,
  );
  t.match(await client.callTool({ name: 'slow__one' }), {
    isError: true,
    content: [{ text: /did not answer in time/ }],
  });
});

/** Sends one message over plain HTTP, because the official client waits for answers, and hides their texts behind its own. */
async function post(path: string, account: string, connection: string | null, message: object, signal?: AbortSignal) {
  return fetch(`http://127.0.0.1:${port}${path}`, {
    method: 'POST',
    body: JSON.stringify(message),
    signal: signal ?? null,
    headers: {
      authorization: `Bearer ${await fixture.issuer.issue(account)}`,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...(connection === null ? {} : { 'mcp-session-id': connection }),
    },
  });
}

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
};

async function initialize(path: string, account: string): Promise<string> {
  const response = await post(path, account, null, INITIALIZE);
  await response.text();
  return response.headers.get('mcp-session-id') ?? `none: ${response.status}`;
}

soakTest(t, 'a stream ends when all its calls are over, also where one was cancelled', async (t) => {
  const path = `/sessions/${session}/mcp`;
  const connection = await initialize(path, 'ann');
  const call = (id: number | string, name: string, a = 1) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name, arguments: { a } },
  });
  /** Sends calls, and cancellations until they are answered, because the first may arrive before the calls. */
  const cancelCalls = async (message: object, cancelled: readonly (number | string)[]) => {
    let ended: string | null = null;
    const answering = post(path, 'ann', connection, message).then(async (answer) => {
      ended = await answer.text();
    });
    await eventually(async () => {
      for (const requestId of cancelled) {
        const notification = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } };
        t.equal((await post(path, 'ann', connection, notification)).status, 202);
      }
      return ended !== null;
    });
    await answering;
    return ended;
  };
  for (const id of [7, 0, 'x'])
    t.equal(await cancelCalls(call(id, 'kit__wait'), [id]), '', 'a cancelled request has no answer');
  t.match(await cancelCalls([call(8, 'kit__wait'), call(9, 'kit__add')], [8]), /"sum":2/, 'the other one has');
  t.equal(await cancelCalls([call(10, 'kit__wait'), call(11, 'kit__wait')], [10, 11]), '');
  const twice = await post(path, 'ann', connection, [call(12, 'kit__add', 1), call(12, 'kit__add', 2)]);
  const answers = [...(await twice.text()).matchAll(/"structuredContent":\{"sum":(\d)\}.*"id":12\b/g)];
  t.same(answers.map(([, sum]) => sum).toSorted(), ['2', '3'], 'two with the same id have an answer each');
});

soakTest(
  t,
  'a stream has the answers of its own calls: if one was cancelled, and if a newer one has the same id',
  async (t) => {
    const own = fixture.withNewAccount();
    const installed = await own.install({
      capabilities: ['host.storage'],
      code: `
      tools.wait = { description: 'Waits', parameters: {}, handler: (args, ctx) => {
        host.log('begun');
        return new Promise((resolve) => ctx.signal.addEventListener('abort', () => { host.log('aborted'); resolve('x'); }));
      } };
      tools.hold = { description: 'Waits', parameters: {}, handler: async () => { ${waitForKey("'go on'")} return 'held'; } };`,
    });
    const path = `/sessions/${await own.session()}/mcp`;
    const connection = await initialize(path, own.account);
    const call = (id: number, tool: string) => ({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name: `${installed.slug}__${tool}`, arguments: {} },
    });
    const answering = post(path, own.account, connection, [call(1, 'wait'), call(2, 'hold')]).then((answer) =>
      answer.text(),
    );
    await eventually(async () => (await own.readLog('begun')).length === 1);
    const cancellation = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } };
    t.equal((await post(path, own.account, connection, cancellation)).status, 202);
    await eventually(async () => (await own.readLog('aborted')).length === 1);
    const newer = post(path, own.account, connection, call(2, 'wait')).then((answer) => answer.text());
    await eventually(async () => (await own.readLog('begun')).length === 2);
    await storeKey(own.pool, installed, 'go on');
    const text = await answering;
    t.match(text, /"held"/, 'the other one is answered');
    t.notMatch(text, /"id":1\b/);
    const cancelNewer = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 2 } };
    t.equal((await post(path, own.account, connection, cancelNewer)).status, 202);
    t.equal(await newer, '');
  },
);

t.test('a new connection takes the place of the account’s that was unused for longest', async (t) => {
  const own = fixture.withNewAccount();
  const path = `/sessions/${await own.session()}/mcp`;
  const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' };
  const opened: string[] = [];
  for (let count = 0; count < 50; count += 1) opened.push(await initialize(path, own.account));
  const [oldest = '', second = ''] = opened;
  await (await post(path, own.account, oldest, list)).text();
  await initialize(path, own.account);
  const authorization = `Bearer ${await fixture.issuer.issue(own.account)}`;
  const openStream = (id: string) =>
    fetch(`http://127.0.0.1:${port}${path}`, {
      headers: { authorization, accept: 'text/event-stream', 'mcp-session-id': id },
    });
  /** Leaves the stream open. */
  const readChange = async ({ body }: Response) => {
    const events = readEvents(body);
    let data = '';
    while (data === '') data = (await events.next()).value.data;
    return JSON.parse(data).method;
  };
  const streams = [await openStream(oldest), await openStream(second)];
  const [ofOldest, ofSecond] = streams as [Response, Response];
  t.equal(
    await readChange(ofSecond),
    'notifications/tools/list_changed',
    'the one that was unused for longest was closed, so it announces what may have changed',
  );
  await own.install({ code: `commands.say = { description: 'x', handler: () => 'y' };` });
  t.equal(await readChange(ofOldest), 'notifications/prompts/list_changed', 'the first one was used since');
  streams.push(...(await Promise.all(opened.slice(2).map(openStream))));
  const refused = await post(path, own.account, null, INITIALIZE);
  t.equal(refused.status, 429, 'every connection is in use');
  t.match(await refused.text(), /the account has 50.*End one with DELETE/);
  await Promise.all(streams.map(({ body }) => body?.cancel().catch(() => undefined)));
});

soakTest(
  t,
  'a new stream of a connection takes the place of the one before, which its client may have lost',
  async (t) => {
    const own = fixture.withNewAccount();
    const path = `/sessions/${await own.session()}/mcp`;
    const connection = await initialize(path, own.account);
    const authorization = `Bearer ${await fixture.issuer.issue(own.account)}`;
    const openStream = async (accept = 'text/event-stream') => {
      const headers = { authorization, accept, 'mcp-session-id': connection };
      const { status, body } = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
      t.teardown(() => body?.cancel().catch(() => undefined));
      return { status, body };
    };
    const lost = await openStream();
    t.equal(lost.status, 200);
    t.equal((await openStream('application/json')).status, 406, 'a request that opens no stream ends none');
    const opened = await openStream();
    t.equal(opened.status, 200);
    for await (const { data } of readEvents(lost.body)) t.equal(data, '', 'it ends');
    await own.install({
      slug: 'later',
      code: `tools.one = { description: 'x', parameters: {}, handler: () => 'y' };`,
    });
    const changes: string[] = [];
    for await (const { data } of readEvents(opened.body)) {
      if (data !== '') changes.push(JSON.parse(data).method.split('/')[1]);
      if (changes.length === 4) break;
    }
    t.same(changes, ['tools', 'prompts', 'resources', 'tools'], 'what may have changed without a stream, and a change');
  },
);

t.test('errors are sentences, and repeat no code', async (t) => {
  const path = `/sessions/${session}/mcp`;
  const connection = await initialize(path, 'ann');
  const send = async (method: string, params: unknown) => {
    const answer = await post(path, 'ann', connection, { jsonrpc: '2.0', id: 3, method, params });
    t.match(answer.headers.get('content-type'), /^application\/json/);
    return (await answer.json()).error;
  };
  const invalid = (message: string) => ({ code: -32_602, message });
  t.same(await send('tools/call', { arguments: {} }), invalid('params.name is required and must be text.'));
  t.same(
    await send('tools/call', { name: 'kit__add', arguments: 'x' }),
    invalid('params.arguments must be an object, not text.'),
  );
  t.same(await send('tools/call', undefined), invalid('params is required and must be an object.'));
  t.same(await send('prompts/get', {}), invalid('params.name is required and must be text.'));
  t.same(await send('resources/read', {}), invalid('params.uri is required and must be text.'));
  t.same(await send('prompts/get', { name: 'kit__none' }), invalid('No prompt has this name.'));
  t.same(await send('resources/read', { uri: 'skill://x/y' }), { code: -32_002, message: 'No skill has this name.' });
});

soakTest(
  t,
  'wrong arguments are answered as errors of the protocol, with the id where the body is parsed',
  async (t) => {
    const path = `/sessions/${session}/mcp`;
    const connection = await initialize(path, 'ann');
    const authorization = `Bearer ${await fixture.issuer.issue('ann')}`;
    const send = async (text: string | null, query = '', method = 'POST') => {
      const body = `{"jsonrpc":"2.0","id":"c7","method":"tools/call","params":{"name":"kit__add","arguments":{"a":${text}}}}`;
      const answer = await fetch(`http://127.0.0.1:${port}${path}${query}`, {
        method,
        body: text === null ? null : body,
        headers: {
          authorization,
          ...(text === null ? {} : { 'content-type': 'application/json' }),
          accept: 'application/json, text/event-stream',
          'mcp-session-id': connection,
        },
      });
      t.match(answer.headers.get('content-type'), /^application\/json/);
      return { status: answer.status, body: await answer.json() };
    };
    const refusal = (status: number, id: string | null, code: number, message: RegExp) => ({
      status,
      body: { jsonrpc: '2.0', id, error: { code, message, data: { requestId: /^.{36}$/ } } },
    });
    for (const method of ['GET', 'DELETE'])
      t.match(await send(null, '?x=1', method), refusal(400, null, -32_602, /^query x: is not known/), method);
    t.match(await send('"a\\u0000"'), refusal(400, 'c7', -32_602, /^params\.arguments\.a: must not contain U\+0000/));
    t.match(await send('1', '?x=1'), refusal(400, 'c7', -32_602, /^query x: is not known/));
    t.match(
      await send('12345678901234567890'),
      refusal(400, null, -32_700, /12345678901234567890.*Send it as a string/),
    );
    t.match(await send(`${'['.repeat(105)}${']'.repeat(105)}`), refusal(400, null, -32_700, /nests deeper.*flatter/));
    t.match(await send('oops'), refusal(400, null, -32_700, /not valid JSON/));
    t.match(await send(`"${'x'.repeat(MIB)}"`), refusal(413, null, -32_600, /larger than 1048576 bytes/));
    for (const body of [{}, { jsonrpc: '1.0', id: 1, method: 'ping' }, { jsonrpc: '2.0', id: 1.5, method: 'ping' }]) {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
        method: 'POST',
        body: JSON.stringify(body),
        headers: { authorization, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      });
      t.equal(answer.status, 400);
      t.match(await answer.json(), {
        id: null,
        error: { code: -32_600, message: /^The body is not a message of JSON-RPC 2\.0/ },
      });
    }
    // The command `bulkhead mcp` shows its client the same text.
    const transport = new Transport({ url: `http://127.0.0.1:${port}`, token: await fixture.issuer.issue('ann') });
    const message = { jsonrpc: '2.0', id: 1, method: 'ping', params: { text: 'a\0' } };
    await t.rejects(transport.open({ method: 'POST', path, body: message }), {
      name: 'BulkheadError',
      code: 'bad_request',
      message: /^params\.text: must not contain U\+0000/,
    });
  },
);

t.test('no tool of the runtime is suggested to a client that cannot list it', async (t) => {
  const own = fixture.withNewAccount();
  const id = await own.session();
  const tools = [{ name: 'oven', parameters: { type: 'object' } }];
  t.equal((await own.call('PUT', `/sessions/${id}/tools`, { tools })).status, 200);
  const { client } = await connect(t, id, own.account);
  t.same(
    (await client.listTools()).tools.filter(({ name }) => name === 'oven'),
    [],
  );
  const error = await client.callTool({ name: 'ovem' }).catch((reason: Error) => reason);
  t.match(String(error), /No tool has this name/);
  t.notMatch(String(error), /oven/);
});

t.test('the end of a connection is declared without a body', async (t) => {
  const { paths } = (await fixture.app.inject({ url: '/openapi.json' })).json();
  for (const path of ['/mcp', '/sessions/{sessionId}/mcp']) t.notOk(paths[path].delete.responses[200].content, path);
});
