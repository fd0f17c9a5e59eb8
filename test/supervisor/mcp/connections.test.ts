/** The connections of a process, without requests over HTTP. */
import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import type { Session } from '../../../db/sessions/sessions.ts';
import { Problem } from '../../../sdk/contract/errors.ts';
import { type Connection, McpConnections } from '../../../supervisor/mcp/connections.ts';
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

const openStream = ({ transport }: Connection): Promise<Response> =>
  transport.handleRequest(
    new Request('http://localhost/mcp', {
      headers: { accept: 'text/event-stream', 'mcp-session-id': transport.sessionId ?? '' },
    }),
  );

t.test('each further stream of a connection begins with an announcement of all lists', async (t) => {
  const { connections, open } = openConnections(t);
  const connection = await open('s');
  if (!connection) throw new Error('it was not opened');
  connection.mayMissChanges = false;
  const first = await openStream(connection);
  connections.beginStream(connection);
  const second = await openStream(connection);
  connections.beginStream(connection);
  await new Promise(setImmediate);
  await connection.close();
  t.equal(await first.text(), '', 'nothing has changed before the first one');
  t.same((await second.text()).match(/\w+(?=\/list_changed)/g), ['tools', 'prompts', 'resources']);
});

t.test('the connections of deleted sessions are closed, with their streams', async (t) => {
  const { connections, deleted, looked, watchers, open } = openConnections(t);
  const connection = await open('deleted');
  const stream = connection && (await openStream(connection));
  t.equal(stream?.status, 200);
  await Promise.all([open('kept'), open('unreadable')]);
  const stuck = await open('stuck');
  if (stuck) stuck.close = () => new Promise(() => undefined);
  deleted.add('deleted').add('stuck');
  await Promise.all([connections.sweep(), connections.sweep()]);
  t.same(looked, ['deleted', 'kept', 'unreadable', 'stuck'], 'a sweep does not begin before the last one has ended');
  t.equal(await stream?.text(), '', 'it has ended');
  t.equal(watchers.size, 3);
  await connections.sweep();
  t.equal(looked.length, 7, 'a close that does not end holds up no sweep');
});
