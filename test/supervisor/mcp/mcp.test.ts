/** A session as a Model Context Protocol server, asked by the official client over HTTP. */
import type { AddressInfo } from 'node:net';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import t, { type Test } from 'tap';
import { eventually, startSupervisorFixture } from '../supervisor-fixture.ts';

const fixture = await startSupervisorFixture(t);
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

async function connectTo(test: Test, path: string, account: string) {
  const client = new Client({ name: 'test', version: '1.0.0' });
  const transport = new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}${path}`), {
    requestInit: { headers: { authorization: `Bearer ${await fixture.issuer.issue(account)}` } },
  });
  test.teardown(() => client.close());
  await client.connect(transport as never);
  return { client, transport };
}
const session = await fixture.session();

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
  t.ok(performance.now() - revokedAt < 1_000, `${performance.now() - revokedAt} ms`);
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
    content: [{ text: /a/ }],
  });
  await t.rejects(client.callTool({ name: 'kit__ad' }), { code: -32_602, message: /Did you mean kit__add/ });
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
  const { client } = await connect(t, session);
  const messages: string[] = [];
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void messages.push('tools'));
  client.setNotificationHandler(PromptListChangedNotificationSchema, () => void messages.push('prompts'));
  client.setNotificationHandler(ResourceListChangedNotificationSchema, () => void messages.push('resources'));
  await client.listTools();
  await fixture.install({ slug: 'quiet', code: 'middleware.systemPrompt = (ctx) => ctx.systemPrompt;' });
  await fixture.install({
    slug: 'more',
    code: `tools.one = { description: 'x', parameters: {}, handler: () => 'y' };`,
  });
  await eventually(async () => messages.includes('tools'));
  t.ok((await client.listTools()).tools.some(({ name }) => name === 'more__one'));
  t.same([...new Set(messages)], ['tools']);
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
  await fixture.install({ slug: 'teller', account, capabilities: ['host.agents'], code: tell });
  const broken = 'middleware.agentMessage = () => { throw new Error("x"); };';
  await fixture.install({ slug: 'gate', account, code: broken, required: true });
  const { client } = await connect(t, await fixture.session(account), account);
  const result = await client.callTool({ name: 'teller__tell', arguments: {} });
  t.match(result, { isError: true, content: [{ text: /gate cancelled.*“gate” failed.*this account requires it/ }] });
  const { rows } = await fixture.pool.query(`SELECT 1 FROM session_messages WHERE text = 'hello'`);
  t.equal(rows.length, 0);
});
