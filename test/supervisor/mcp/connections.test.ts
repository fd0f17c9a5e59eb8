/** The connections of a process, without requests over HTTP. */
import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import type { Session } from '../../../db/sessions/sessions.ts';
import { Problem } from '../../../sdk/contract/errors.ts';
import { McpConnections } from '../../../supervisor/mcp/connections.ts';
import type { McpDeps } from '../../../supervisor/mcp/server-parts.ts';

function openConnections(test: Test) {
  const deleted = new Set<string>();
  const watchers = new Set<unknown>();
  const looked: string[] = [];
  const services = {
    drainOver: new AbortController().signal,
    sessions: {
      get: async (_accountId: string, id: string) => {
        looked.push(id);
        if (deleted.has(id)) throw new Problem('not_found', 'You have no session with this id.');
        if (id === 'unreadable') throw new Error('The database is away.');
      },
    },
    pluginsCache: {
      get: async () => ({ plugins: [], tools: new Map(), unconfigured: [] }),
      watch: (watcher: unknown) => {
        watchers.add(watcher);
        return () => watchers.delete(watcher);
      },
    },
  };
  const deps = { services, questions: {}, version: '1', onError: (error: unknown) => test.fail(String(error)) };
  const connections = new McpConnections(deps as unknown as McpDeps);
  test.teardown(() => connections.drain());
  const open = (id: string) => connections.open({ id, accountId: 'a' } as Session, `${randomUUID()}.f`, true);
  return { connections, deleted, looked, watchers, open };
}

t.test('several requests at once build one lost connection', async (t) => {
  const { connections, watchers } = openConnections(t);
  const session = { id: 's', accountId: 'a' } as Session;
  const id = `${randomUUID()}.`;
  const [one, other] = await Promise.all([connections.open(session, id, true), connections.open(session, id, true)]);
  t.ok(one);
  t.equal(one, other);
  t.equal(watchers.size, 1, 'no other one watches for changes');
});

t.test('the connections of deleted sessions are closed, with their streams', async (t) => {
  const { connections, deleted, looked, watchers, open } = openConnections(t);
  const connection = await open('deleted');
  const stream = await connection?.transport.handleRequest(
    new Request('http://localhost/mcp', {
      headers: { accept: 'text/event-stream', 'mcp-session-id': connection.transport.sessionId ?? '' },
    }),
  );
  t.equal(stream?.status, 200);
  await Promise.all([open('kept'), open('unreadable')]);
  deleted.add('deleted');
  await Promise.all([connections.sweep(), connections.sweep()]);
  t.same(looked, ['deleted', 'kept', 'unreadable'], 'a sweep does not begin before the last one has ended');
  t.equal(await stream?.text(), '', 'it has ended');
  t.equal(watchers.size, 2);
});

t.test(
  'a stream that is opened again begins with the lists that its client has not read since they changed',
  async (t) => {
    const { connections, open } = openConnections(t);
    const connection = await open('s');
    if (connection === undefined) throw new Error('It was not built.');
    const headers = {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-session-id': connection.transport.sessionId ?? '',
    };
    const openStream = async () => {
      const stream = await connection.transport.handleRequest(new Request('http://localhost/mcp', { headers }));
      connections.beginStream(connection);
      return stream;
    };
    const first = await openStream();
    const parsedBody = { jsonrpc: '2.0', id: 1, method: 'prompts/list' };
    const post = new Request('http://localhost/mcp', { method: 'POST', headers });
    t.match(await (await connection.transport.handleRequest(post, { parsedBody })).json(), { result: { prompts: [] } });
    const second = await openStream();
    await connection.close();
    const readLists = async (stream: Response) =>
      [...(await stream.text()).matchAll(/notifications\/(\w+)\/list_changed/g)].map(([, list]) => list);
    t.same(await readLists(first), ['tools', 'prompts', 'resources'], 'of a connection that another process had');
    t.same(await readLists(second), ['tools', 'resources']);
  },
);
