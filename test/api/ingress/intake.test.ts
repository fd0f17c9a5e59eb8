/** A webhook request is stored unchanged before the vendor gets the response. */
import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { isWebhook } from '../../../api/ingress/ingress.ts';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { saveUsageLimits } from '../../../db/accounts/usage.ts';
import { maintainUsage } from '../../../db/accounts/usage-upkeep.ts';
import { insertChannel, replaceAddress } from '../../../db/channels/channels.ts';
import { withConnection } from '../../../db/postgres/dedicated-connection.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { eventually } from '../../runner/eventually.ts';
import { seededRandom } from '../../runner/random.ts';
import { amount } from '../../runner/soak.ts';
import { openWebhookFixture } from './webhook-fixture.ts';

const fixture = await openWebhookFixture(t);
const rowOf = async (id: string) => (await fixture.pool.query('SELECT * FROM deliveries WHERE id = $1', [id])).rows[0];

/** Random ones, after one of each of the 256 bytes. */
const BODIES = amount({ quick: 60, soak: 10_000 });
const random = seededRandom();

t.test('any method, bytes and headers', async (t) => {
  const { routingId, id: channelId } = await fixture.connect();
  const path = `/webhook/plugin/${routingId}?a=1&b=%20&a=2`;
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'PROPFIND']) {
    const body = method === 'HEAD' ? '' : `by ${method}`;
    // Said by hand: a client that sends a body with GET must, and Node's does not by itself.
    const answer = await fixture.send(path, { method, body, headers: { 'content-length': body.length } });
    t.equal(answer.status, 200, method);
    if (method === 'HEAD') continue;
    t.match(answer.body, { ok: true, id: String });
    const row = await rowOf(answer.body.id);
    t.match(row, { method, query: 'a=1&b=%20&a=2', channel_id: channelId, installation_id: 'i', state: 'pending' });
    t.equal(row.body.toString(), `by ${method}`);
  }
});

t.test('a request target may name the scheme and the host', async (t) => {
  const { routingId } = await fixture.connect();
  for (const origin of ['http://hooks.example:8080', 'HTTPS://hooks.example']) {
    const target = `${origin}/webhook/plugin/${routingId}?a=http://b/c`;
    t.equal(isWebhook(target), true);
    const answer = await fixture.send(target, { body: 'x' });
    t.equal(answer.status, 200, origin);
    t.match(await rowOf(answer.body.id), { query: 'a=http://b/c' });
  }
  t.equal(isWebhook('http://hooks.example/?to=http://b/webhook/plugin/x'), false);
  t.equal(isWebhook('/to/http://b/webhook/plugin/x'), false);
});

t.test('characters of a routing id may be percent-encoded', async (t) => {
  const { routingId } = await fixture.connect();
  const encode = (id: string) => id.replace(/./g, (char) => `%${char.charCodeAt(0).toString(16)}`);
  for (const id of [
    encode(routingId),
    encode(routingId).toUpperCase(),
    encode(routingId.slice(0, 1)) + routingId.slice(1),
  ]) {
    const answer = await fixture.send(`/webhook/plugin/${id}`, { body: 'x' });
    t.equal(answer.status, 200, id);
    t.equal((await rowOf(answer.body.id)).routing_id, routingId);
  }
});

t.test('a body in a transfer coding that stays encoded is refused', async (t) => {
  const { routingId } = await fixture.connect();
  const headers = { 'transfer-encoding': 'gzip, chunked' };
  t.match(await fixture.send(`/webhook/plugin/${routingId}`, { body: 'x', headers }), {
    status: 400,
    body: {
      code: 'bad_request',
      detail: /^The Transfer-Encoding “gzip, chunked” is not supported\. Send the body uncompressed/,
    },
  });
});

t.test('the session of a browser that opens an address is neither stored nor passed on', async (t) => {
  const { routingId } = await fixture.connect();
  const cases: readonly [string, string[]][] = [
    ['bulkhead-session-4000=secret', []],
    ['__Host-bulkhead-session=secret', []],
    ['a=b; __Secure-bulkhead-session=secret; c=d', ['a=b; c=d']],
    ['bulkhead-session=secret; a="b"', ['a="b"']],
    ['bulkhead-sessions=b', ['bulkhead-sessions=b']],
    ['a=bulkhead-session=b', ['a=bulkhead-session=b']],
  ];
  for (const [cookie, kept] of cases) {
    const { status, body } = await fixture.send(`/webhook/plugin/${routingId}`, { method: 'GET', headers: { cookie } });
    t.equal(status, 200);
    const { headers } = await rowOf(body.id);
    const cookies = (headers as [string, string][]).filter(([name]) => name === 'cookie').map(([, value]) => value);
    t.same(cookies, kept, cookie);
  }
});

t.test('connections that end while the database is there send nothing over the disk', async (t) => {
  const { routingId } = await fixture.connect();
  const path = `/webhook/plugin/${routingId}`;
  const spoolChangedAt = async (): Promise<number> => {
    const [own = ''] = await readdir(join(fixture.dataDir, 'spool'));
    return (await stat(join(fixture.dataDir, 'spool', own))).mtimeMs;
  };
  const before = await spoolChangedAt();
  // More at once than one connection, so that the pool holds some.
  await Promise.all(Array.from({ length: 8 }, (_, at) => fixture.send(path, { body: `${at}` })));
  for (let round = 0; round < 5; round += 1) {
    await withConnection(fixture.url, { application_name: 'test' }, (client) =>
      client.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
      ),
    );
    const { body } = await fixture.send(path, { body: 'after' });
    t.match(await rowOf(body.id), { state: 'pending' }, 'stored before the vendor was answered');
  }
  t.equal(await spoolChangedAt(), before);
});

t.test('bodies and headers are exact, whatever they hold', async (t) => {
  const { routingId } = await fixture.connect();
  const path = `/webhook/plugin/${routingId}`;
  const sent = new Map<string, { digest: string; headers: string[] }>();
  const one = async (index: number): Promise<void> => {
    // Mostly small, now and then large, and each of the 256 values early on.
    const size = index < 256 ? 1 : Math.floor(2 ** (random.integer(0, 1_600) / 100));
    const body = index < 256 ? Buffer.of(index) : random.bytes(size);
    const values = Array.from({ length: 3 }, () =>
      random
        .bytes(6)
        .toString('latin1')
        .replace(/[^\t\x20-\x7e\x80-\xff]|^\s|\s$/g, 'x'),
    );
    const headers = [
      'X-One',
      values[0],
      'x-ONE',
      values[1],
      'Content-Encoding',
      'gzip',
      'X-Two',
      values[2],
    ] as string[];
    const answer = await fixture.send(path, {
      headers: [...headers, 'Host', 'h', 'Connection', 'close, X-Hop', 'X-Hop', 'gone'] as never,
      body,
    });
    t.equal(answer.status, 200);
    sent.set(answer.body.id, { digest: createHash('sha256').update(body).digest('hex'), headers });
  };
  for (let index = 0; index < BODIES; index += 20)
    await Promise.all(Array.from({ length: 20 }, (_, offset) => one(index + offset)));
  const found = await fixture.pool.query(
    `SELECT id, encode(sha256(body), 'hex') AS digest, headers FROM deliveries WHERE id = ANY ($1)`,
    [[...sent.keys()]],
  );
  t.equal(found.rows.length, sent.size);
  const wrong = found.rows.filter(({ id, digest, headers }) => {
    const was = sent.get(id);
    const kept = headers.filter(([name]: [string]) => !/^(host|transfer-encoding|content-length)$/i.test(name)).flat();
    return digest !== was?.digest || JSON.stringify(kept) !== JSON.stringify(was?.headers);
  });
  t.same(wrong, []);
});

t.test('5 MiB pass, one byte more does not, chunked or not', async (t) => {
  const { routingId } = await fixture.connect();
  const path = `/webhook/plugin/${routingId}`;
  const [whole, more] = [Buffer.alloc(5 * MIB, 7), Buffer.alloc(5 * MIB + 1)];
  const passed = await fixture.send(path, { body: whole });
  t.equal(passed.status, 200);
  t.ok((await rowOf(passed.body.id)).body.equals(whole));
  t.match(await fixture.send(path, { body: more, headers: { 'content-length': more.byteLength } }), {
    status: 413,
    body: { code: 'too_large' },
  });
  const chunked = { body: more, headers: { 'transfer-encoding': 'chunked' } };
  t.match(
    await fixture.send(path, chunked),
    { status: 413, body: { code: 'too_large' } },
    'the rest is read and discarded',
  );
});

t.test('unknown is 404, replaced is 410 at once, too many is 429', async (t) => {
  for (const id of ['x', 'A'.repeat(22), '%00', '..', 'A'.repeat(5_000)])
    t.match(await fixture.send(`/webhook/plugin/${id}`), { status: 404, body: { code: 'not_found' } });
  t.match(await fixture.send('/webhook/other'), { status: 404 });
  const channel = await fixture.connect();
  t.match(await fixture.send(`/webhook/plugin/${channel.routingId}`), { status: 200 });
  const fresh = await inTransaction(fixture.pool, (tx) => replaceAddress(tx, 'i', channel.id));
  // The notice is on its way for a millisecond, longer on a busy machine.
  await eventually(async () => (await fixture.send(`/webhook/plugin/${channel.routingId}`)).status === 410);
  t.match(await fixture.send(`/webhook/plugin/${fresh?.routingId}`), { status: 200 });
});

t.test('an address has its own limit', async (t) => {
  // So low that no request has become free again before the last one is sent, also on a machine that stands still for seconds.
  const strict = await openWebhookFixture(t, { config: { WEBHOOKS_PER_SECOND: 0.001, WEBHOOK_BURST: 5 } });
  const [a, b] = [await strict.connect(), await strict.connect()];
  const send = (id: string) => strict.send(`/webhook/plugin/${id}`);
  const statuses = await Promise.all(Array.from({ length: 8 }, async () => (await send(a.routingId)).status));
  t.same(statuses.toSorted(), [200, 200, 200, 200, 200, 429, 429, 429]);
  const refused = await send(a.routingId);
  t.match(refused, { status: 429, headers: { 'retry-after': /^(9\d\d|1000)$/ }, body: { code: 'rate_limited' } });
  t.equal((await send(b.routingId)).status, 200);
});

t.test('ten addresses of one account are used at their full rate at once', async (t) => {
  const strict = await openWebhookFixture(t, { config: { WEBHOOKS_PER_SECOND: 1, WEBHOOK_BURST: 5 } });
  const channels = await Promise.all(Array.from({ length: 10 }, () => strict.connect()));
  const requests = channels.flatMap(({ routingId }) => Array.from({ length: 5 }, () => `/webhook/plugin/${routingId}`));
  const answers = await Promise.all(requests.map((path) => strict.send(path)));
  t.same(
    answers.filter(({ status }) => status !== 200),
    [],
  );
});

t.test('a request that ends early creates no delivery', async (t) => {
  const { routingId } = await fixture.connect();
  const before = await fixture.pool.query('SELECT count(*) FROM deliveries');
  const socket = connectSocket(fixture.port, '127.0.0.1');
  socket.write(`POST /webhook/plugin/${routingId} HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\nhalf`);
  socket.end();
  await text(socket).catch(() => '');
  t.same((await fixture.pool.query('SELECT count(*) FROM deliveries')).rows, before.rows);
});

t.test(
  'an account whose pending requests fill its quota is refused before a body arrives, others are not',
  async (t) => {
    const { pool } = fixture;
    t.teardown(() => saveUsageLimits(pool, {}));
    const { id: accountId } = await findOrCreateAccount(pool, 'other');
    await insertBareInstallation(pool, { accountId, pluginId: 'p-other', installationId: 'i-other' });
    const other = await inTransaction(pool, (tx) =>
      insertChannel(tx, { installationId: 'i-other', accountId, name: 'inbox' }),
    );
    const full = await fixture.connect();
    const send = (routingId: string) => fixture.send(`/webhook/plugin/${routingId}`, { body: 'x'.repeat(5_000) });
    t.match(await send(full.routingId), { status: 200 });
    await saveUsageLimits(pool, { deliveries: 50_000 });
    // The room is read again within a second.
    const refused = await eventually(async () => {
      const answer = await send(full.routingId);
      return answer.status !== 200 && answer;
    });
    t.match(refused, { status: 429, headers: { 'retry-after': '60' }, body: { code: 'rate_limited' } });
    t.match(refused.body.detail, /^Quota exceeded: this account's deliveries are full/);
    const stored = await pool.query('SELECT count(*) FROM deliveries');
    const socket = connectSocket(fixture.port, '127.0.0.1');
    socket.write(`POST /webhook/plugin/${full.routingId} HTTP/1.1\r\nhost: h\r\ncontent-length: 5000000\r\n\r\nhalf`);
    t.match(await text(socket), /^HTTP\/1\.1 429 /, 'answered without its body');
    t.match(await send(full.routingId), { status: 429 });
    t.same((await pool.query('SELECT count(*) FROM deliveries')).rows, stored.rows);
    t.match(await send(other.routingId), { status: 200 });
    await pool.query(`UPDATE deliveries SET state = 'delivered', finished_at = now() WHERE installation_id = 'i'`);
    await maintainUsage(pool);
    await eventually(async () => (await send(full.routingId)).status !== 429);
  },
);

t.test('refused requests do not fill the log: one line for each error, not for each request', async (t) => {
  const { pool, connect, send, errors } = await openWebhookFixture(t, { config: { SPOOL_MEGABYTES: 0 } });
  const { routingId } = await connect();
  await pool.query('ALTER TABLE deliveries ADD CONSTRAINT none CHECK (false) NOT VALID');
  for (let sent = 0; sent < 100; sent += 1)
    t.equal((await send(`/webhook/plugin/${routingId}`, { body: 'x' })).status, 503);
  t.same(
    errors.map(({ message }) => message),
    [
      'new row for relation "deliveries" violates check constraint "none"',
      'The spool of webhook requests on disk is full. Send it again later.',
    ],
  );
});
