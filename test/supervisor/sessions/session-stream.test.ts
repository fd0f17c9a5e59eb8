/** `GET /sessions/stream`: messages and notices as they are added, by any supervisor, resumable, the account's own. */

import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import t from 'tap';
import { deleteAgent } from '../../../db/accounts/agents.ts';
import type { Queues } from '../../../db/jobs/queues.ts';
import { openListener } from '../../../db/postgres/listener.ts';
import type { RowTail } from '../../../db/postgres/row-tail.ts';
import type { Queryable } from '../../../db/postgres/rows.ts';
import { hasStreamReaderSql, MESSAGES_ADDED, sweepChanges } from '../../../db/sessions/session-changes.ts';
import { openSessionTail, subscribeToMessages } from '../../../db/sessions/session-tail.ts';
import { appendMessages } from '../../../db/sessions/sessions.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { TEXT_MAX_CHARS } from '../../../sdk/contract/payloads.ts';
import { openSessionStreams } from '../../../supervisor/sessions/session-streams.ts';
import { startSupervisor } from '../../../supervisor/supervisor.ts';
import { untilLockIsAwaited } from '../../fixtures/lock-waits.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { defaultOptions } from '../default-options.ts';
import { type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);

interface Event {
  readonly id: string;
  readonly type: string;
  readonly data: { sessionId: string; message: { role: string; text: string }; gap?: boolean };
}

class Reader {
  readonly #answer: IncomingMessage;
  #text = '';
  #wake: () => void = () => undefined;
  #ended = false;
  constructor(answer: IncomingMessage) {
    this.#answer = answer;
    answer.setEncoding('utf8');
    const wake = () => this.#wake();
    answer.on('data', (chunk: string) => {
      this.#text += chunk;
      wake();
    });
    answer.on('close', () => {
      this.#ended = true;
      wake();
    });
  }
  get status() {
    return this.#answer.statusCode;
  }
  /** The next block; null at the end. */
  async #block(): Promise<string | null> {
    for (;;) {
      const end = this.#text.indexOf('\n\n');
      if (end >= 0) {
        const block = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 2);
        return block;
      }
      if (this.#ended) return null;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      await promise;
    }
  }
  async next(): Promise<Event | null> {
    for (;;) {
      const block = await this.#block();
      if (block === null) return null;
      const fields = new Map(block.split('\n').map((line) => line.split(/: (.*)/s, 2) as [string, string]));
      const data = fields.get('data');
      if (data) return { id: fields.get('id') ?? '', type: fields.get('event') ?? '', data: JSON.parse(data) };
      if (fields.has('retry')) this.first = fields.get('id') ?? '';
    }
  }
  first = '';
  close() {
    this.#answer.destroy();
  }
}

async function open(
  fixture: SupervisorFixture,
  account = fixture.account,
  headers: Record<string, string> = {},
  token?: string,
  query = '',
): Promise<Reader> {
  const { app } = fixture.supervisor;
  if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' });
  const address = app.server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const authorization = `Bearer ${token ?? (await fixture.issuer.issue(account))}`;
  const request = get({
    port,
    host: '127.0.0.1',
    path: `/sessions/stream${query}`,
    headers: { ...headers, authorization },
  });
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  return new Reader(answer);
}

t.test('a stream ends with its token, and those of other tokens go on', async (t) => {
  const fixture = shared.withNewAccount();
  const [ends, stays] = [await fixture.issueRevocable(), await fixture.issueRevocable()];
  const ending = await open(fixture, fixture.account, {}, ends.token);
  const staying = await open(fixture, fixture.account, {}, stays.token);
  for (const { status } of [ending, staying]) t.equal(status, 200);
  // On a busy machine the token may expire before the stream opens.
  const expiring = await eventually(async () => {
    const reader = await open(fixture, fixture.account, {}, await fixture.issuer.issue(fixture.account, 1));
    return reader.status === 200 && reader;
  });
  const revokedAt = performance.now();
  await ends.revoke();
  t.equal(await ending.next(), null, 'revoked');
  t.ok(performance.now() - revokedAt < 10_000, `${performance.now() - revokedAt} ms`);
  t.equal(await expiring.next(), null, 'expired');
  const session = await fixture.session();
  await fixture.call('POST', `/sessions/${session}/messages`, { messages: [{ role: 'user', text: 'still there' }] });
  t.match(await staying.next(), { data: { message: { text: 'still there' } } });
  staying.close();
});

soakTest(t, 'a message does not wait until another account’s many sessions are deleted', async (t) => {
  const [fixture, other] = [shared.withNewAccount(), shared.withNewAccount()];
  const { pool, supervisor } = shared;
  const ears = await other.install({ code: 'events.sessionDeleted = () => {};', status: 'paused' });
  const { accountId } = ears;
  await pool.query(`INSERT INTO agents (id, account_id, name, instructions, size_bytes) VALUES ('a', $1, 'A', '', 1)`, [
    accountId,
  ]);
  const COUNT = 3_000;
  await pool.query(
    `INSERT INTO sessions (id, account_id, agent_id, agent_name)
     SELECT 'a' || n, $1, 'a', 'A' FROM generate_series(1, $2::int) n`,
    [accountId, COUNT],
  );
  const session = await fixture.session();
  const reader = await open(fixture);
  // Waits for the lock of the removal from the first batch on, so the second one waits.
  const holder = await pool.connect();
  let holding: Promise<unknown> | undefined;
  const queues: Queues = {
    ...supervisor.queues,
    sendToGroups: async (...given) => {
      holding ??= holder.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [`sessions:${accountId}`]);
      await Promise.race([holding, untilLockIsAwaited(pool)]);
      return supervisor.queues.sendToGroups(...given);
    },
  };
  const removal = deleteAgent(pool, queues, { accountId }, 'a');
  await eventually(() => holding !== undefined);
  await holding;
  const left = await pool.query('SELECT 1 FROM sessions WHERE account_id = $1', [accountId]);
  t.equal(left.rowCount, COUNT - 1_000, 'one batch is deleted');
  await fixture.call('POST', `/sessions/${session}/messages`, { messages: [{ role: 'user', text: 'meanwhile' }] });
  t.match(await reader.next(), { data: { message: { text: 'meanwhile' } } });
  await holder.query('SELECT pg_advisory_unlock_all()');
  holder.release();
  t.equal(await removal, true);
  reader.close();
});

t.test('streams the account’s messages and notices in the order in which they are added', async (t) => {
  const fixture = shared;
  await fixture.install({
    slug: 'guard',
    code: 'middleware.inboundMessage = (ctx) => { if (ctx.message.text === "no") ctx.cancel("not that"); };',
  });
  const session = await fixture.session();
  const other = await fixture.session('bob');
  const say = (text: string, id = session, account = 'ann') =>
    fixture.call('POST', `/sessions/${id}/messages`, { messages: [{ role: 'user', text }] }, account);
  await say('before');
  const reader = await open(fixture);
  t.equal(reader.status, 200);
  await say('none of yours', other, 'bob');
  await say('one');
  const first = await reader.next();
  t.match(first, { type: 'message', data: { sessionId: session, message: { role: 'user', text: 'one' } } });
  const context = { message: { id: 'm', from: 'x', text: 'no', attachments: [] } };
  await fixture.call('POST', `/sessions/${session}/hooks/inboundMessage`, { context });
  t.match(await reader.next(), { type: 'notice', data: { message: { role: 'notice', text: /not that/ } } });
  reader.close();
  await say('two');
  await fixture.call('POST', `/sessions/${session}/messages`, {
    messages: Array.from({ length: 25 }, (_, n) => ({ role: 'user', text: `many ${n}` })),
  });
  const again = await open(fixture, 'ann', { 'last-event-id': first?.id ?? '' });
  t.match(await again.next(), { type: 'notice' });
  t.match(await again.next(), { data: { message: { text: 'two' } } });
  for (let n = 0; n < 25; n++) t.match(await again.next(), { data: { message: { text: `many ${n}` } } });
  again.close();
  t.equal((await open(fixture, 'ann', { 'last-event-id': 'nonsense' })).status, 400);
});

t.test('with changes it says where it begins, and whether something may have been missed', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const follow = (after?: string) =>
    open(fixture, fixture.account, after === undefined ? {} : { 'last-event-id': after }, undefined, '?changes=true');
  const say = (text: string) =>
    fixture.call('POST', `/sessions/${session}/messages`, { messages: [{ role: 'user', text }] });
  const reader = await follow();
  const opened = await reader.next();
  t.match(opened, { type: 'open', data: { position: reader.first, gap: false } });
  t.equal(opened?.id, reader.first);
  await say('one');
  const message = await reader.next();
  t.match(message, { type: 'message' });
  reader.close();
  const gapAfter = async (after: string) => {
    const again = await follow(after);
    const first = await again.next();
    again.close();
    return first?.data.gap;
  };
  t.equal(await gapAfter(message?.id ?? ''), false);
  t.equal(await gapAfter(reader.first), false);
  t.equal(await gapAfter('999999999999999999-1'), true, 'a position of a database before a restore');
  for (const gone of [await fixture.session(), await fixture.session()])
    t.equal((await fixture.call('DELETE', `/sessions/${gone}`)).status, 204);
  const further = await follow(message?.id);
  t.match(await further.next(), { type: 'open', data: { gap: false } });
  t.match(await further.next(), { type: 'deleted' });
  const last = await further.next();
  t.match(last, { type: 'deleted' });
  further.close();
  await fixture.pool.query(
    `UPDATE session_changes SET at = at - interval '25 hours'
      WHERE account_id = (SELECT account_id FROM sessions WHERE id = $1)`,
    [session],
  );
  await sweepChanges(fixture.pool);
  for (const after of [reader.first, message?.id ?? ''])
    t.equal(await gapAfter(after), true, 'longer ago than cleared and deleted sessions are known');
  t.equal(await gapAfter(last?.id ?? ''), false, 'but nothing happened since');
});

t.test('a stream with changes tells each change of the tools of a session once', async (t) => {
  const fixture = shared.withNewAccount();
  const [session, other] = [await fixture.session(), await fixture.session()];
  const reader = await open(fixture, fixture.account, {}, undefined, `?changes=true&sessionId=${session}`);
  t.match(await reader.next(), { type: 'open' });
  const offer = async (body: object, id = session) =>
    t.match(await fixture.call('PUT', `/sessions/${id}/tools`, body), { status: 200 });
  const say = (text: string) =>
    fixture.call('POST', `/sessions/${session}/messages`, { messages: [{ role: 'user', text }] });
  await offer({ hostTools: ['todo'] }, other);
  await offer({ tools: [{ name: 'bake' }] });
  t.match(await reader.next(), { type: 'tools', data: { sessionId: session, agentId: String, at: String } });
  await offer({ tools: [{ name: 'bake' }], hostTools: [] });
  await say('the same tools');
  t.match(await reader.next(), { type: 'message' });
  await offer({ tools: [], hostTools: ['todo'] });
  t.match(await reader.next(), { type: 'tools', data: { sessionId: session } });
  await fixture.call('POST', '/sessions', { agentId: 'new', tools: [{ name: 'bake' }] });
  await say('one event for both lists');
  t.match(await reader.next(), { type: 'message' });
  reader.close();
});

t.test('a message that commits late is not passed over', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const reader = await open(fixture);
  const slow = await fixture.pool.connect();
  t.teardown(() => slow.release());
  await slow.query('BEGIN');
  await appendMessages(slow, session, [{ role: 'user', text: 'slow' }]);
  await appendMessages(fixture.pool, session, [{ role: 'user', text: 'quick' }]);
  const next = reader.next();
  await slow.query('COMMIT');
  t.match(
    [await next, await reader.next()],
    [{ data: { message: { text: 'slow' } } }, { data: { message: { text: 'quick' } } }],
  );
  reader.close();
});

t.test('the stream contains changes of other supervisors', async (t) => {
  const fixture = shared.withNewAccount();
  const { pool, blobs, keys, verifier, sandbox, dataDir } = fixture;
  const second = await startSupervisor({
    ...defaultOptions,
    pool,
    blobs,
    keys,
    verifier,
    sandbox,
    dataDir,
    logger: pino({ level: 'silent' }),
    childrenMax: 5,
  });
  t.teardown(() => second.stop());
  const session = await fixture.session();
  const reader = await open(fixture);
  const authorization = `Bearer ${await fixture.issuer.issue(fixture.account)}`;
  const there = (method: 'POST' | 'GET' | 'DELETE', url: string, payload?: object) =>
    second.app.inject({ method, url, headers: { authorization }, ...(payload ? { payload } : {}) });
  await there('POST', `/sessions/${session}/messages`, { messages: [{ role: 'user', text: 'from there' }] });
  t.match(await reader.next(), { data: { message: { text: 'from there' } } });
  t.equal((await fixture.call('GET', `/sessions/${session}`)).body.clearedAt, null);
  t.equal((await there('POST', `/sessions/${session}/clear`, {})).statusCode, 200);
  await eventually(async () => (await fixture.call('GET', `/sessions/${session}`)).body.clearedAt);
  t.equal((await there('DELETE', `/sessions/${session}`)).statusCode, 204);
  await eventually(async () => (await fixture.call('GET', `/sessions/${session}`)).status === 404);
  t.equal(
    (await fixture.call('POST', `/sessions/${session}/messages`, { messages: [{ role: 'user', text: 'x' }] })).status,
    404,
  );
  reader.close();
});

t.test('a message notifies the supervisors only while somebody reads', async (t) => {
  const fixture = shared.withNewAccount();
  const { pool } = fixture;
  const session = await fixture.session();
  const accountId: string = (await pool.query('SELECT account_id FROM sessions WHERE id = $1', [session])).rows[0]
    .account_id;
  const notified: string[] = [];
  const subscription = await subscribeToMessages(fixture.supervisor.listener, (id) => void notified.push(id));
  t.teardown(() => subscription.close());
  let sentinels = 0;
  const countNotices = async () => {
    sentinels += 1;
    const sentinel = `sentinel ${sentinels}`;
    await pool.query('SELECT pg_notify($1, $2)', [MESSAGES_ADDED, sentinel]);
    await eventually(async () => notified.includes(sentinel));
    return notified.filter((id) => id === accountId).length;
  };
  const append = (db: Queryable, text: string) => appendMessages(db, session, [{ role: 'user', text }]);
  const first = await open(fixture);
  await append(pool, 'one');
  const { id = '' } = (await first.next()) ?? {};
  t.equal(await countNotices(), 1, 'with a reader');
  first.close();
  const isRead = async () =>
    (await pool.query(`SELECT ${hasStreamReaderSql('$1::text')} AS "isRead"`, [accountId])).rows[0].isRead;
  await eventually(async () => !(await isRead()));
  await append(pool, 'two');
  t.equal(await countNotices(), 1, 'without one');
  // A reader that comes while such a message is not committed yet waits for it, so that it is not missed.
  const late = await pool.connect();
  await late.query('BEGIN');
  await append(late, 'three');
  const opening = open(fixture, fixture.account, { 'last-event-id': id });
  await late.query('COMMIT');
  late.release();
  const second = await opening;
  t.match(await second.next(), { data: { message: { text: 'two' } } });
  t.match(await second.next(), { data: { message: { text: 'three' } } });
  const before = await countNotices();
  await append(pool, 'four');
  t.match(await second.next(), { data: { message: { text: 'four' } } });
  t.equal(await countNotices(), before + 1, 'with a reader again');
  second.close();
});

/** Opens streams of the account's messages without HTTP. */
async function openDirectly(fixture: SupervisorFixture, sessionId: string) {
  const { pool } = fixture;
  const accountId: string = (await pool.query('SELECT account_id FROM sessions WHERE id = $1', [sessionId])).rows[0]
    .account_id;
  const streams = openSessionStreams(fixture.supervisor.listener, { heartbeatMs: 60_000 });
  const response = { destroy: () => undefined };
  const open = (tail: () => Promise<RowTail> = () => openSessionTail(pool, accountId, '0-0')) =>
    streams.open({ accountId, key: accountId, response, isThere: async () => true, openTail: tail });
  return { open, accountId };
}

soakTest(t, 'a stream whose client does not read holds a small part of its messages', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const { open, accountId } = await openDirectly(fixture, session);
  // Each character takes six in JSON.
  const text = '\u0001'.repeat(TEXT_MAX_CHARS);
  const messages = Array.from({ length: 10 }, (_, n) => ({ id: `m${n}`, role: 'user' as const, text }));
  await appendMessages(fixture.pool, session, messages);
  const tail = await openSessionTail(fixture.pool, accountId, '0-0');
  let read = 0;
  const stream = await open(async () => ({
    position: tail.position,
    async read() {
      const batch = await tail.read();
      read += batch.events.reduce((sum, { data }) => sum + (data as Event['data']).message.text.length, 0);
      return batch;
    },
  }));
  /** As a response to a client that takes nothing until `goOn`. */
  const { promise: wait, resolve: goOn } = Promise.withResolvers<void>();
  let received = '';
  const response = new Writable({
    write(chunk: Buffer, _encoding, done) {
      received += chunk.toString();
      void wait.then(() => done());
    },
  });
  stream.pipe(response);
  await eventually(async () => response.writableNeedDrain && stream.readableLength > 0);
  const held = read + stream.readableLength + response.writableLength;
  t.ok(held < MIB, `${held} bytes`);
  t.ok(read <= TEXT_MAX_CHARS, `${read} characters are read`);
  goOn();
  await eventually(async () => received.split('\n\n').length === messages.length + 2);
  const events = received.split('\n\n').slice(1, -1);
  const parsed = events.map((event) => JSON.parse(event.slice(event.indexOf('data: ') + 'data: '.length)));
  t.same(
    parsed.map(({ message }) => message.id),
    messages.map(({ id }) => id),
  );
  t.ok(parsed.every(({ message }) => message.text === text));
  stream.destroy();
  await once(stream, 'close');
});

soakTest(t, 'a stream that is behind leaves the event loop to others after each batch', async (t) => {
  const fixture = shared.withNewAccount();
  const { open } = await openDirectly(fixture, await fixture.session());
  const READS = 50;
  let [reads, turns] = [0, 0];
  const count = () => {
    turns += 1;
    if (reads < READS) setImmediate(count);
  };
  const stream = await open(async () => ({
    position: '1-0',
    async read() {
      if (reads === 0) setImmediate(count);
      reads += 1;
      return { events: [{ id: `1-${reads}`, type: 'message', data: {} }], bytes: 100, hasMore: reads < READS };
    },
  }));
  stream.resume();
  await eventually(async () => reads === READS);
  t.ok(turns >= READS - 1, `${turns} turns of the event loop for ${reads} reads`);
  stream.destroy();
  await once(stream, 'close');
});

t.test('an account has a limited number of streams', async (t) => {
  const fixture = shared.withNewAccount();
  const { open } = await openDirectly(fixture, await fixture.session());
  const streams = [];
  for (let n = 0; n < 20; n++) streams.push(await open());
  await t.rejects(open(), { code: 'rate_limited' });
  for (const stream of streams) stream.destroy();
});

t.test('what is listened to while a lost connection takes its locks again is heard', async (t) => {
  const { pool } = shared;
  const listener = await openListener(pool, () => undefined);
  t.teardown(() => listener.close());
  await t.rejects(listener.holdShared('\0'), 'a lock that cannot be had is not tried again');
  const held = await listener.holdShared('held');
  const writer = await pool.connect();
  t.teardown(() => writer.release());
  await writer.query('BEGIN');
  const [pid] = (await writer.query('SELECT pg_backend_pid() AS pid')).rows.map((row) => row.pid);
  // It waits for the listener's lock, and has it as soon as the listener is gone.
  const locked = writer.query(`SELECT pg_advisory_xact_lock(hashtextextended('held', 0))`);
  const [listening] = await eventually(async () => {
    const { rows } = await pool.query('SELECT pg_blocking_pids($1) AS pids', [pid]);
    return rows[0].pids.length > 0 && rows[0].pids;
  });
  const before = (await pool.query('SELECT pid FROM pg_stat_activity')).rows.map((row) => row.pid);
  await pool.query('SELECT pg_terminate_backend($1)', [listening]);
  await locked;
  await eventually(async () => {
    const { rows } = await pool.query(
      `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> ALL ($1)
         AND query LIKE 'SELECT pg_try_advisory_lock_shared%'`,
      [before],
    );
    return rows.length > 0;
  });
  const { promise: heard, resolve } = Promise.withResolvers<string>();
  await listener.listen('later', { onNotification: resolve, onReconnect: () => undefined });
  await writer.query('COMMIT');
  await eventually(async () => listener.isConnected());
  await pool.query(`NOTIFY later, 'a word'`);
  t.equal(await heard, 'a word');
  await held.close();
});
