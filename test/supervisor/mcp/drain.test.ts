/** A supervisor that stops while MCP requests run. */
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { SECOND } from '../../../sdk/contract/limits.ts';
import { ConnectionDrain } from '../../../service/lifecycle/drain.ts';
import { eventually } from '../../runner/eventually.ts';
import { type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const CODE = `
  tools.slow = {
    description: 'Answers after a while',
    parameters: {},
    handler: async () => {
      host.log('begun', {});
      await new Promise((resolve) => setTimeout(resolve, 1500));
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

interface McpClient {
  /** The connection's standing stream, until it ends. */
  readonly streamEnded: Promise<unknown>;
  /** Calls a tool. Resolves with status and body when the answer is complete. */
  call(id: number, tool: string): Promise<{ readonly status: number; readonly body: string }>;
}

/** Starts a supervisor that is drained as its process does it. */
async function startServing(test: Test) {
  const fixture = await startSupervisorFixture(test);
  const { app } = fixture;
  const drain = new ConnectionDrain(app.server);
  await app.listen({ port: 0, host: '127.0.0.1' });
  await fixture.install({ slug: 'kit', code: CODE });
  const stop = (requestsMs: number, idleMs = 100) => {
    const times = { alone: { idleMs, requestsMs } };
    return fixture.supervisor.stop(drain.drain(AbortSignal.abort(), times));
  };
  return { fixture, stop };
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
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo };
  const initialized = await post({}, { id: 0, method: 'initialize', params });
  await initialized.text();
  const named = { 'mcp-session-id': initialized.headers.get('mcp-session-id') ?? '' };
  await post(named, { method: 'notifications/initialized' });
  const stream = await fetch(url, { headers: { ...headers, ...named } });
  return {
    streamEnded: stream.text(),
    async call(id, tool) {
      const answer = await post(named, { id, method: 'tools/call', params: { name: `kit__${tool}`, arguments: {} } });
      return { status: answer.status, body: await answer.text() };
    },
  };
}

const untilBegun = (fixture: SupervisorFixture) =>
  eventually(async () => (await fixture.readLog('begun')).length === 1);

t.test('a running call is answered, and its connection takes no other', async (t) => {
  const { fixture, stop } = await startServing(t);
  const [client, idle] = [await connect(fixture), await connect(fixture)];
  const events: string[] = [];
  const call = client.call(1, 'slow').finally(() => events.push('answered'));
  await untilBegun(fixture);
  // The client's idle sockets stay open, so that it still reaches this process.
  const stopped = stop(10 * SECOND, 3 * SECOND);
  const ended = client.streamEnded.then(() => events.push('the stream ended'));
  await idle.streamEnded;
  t.match(await client.call(2, 'slow'), { status: 404, body: /Session not found/ });
  t.match(await call, { status: 200, body: /"text":"done"/ });
  await Promise.all([stopped, ended]);
  t.same(events, ['the stream ended', 'answered'], 'clients leave for the next process at once');
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
  t.ok(performance.now() - started < 5 * SECOND, `${performance.now() - started} ms`);
  await stopped;
});
