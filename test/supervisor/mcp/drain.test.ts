/** A supervisor that stops while MCP requests run. */
import type { AddressInfo } from 'node:net';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { notifyInstallationChanged } from '../../../db/postgres/notifications.ts';
import { SECOND } from '../../../sdk/contract/limits.ts';
import { ConnectionDrain } from '../../../service/lifecycle/drain.ts';
import { startSupervisor } from '../../../supervisor/supervisor.ts';
import { eventually } from '../../runner/eventually.ts';
import { defaultOptions } from '../default-options.ts';
import { storeKey } from '../held-handlers.ts';
import { type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const CODE = `
  tools.slow = {
    description: 'Answers when it is let go',
    parameters: {},
    handler: async () => {
      host.log('begun', {});
      while ((await host.storage.get('let go')) === null) await new Promise((resolve) => setTimeout(resolve, 20));
      return 'done';
    },
  };
  tools.stuck = {
    description: 'Never answers',
    parameters: {},
    handler: () => {
      host.log('begun', {});
      return new Promise(() => undefined);
    },
  };`;

const PROTOCOL = '2025-11-25';

interface McpClient {
  /** The text of the connection's first stream, when it has ended. */
  readonly streamEnded: Promise<string>;
  openStream(): Promise<Response>;
  /** Calls a tool. Resolves when the answer is complete. */
  call(id: number, tool: string): Promise<Answer>;
}
interface Answer {
  readonly status: number;
  readonly body: string;
  /** The header `connection`. */
  readonly connection: string | null;
}

/** Starts a supervisor that is drained as its process does it. */
async function startServing(test: Test) {
  const fixture = await startSupervisorFixture(test);
  const { app } = fixture;
  const drain = new ConnectionDrain(app.server);
  await app.listen({ port: 0, host: '127.0.0.1' });
  const kit = await fixture.install({ slug: 'kit', capabilities: ['host.storage'], code: CODE });
  const startDrain = (requestsMs: number, idleMs = 100) =>
    drain.drain(AbortSignal.abort(), { alone: { idleMs, requestsMs } });
  const stop = (requestsMs: number) => fixture.supervisor.stop(startDrain(requestsMs));
  const letGo = () => storeKey(fixture.pool, kit, 'let go');
  return { fixture, kit, startDrain, stop, letGo };
}

/** Initializes a connection with the requests of the protocol, so that the test sees each answer's status and bytes. */
async function connect(fixture: SupervisorFixture): Promise<McpClient> {
  const { port } = fixture.app.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/sessions/${await fixture.session()}/mcp`;
  const headers = {
    authorization: `Bearer ${await fixture.issuer.issue(fixture.account)}`,
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
  };
  const post = (named: object, message: object) =>
    fetch(url, {
      method: 'POST',
      headers: { ...headers, ...named },
      body: JSON.stringify({ jsonrpc: '2.0', ...message }),
    });
  const clientInfo = { name: 'test', version: '1.0.0' };
  const params = { protocolVersion: PROTOCOL, capabilities: {}, clientInfo };
  const initialized = await post({}, { id: 0, method: 'initialize', params });
  await initialized.text();
  const named = {
    'mcp-session-id': initialized.headers.get('mcp-session-id') ?? '',
    'mcp-protocol-version': PROTOCOL,
  };
  await post(named, { method: 'notifications/initialized' });
  const openStream = () => fetch(url, { headers: { ...headers, ...named } });
  return {
    streamEnded: (await openStream()).text(),
    openStream,
    async call(id, tool) {
      const answer = await post(named, { id, method: 'tools/call', params: { name: `kit__${tool}`, arguments: {} } });
      return { status: answer.status, body: await answer.text(), connection: answer.headers.get('connection') };
    },
  };
}

const untilBegun = (fixture: SupervisorFixture, calls = 1) =>
  eventually(async () => (await fixture.readLog('begun')).length === calls);

t.test('calls are answered, also one that still arrives, and streams end', async (t) => {
  const { fixture, startDrain, letGo } = await startServing(t);
  const [client, idle] = [await connect(fixture), await connect(fixture)];
  const events: string[] = [];
  const call = client.call(1, 'slow').finally(() => events.push('answered'));
  await untilBegun(fixture);
  // The client's idle sockets stay open until it closes them itself, so that it still reaches this process.
  const drained = startDrain(10 * SECOND, 10 * SECOND);
  // The supervisor goes on to run the account: without a successor it would refuse later calls.
  const closed = fixture.app.close();
  const ended = client.streamEnded.then(() => events.push('the stream ended'));
  t.match(await idle.streamEnded, /^id: .+\nretry: \d{4,5}\ndata: \n\n$/, 'the client learns when to open it again');
  const reopened = await idle.openStream();
  t.equal(reopened.status, 200, 'an error would count as one of the few tries of the client');
  t.match(await reopened.text(), /^id: .+\nretry: \d{4,5}\ndata: \n\n$/, 'it ends at once');
  const late = idle.call(2, 'slow');
  await untilBegun(fixture, 2);
  await ended;
  await letGo();
  t.match(await late, { status: 200, body: /"text":"done"/, connection: 'close' });
  t.match(await call, { status: 200, body: /"text":"done"/ });
  await Promise.all([drained, closed]);
  t.same(events, ['the stream ended', 'answered'], 'clients leave for the next process at once');
});

t.test('the official client is notified of changed lists after its supervisor was replaced', async (t) => {
  const { fixture, kit, stop } = await startServing(t);
  const { pool, blobs, keys, verifier, sandbox, dataDir } = fixture;
  const storage = { pool, blobs, keys, verifier, sandbox, dataDir };
  let { port } = fixture.app.server.address() as AddressInfo;
  const streamOpened = Promise.withResolvers<void>();
  const transport = new StreamableHTTPClientTransport(new URL('http://localhost/mcp'), {
    requestInit: { headers: { authorization: `Bearer ${await fixture.issuer.issue(fixture.account)}` } },
    fetch: async (url, init) => {
      const headers = new Headers(init?.headers);
      // Clients of earlier versions get no `retry`, which would take seconds.
      if (init?.method === 'GET') headers.set('mcp-protocol-version', '2025-06-18');
      const response = await fetch(`http://127.0.0.1:${port}${new URL(url).pathname}`, { ...init, headers });
      if (init?.method === 'GET' && response.ok) streamOpened.resolve();
      return response;
    },
  });
  const client = new Client({ name: 'test', version: '1.0.0' });
  t.teardown(() => client.close());
  client.onerror = ({ message }) => t.comment(message);
  const messages = new Set<string>();
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void messages.add('tools'));
  client.setNotificationHandler(PromptListChangedNotificationSchema, () => void messages.add('prompts'));
  client.setNotificationHandler(ResourceListChangedNotificationSchema, () => void messages.add('resources'));
  await client.connect(transport as never);
  await streamOpened.promise;
  const logger = pino({ level: 'silent' });
  const next = await startSupervisor({ ...defaultOptions, ...storage, logger, childrenMax: 5, spares: 0 });
  t.teardown(() => next.stop());
  await next.app.listen({ port: 0, host: '127.0.0.1' });
  ({ port } = next.app.server.address() as AddressInfo);
  await stop(10 * SECOND);
  await eventually(() => messages.size === 3);
  messages.clear();
  await pool.query(`UPDATE installations SET status = 'paused' WHERE id = $1`, [kit.installationId]);
  await notifyInstallationChanged(pool, kit.installationId);
  await eventually(() => messages.has('tools'));
  t.same([...messages], ['tools'], 'a change afterwards');
  t.same((await client.listTools()).tools, []);
});

t.test('a call that outlasts the drain is answered with an error', async (t) => {
  const { fixture, stop } = await startServing(t);
  const client = await connect(fixture);
  const call = client.call(1, 'stuck');
  await untilBegun(fixture);
  const started = performance.now();
  const stopped = stop(500);
  const { status, body } = await call;
  t.equal(status, 200);
  t.match(body, /"id":1,"error":\{"code":-32603,"message":"[^"]*The supervisor stopped before the request ended\./);
  // Half of what the call may take.
  t.ok(performance.now() - started < 30 * SECOND, `${performance.now() - started} ms`);
  await stopped;
});
