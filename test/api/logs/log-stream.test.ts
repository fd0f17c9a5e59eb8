/** Follows a log over a real socket: each line arrives once and in order, also after a broken connection. */
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { openLogStreams } from '../../../api/logs/log-routes.ts';
import { LogTail } from '../../../api/logs/log-tail.ts';
import { findOrCreateAccount, setOperator } from '../../../db/accounts/accounts.ts';
import { changeOperator, changeSuspension } from '../../../db/accounts/moderation.ts';
import { openKeyFiles } from '../../../db/files/key-files.ts';
import { revokeKeys } from '../../../db/files/recorded-keys.ts';
import { createIdAt, orderedId } from '../../../db/postgres/ordered-id.ts';
import { insertLogs, type LogLine, maintainLogs } from '../../../db/records/logs.ts';
import { readLastLines } from '../../../sdk/cli/log-lines.ts';
import { Rest } from '../../../sdk/cli/rest.ts';
import type { RowStreams } from '../../../service/http/row-streams.ts';
import { moveClocks } from '../../fixtures/moved-clocks.ts';
import { eventually } from '../../runner/eventually.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { listen, startApiFixture } from '../api-fixture.ts';
import { fileList, introspectsMinimal, MINIMAL } from '../package/packages.ts';

const api = await startApiFixture(t, { introspect: introspectsMinimal });
const port = await listen(api);
const [ann, ben] = [await api.user('ann'), await api.user('ben')];
await maintainLogs(api.pool);
const installationId = await install('followed');

async function install(slug: string): Promise<string> {
  const { id } = (await ann.post('/plugins', { slug, displayName: slug })).body;
  await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) });
  return (await ann.post('/installations', { slug })).body.id;
}

const line = (message: string, more: Partial<LogLine> = {}): LogLine => ({
  id: orderedId(Date.now()),
  at: new Date().toISOString(),
  level: 'info',
  message,
  data: null,
  installationId,
  sessionId: null,
  source: 'tools.x',
  invocationId: null,
  versionId: null,
  semVer: null,
  truncated: false,
  ...more,
});
const write = (...lines: LogLine[]) => insertLogs(api.pool, lines);

interface Follower {
  readonly response: IncomingMessage;
  readonly lastId: string;
  /** The next line's message. */
  next(): Promise<string>;
  close(): Promise<void>;
}
/** Opens a stream and waits for its first words, so that whatever is written next is followed. */
async function follow(
  query = '',
  headers: Record<string, string> = {},
  token = ann.token,
  at = port,
): Promise<Follower> {
  const path = `/api/plugin-logs/stream?installationId=${installationId}${query}`;
  const outgoing = get({
    port: at,
    host: '127.0.0.1',
    path,
    headers: { authorization: `Bearer ${token}`, ...headers },
  });
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  response.setEncoding('utf8');
  const chunks = response[Symbol.asyncIterator]();
  let text = '';
  let lastId = '';
  const event = async (): Promise<string> => {
    for (;;) {
      const end = text.indexOf('\n\n');
      if (end >= 0) {
        const found = text.slice(0, end);
        text = text.slice(end + 2);
        lastId = /^id: (.*)$/m.exec(found)?.[1] ?? lastId;
        return found;
      }
      const { value, done } = await chunks.next();
      if (done) return '';
      text += value;
    }
  };
  await event();
  return {
    response,
    get lastId() {
      return lastId;
    },
    async next() {
      for (;;) {
        const found = await event();
        if (found === '') return '(end)';
        const [, data] = /^event: line\ndata: (.*)$/m.exec(found) ?? [];
        if (data !== undefined) return JSON.parse(data).message;
      }
    },
    async close() {
      if (response.closed) return;
      response.on('error', () => undefined);
      const { promise: gone, resolve } = Promise.withResolvers<void>();
      response.once('close', resolve);
      outgoing.destroy();
      await gone;
    },
  };
}

t.test('lines arrive as they are written, from now on', async (t) => {
  await write(line('before'));
  const follower = await follow();
  t.match(follower.response.headers['content-type'], 'text/event-stream');
  t.equal(follower.response.headers['cache-control'], 'no-store');
  const started = performance.now();
  await write(line('one'), line('two\nin two lines'));
  t.equal(await follower.next(), 'one');
  t.ok(performance.now() - started < 10_000, 'at once');
  t.equal(await follower.next(), 'two\nin two lines');
  await write(line('three'));
  t.equal(await follower.next(), 'three');
  await follower.close();
});

t.test('an operator follows an installation of others', async (t) => {
  await setOperator(api.pool, (await findOrCreateAccount(api.pool, 'olga')).id, true);
  const follower = await follow('', {}, (await api.user('olga')).token);
  await write(line('one'));
  t.equal(await follower.next(), 'one');
  await follower.close();
});

t.test('a stream ends with its token: revoked, expired, of a suspended account, of an operator demoted', async (t) => {
  const [kept, revoked] = [await api.signIn('ann', 'kept'), await api.signIn('ann', 'revoked')];
  const [stays, ends] = [await follow('', {}, kept.token), await follow('', {}, revoked.token)];
  for (const { response } of [stays, ends]) t.equal(response.statusCode, 200);
  const { items } = (await revoked.get('/me/tokens')).body;
  const { id } = items.find(({ current }: { current: boolean }) => current);
  const startedAt = performance.now();
  await kept.delete(`/me/tokens/${id}`);
  t.equal(await ends.next(), '(end)', 'revoked');
  t.ok(performance.now() - startedAt < 10_000, `${performance.now() - startedAt} ms`);
  // On a busy machine the token may expire before the stream opens.
  const short = await eventually(async () => {
    const follower = await follow('', {}, (await api.signIn('ann', 'short', 1)).token);
    return follower.response.statusCode === 200 && follower;
  });
  t.equal(await short.next(), '(end)', 'expired');
  const demoted = await follow('', {}, (await api.user('olga')).token);
  t.equal(demoted.response.statusCode, 200);
  await changeOperator(api.pool, 'olga', false);
  t.equal(await demoted.next(), '(end)', 'demoted');
  await write(line('one'));
  t.equal(await stays.next(), 'one', 'other tokens of the account are not affected');
  await changeSuspension(api.pool, 'ann', 'a test');
  t.equal(await stays.next(), '(end)', 'suspended');
  await changeSuspension(api.pool, 'ann', null);
  for (const follower of [stays, ends, short, demoted]) await follower.close();
});

t.test('a stream ends when the key that signed its token is revoked', async (t) => {
  const dataDir = await temporaryFolder(t);
  const other = await startApiFixture(t, { beside: { pool: api.pool, dataDir }, introspect: introspectsMinimal });
  const follower = await follow('', {}, (await other.user('ann')).token, await listen(other));
  await revokeKeys(api.pool, [...(await openKeyFiles(dataDir).list('identity')).keys()]);
  t.equal(await follower.next(), '(end)');
  await follower.close();
});

t.test('an interrupted stream resumes at its position, even before its first line', async (t) => {
  const first = await follow();
  const nothingSeen = first.lastId;
  await write(line('a'), line('b'));
  t.equal(await first.next(), 'a');
  const seen = first.lastId;
  await first.close();
  await write(line('c'));
  const second = await follow('', { 'last-event-id': seen });
  t.same([await second.next(), await second.next()], ['b', 'c']);
  await second.close();
  const third = await follow('', { 'last-event-id': nothingSeen });
  t.same([await third.next(), await third.next(), await third.next()], ['a', 'b', 'c']);
  await third.close();
});

t.test('a long way behind is caught up in order', async (t) => {
  const follower = await follow();
  const position = follower.lastId;
  await follower.close();
  const messages = Array.from({ length: 1_234 }, (_, index) => `line ${index}`);
  await write(...messages.map((message) => line(message)));
  const late = await follow('', { 'last-event-id': position });
  const got: string[] = [];
  while (got.length < messages.length) got.push(await late.next());
  t.same(got, messages);
  await late.close();
});

t.test('a line that is committed late is sent, and no line is sent twice', async (t) => {
  const follower = await follow();
  const late = line('late');
  await write(line('early'));
  t.equal(await follower.next(), 'early');
  await write(late);
  t.equal(await follower.next(), 'late');
  t.ok(follower.lastId > late.id, 'and its id does not move the reader back');
  await write(line('next'));
  t.equal(await follower.next(), 'next');
  await follower.close();
});

t.test('level and session are filtered as in the list', async (t) => {
  const follower = await follow('&levels=warn&levels=error&sessionId=s');
  await write(
    line('no', { sessionId: 's' }),
    line('not', { level: 'warn' }),
    line('yes', { level: 'error', sessionId: 's' }),
  );
  t.equal(await follower.next(), 'yes');
  await follower.close();
});

t.test('a caller without access gets a problem', async (t) => {
  const stream = `/plugin-logs/stream?installationId=${installationId}`;
  t.equal((await ben.get(stream)).status, 404);
  t.equal((await ann.get('/plugin-logs/stream')).status, 400);
  t.equal((await ann.get(`${stream}&levels=loud`)).status, 400);
  const refused = await ann.send({ method: 'GET', url: `/api${stream}`, headers: { 'last-event-id': 'x' } });
  t.equal(refused.status, 400);
  t.match(refused.body.detail, /header last-event-id/);
});

t.test('streams are counted, and given back when they end', async (t) => {
  const streams: Follower[] = [];
  for (let count = 0; count < 20; count += 1) streams.push(await follow());
  const refused = await ann.get(`/plugin-logs/stream?installationId=${installationId}`);
  t.equal(refused.status, 429);
  t.ok(refused.headers['retry-after']);
  for (const stream of streams) await stream.close();
  // The server notices the end later than the client.
  let again = await follow();
  while (again.response.statusCode === 429) again = await follow();
  await again.close();
});

const unlimited = (pool = api.pool) => ({
  accountId: 'a',
  key: installationId,
  response: { destroy: () => undefined },
  openTail: () => LogTail.open(pool, { installationId }, null),
  isThere: async () => true,
});

t.test('a client that does not read costs one page of lines in memory', async (t) => {
  let queries = 0;
  const pool = new Proxy(api.pool, {
    get: (target, key) => {
      if (key === 'query') queries += 1;
      const found = Reflect.get(target, key);
      return typeof found === 'function' ? found.bind(target) : found;
    },
  });
  const streams = openLogStreams(api.services.listener);
  const stream = await streams.open(unlimited(pool));
  const long = 'x'.repeat(8_000);
  await write(...Array.from({ length: 1_000 }, () => line(long)));
  stream.read(1);
  const before = queries;
  await write(line('more'));
  await new Promise((resolve) => setImmediate(resolve));
  t.ok(queries - before <= 2, `${queries - before} queries`);
  t.ok(stream.readableLength < 2_000_000, `${stream.readableLength} bytes wait`);
  stream.destroy();
  await once(stream, 'close');
  t.equal(streams.size, 0);
});

t.test('the response of a client that does not read is destroyed soon after its stream ended', async (t) => {
  const { listener } = api.services;
  const openUnread = async (streams: RowStreams) => {
    const { promise: destroyed, resolve: destroy } = Promise.withResolvers<void>();
    return { stream: await streams.open({ ...unlimited(), response: { destroy } }), destroyed };
  };
  const streams = openLogStreams(listener, { unreadMs: 1 });
  const [ended, closed] = [await openUnread(streams), await openUnread(streams)];
  ended.stream.end();
  await ended.destroyed;
  streams.close();
  await closed.destroyed;
  const late = await openUnread(openLogStreams(listener, { lifetimeMs: 1, unreadMs: 1 }));
  await late.destroyed;
  for (const { stream } of [ended, closed, late]) stream.destroy();
  t.equal(streams.size, 0);
});

t.test('a stream that is opened when all were closed ends at once', async () => {
  const streams = openLogStreams(api.services.listener);
  streams.close();
  t.match(await text(await streams.open(unlimited())), /^retry: \d+\nid: .*\n\n$/);
});

t.test('a quiet stream sends heartbeats, and ends with its installation, its lifetime or the process', async (t) => {
  const { listener } = api.services;
  const quick = openLogStreams(listener, { heartbeatMs: 20, lifetimeMs: 60_000 });
  let requests = 0;
  const isThere = async () => {
    requests += 1;
    return requests < 3;
  };
  const stream = await quick.open({ ...unlimited(), isThere });
  let text = '';
  for await (const chunk of stream) text += chunk;
  t.equal(text.match(/: heartbeat/g)?.length, 2, 'it ended when the installation was gone');
  const short = openLogStreams(listener, { heartbeatMs: 60_000, lifetimeMs: 30 });
  for await (const _ of await short.open(unlimited())) t.pass();
  const long = openLogStreams(listener);
  const open = await long.open(unlimited());
  const ended = (async () => {
    for await (const _ of open) long.close();
  })();
  await ended;
  t.equal(quick.size + short.size + long.size, 0);
});

t.test('after a step back of the wall clock, a stream sends heartbeats and ends after its lifetime', async (t) => {
  const clocks = moveClocks(t);
  const open = (options: { heartbeatMs?: number; lifetimeMs?: number }) =>
    openLogStreams(api.services.listener, options).open(unlimited());
  const [beating, ending] = [await open({ heartbeatMs: 20 }), await open({ lifetimeMs: 100 })];
  clocks.wallMs = -3_600_000;
  for await (const chunk of beating) if (String(chunk).includes(': heartbeat')) break;
  let chunks = 0;
  for await (const _chunk of ending) chunks += 1;
  t.ok(chunks > 0);
});

t.test('lines arrive after a step back of the clocks, also those of a supervisor that was started since', async (t) => {
  const step = 3_600_000;
  const ahead = (message: string, ms: number) =>
    line(message, { id: createIdAt(Date.now() + step + ms), at: new Date(Date.now() + step + ms).toISOString() });
  await write(line('before'), ahead('before the step', 0));
  const follower = await follow();
  await write(ahead('after the step', 1));
  t.equal(await follower.next(), 'after the step');
  await write(line('after a restart'));
  t.equal(await follower.next(), 'after a restart');
  await write(ahead('of another supervisor', 2), line('last'));
  t.same([await follower.next(), await follower.next()].sort(), ['last', 'of another supervisor']);
  await follower.close();
  const resumed = await follow('', { 'last-event-id': follower.lastId });
  await write(line('resumed'));
  t.equal(await resumed.next(), 'resumed');
  await resumed.close();
});

t.test('the command line finds the newest lines behind many that its filter leaves out', async (t) => {
  const rest = new Rest({ url: `http://127.0.0.1:${port}`, token: ann.token, signal: new AbortController().signal });
  const quiet = await install('found-late');
  await write(line('rare', { installationId: quiet, level: 'error' }));
  await write(...Array.from({ length: 5_000 }, () => line('frequent', { installationId: quiet })));
  const first = await ann.get(`/plugin-logs?installationId=${quiet}&levels=error`);
  t.match(first.body, { items: [], nextCursor: String });
  const filter = { installationId: quiet, levels: ['error'], sessionId: undefined };
  t.match(await readLastLines(rest, filter, 50), [{ message: 'rare' }]);
  t.equal((await readLastLines(rest, { ...filter, levels: [] }, 3)).length, 3);
});

t.test('a service that stops does not wait for its readers', async (t) => {
  const follower = await follow();
  await api.app.close();
  t.equal(await follower.next(), '(end)');
});
