/** Channels through the REST interface: connect, replace, disconnect; deliveries and events looked at and replayed. */
import t, { type Test } from 'tap';
import { Addresses } from '../../../api/ingress/address-cache.ts';
import type { Introspect } from '../../../api/services.ts';
import {
  type Address,
  findAddresses,
  listAddresses,
  retireInstallationAddresses,
} from '../../../db/channels/channels.ts';
import { insertDeliveries } from '../../../db/channels/deliveries.ts';
import { notifyInstallationChanged } from '../../../db/postgres/notifications.ts';
import { orderedId } from '../../../db/postgres/ordered-id.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { untilLockIsAwaited } from '../../fixtures/lock-waits.ts';
import { registerParts } from '../../fixtures/registrations.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { startApiFixture } from '../api-fixture.ts';
import { serveWebhooks } from '../ingress/serving.ts';
import { send as sendWebhook } from '../ingress/webhook-fixture.ts';
import { fileList, readmeWith } from '../package/packages.ts';

const introspect: Introspect = async () => ({
  ok: true,
  registrations: registerParts({
    events: ['pluginInstalled'],
    channel: { receive: true, send: true, handshake: false, handshakeOn: null },
  }),
  places: {},
});
const api = await startApiFixture(t, { introspect });
const [ann, ben] = [await api.user('ann'), await api.user('ben')];
const files = fileList({ 'readme.md': readmeWith(), 'index.ts': 'channel.receive = () => undefined;' });
const plugin = (await ann.post('/plugins', { slug: 'inbox', displayName: 'Inbox' })).body.id;
await ann.post(`/plugins/${plugin}/versions`, { semVer: '1.0.0', files });
await ann.post(`/plugins/${plugin}/listing`);
const installation = (await ann.post('/installations', { slug: 'inbox' })).body;
const at = `/installations/${installation.id}`;
/** The network from which vendors send. */
const NETWORK = '192.0.2.1';
const routingOf = (url: string) => url.split('/').at(-1) ?? '';
const readAddress = async (routingId: string) => (await findAddresses(api.pool, [routingId])).get(routingId);
const connect = async (name = 'desk') => (await ann.post(`${at}/channels`, { name })).body;

/** The pool, with `query` in place of its own. */
const poolWith = (query: (...asked: Parameters<typeof api.pool.query>) => Promise<unknown>) =>
  Object.assign(Object.create(api.pool) as typeof api.pool, { query });

async function take(channel: { id: string; webhookUrl: string }, body: string | Buffer, state = 'pending') {
  const { rows } = await api.pool.query('SELECT account_id AS id FROM installations WHERE id = $1', [installation.id]);
  // Lists are in the order of the ids, also within a millisecond.
  const id = orderedId(Date.now());
  await insertDeliveries(api.pool, [
    {
      id,
      channelId: channel.id,
      installationId: installation.id,
      accountId: rows[0].id,
      method: 'POST',
      query: '',
      routingId: routingOf(channel.webhookUrl),
      receivedAt: Date.now(),
      headers: [['X-A', 'b']] as const,
      body: Buffer.from(body),
    },
  ]);
  await api.pool.query(`UPDATE deliveries SET state = $2, attempts = 6 WHERE id = $1 AND $2 <> 'pending'`, [id, state]);
  return id;
}

t.test('a channel has a random address, which its installation shows', async (t) => {
  const made = await ann.post(`${at}/channels`, { name: 'desk', agentId: 'support' });
  t.equal(made.status, 201);
  t.match(made.body, { name: 'desk', webhookUrl: /^http:\/\/localhost:4000\/webhook\/plugin\/[A-Za-z0-9_-]{22}$/ });
  t.equal(made.body.agentId, 'support');
  t.same((await ann.get(at)).body.channels, [made.body]);
  const replaced = await ann.post(`${at}/channels/${made.body.id}/replace-address`);
  t.match(replaced, { status: 200, body: { id: made.body.id, name: 'desk', agentId: 'support' } });
  t.equal(await readAddress(routingOf(made.body.webhookUrl)), 'retired');
  t.match(await readAddress(routingOf(replaced.body.webhookUrl)), { channelId: made.body.id });
  t.equal((await ann.delete(`${at}/channels/${made.body.id}`)).status, 204);
  t.equal(await readAddress(routingOf(replaced.body.webhookUrl)), 'retired');
  t.same((await ann.get(at)).body.channels, []);
  const own = await ann.post(`${at}/channels`, { name: 'desk' });
  t.equal(own.body.agentId, own.body.id, 'an agent of its own');
  t.same((await ann.get(at)).body.channels, [own.body]);
  t.equal((await ann.delete(`${at}/channels/${own.body.id}`)).status, 204);
  t.equal((await ann.delete(`${at}/channels/${made.body.id}`)).status, 404);
  t.equal((await ann.post(`${at}/channels/${made.body.id}/replace-address`)).status, 404);
});

t.test('a channel created over REST takes its first webhook over HTTP at once', async (t) => {
  const port = await serveWebhooks(t, { ...api, onError: (error) => t.error(error) });
  for (let round = 0; round < 20; round += 1) {
    const { body: made } = await ann.post(`${at}/channels`, { name: 'desk' });
    const { pathname } = new URL(made.webhookUrl);
    t.match(await sendWebhook({ port, path: pathname, agent: false }, 'first'), { status: 200, body: { ok: true } });
    const { rows } = await api.pool.query('SELECT body FROM deliveries WHERE channel_id = $1', [made.id]);
    t.equal(String(rows[0]?.body), 'first');
    await ann.delete(`${at}/channels/${made.id}`);
  }
});

t.test(
  'when the change is answered, a replaced, disconnected or uninstalled address is known to be gone',
  async (t) => {
    const addresses = await Addresses.open(api.pool, api.services.listener, (error) => t.error(error));
    t.teardown(() => addresses.close());
    const second = (await ben.post('/installations', { slug: 'inbox' })).body;
    for (let round = 0; round < 10; round += 1) {
      const made = await connect();
      t.match(await addresses.find(routingOf(made.webhookUrl), NETWORK), { channelId: made.id });
      const replaced = (await ann.post(`${at}/channels/${made.id}/replace-address`)).body;
      t.equal(await addresses.find(routingOf(made.webhookUrl), NETWORK), 'retired');
      t.match(await addresses.find(routingOf(replaced.webhookUrl), NETWORK), { channelId: made.id });
      await ann.delete(`${at}/channels/${made.id}`);
      t.equal(await addresses.find(routingOf(replaced.webhookUrl), NETWORK), 'retired');
    }
    const last = (await ben.post(`/installations/${second.id}/channels`, { name: 'desk' })).body;
    t.match(await addresses.find(routingOf(last.webhookUrl), NETWORK), { channelId: last.id });
    await ben.delete(`/installations/${second.id}`);
    t.equal(await addresses.find(routingOf(last.webhookUrl), NETWORK), 'retired');
  },
);

await soakTest(t, 'an address that is replaced while it is looked up is looked up again', async (t) => {
  const { body: made } = await ann.post(`${at}/channels`, { name: 'desk' });
  const routingId = routingOf(made.webhookUrl);
  const isRead = Promise.withResolvers<void>();
  const isReplaced = Promise.withResolvers<void>();
  const slow = poolWith(async (...asked) => {
    const answer = await api.pool.query(...asked);
    // The cache also reads all addresses at its start.
    if (JSON.stringify(asked).includes(routingId)) isRead.resolve();
    await isReplaced.promise;
    return answer;
  });
  const addresses = await Addresses.open(slow, api.services.listener, (error) => t.error(error));
  t.teardown(() => addresses.close());
  const early = addresses.find(routingId, NETWORK);
  await isRead.promise;
  await ann.post(`${at}/channels/${made.id}/replace-address`);
  const late = addresses.find(routingId, NETWORK);
  isReplaced.resolve();
  t.match(await early, { channelId: made.id }, 'what was read before');
  t.equal(await late, 'retired');
  t.equal(await addresses.find(routingId, NETWORK), 'retired', 'what was read first is not kept');
  await ann.delete(`${at}/channels/${made.id}`);
});

await soakTest(t, 'requests to unknown addresses displace no known one', async (t) => {
  const made = await connect();
  let isAway = false;
  const pool = poolWith(async (...asked) => {
    if (isAway) throw Object.assign(new Error('away'), { code: 'ECONNREFUSED' });
    return JSON.stringify(asked).includes('"stranger') ? { rows: [] } : api.pool.query(...asked);
  });
  const addresses = await Addresses.open(pool, api.services.listener, (error) => t.error(error));
  t.teardown(() => addresses.close());
  t.match(await addresses.find(routingOf(made.webhookUrl), NETWORK), { channelId: made.id });
  const strangers = Array.from({ length: 50_000 }, (_, index) => `stranger${String(index).padStart(14, '0')}`);
  for (let at = 0; at < strangers.length; at += 1_000) {
    const some = strangers.slice(at, at + 1_000);
    // From as many networks, because those of one are limited.
    const found = await Promise.all(some.map((routingId) => addresses.find(routingId, routingId)));
    t.ok(found.every((address) => address === 'unknown'));
  }
  isAway = true;
  t.match(await addresses.find(routingOf(made.webhookUrl), NETWORK), { channelId: made.id });
  await t.rejects(addresses.find(strangers[0] ?? '', NETWORK), { message: 'away' });
  await ann.delete(`${at}/channels/${made.id}`);
});

t.test('a change of an installation reads its addresses again', async (t) => {
  const made = await connect();
  const other = (await ben.post('/installations', { slug: 'inbox' })).body;
  const others = (await ben.post(`/installations/${other.id}/channels`, { name: 'desk' })).body;
  const [own, foreign] = [routingOf(made.webhookUrl), routingOf(others.webhookUrl)];
  const read: unknown[] = [];
  const pool = poolWith(async (...asked) => {
    // A look-up names its addresses in a list; a page of all addresses names the one before it.
    const [listed] = asked[1] as unknown[];
    if (Array.isArray(listed)) read.push(...listed);
    return api.pool.query(...asked);
  });
  const addresses = await Addresses.open(pool, api.services.listener, (error) => t.error(error));
  t.teardown(() => addresses.close());
  const readsOf = async (routingId: string) => {
    await addresses.find(routingId, NETWORK);
    return read.filter((one) => one === routingId).length;
  };
  // Of the channels made above.
  await api.services.listener.catchUp();
  const before = [await readsOf(own), await readsOf(foreign)];
  await inTransaction(api.pool, (tx) => notifyInstallationChanged(tx, installation.id));
  await eventually(async () => (await readsOf(own)) > (before[0] ?? 0));
  t.equal(await readsOf(foreign), before[1], 'and no others');
  const ids = [await addresses.find(own, NETWORK), await addresses.find(foreign, NETWORK)].map(
    (found) => (found as Address).accountId,
  );
  const seesOthers = () => ids.map((accountId) => addresses.hasOtherAccount(accountId));
  t.same(seesOthers(), [true, true]);
  await ann.delete(`${at}/channels/${made.id}`);
  await eventually(async () => (await addresses.find(own, NETWORK)) === 'retired');
  t.same(seesOthers(), [true, false], 'the second is alone now');
  await ben.delete(`/installations/${other.id}`);
});

t.test('addresses of an installation that is being removed are not in use', async () => {
  const made = await connect();
  const listed = async () =>
    (await listAddresses(api.pool, '', 1_000)).some(({ routingId }) => routingId === routingOf(made.webhookUrl));
  t.equal(await listed(), true);
  await inTransaction(api.pool, (tx) => retireInstallationAddresses(tx, installation.id));
  t.equal(await listed(), false);
  await ann.delete(`${at}/channels/${made.id}`);
});

await soakTest(t, 'a disconnect does not wait for deliveries of other disconnected channels', async (t) => {
  const [left, channel] = [await connect('left'), await connect('desk')];
  const id = await take(left, 'x');
  await api.pool.query('DELETE FROM channels WHERE id = $1', [left.id]);
  await inTransaction(api.pool, async (tx) => {
    await tx.query('SELECT 1 FROM deliveries WHERE id = $1 FOR UPDATE', [id]);
    t.equal((await ann.delete(`${at}/channels/${channel.id}`)).status, 204);
  });
});

t.test('disconnecting a channel removes its sessions and makes pending deliveries dead', async (t) => {
  const { body: channel } = await ann.post(`${at}/channels`, { name: 'desk' });
  const me = (await ann.get('/me')).body.id;
  const installationId = at.split('/').at(-1) ?? '';
  await api.pool.query(`INSERT INTO sessions (id, account_id, agent_id, agent_name) VALUES ('chat', $1, 'a', 'A')`, [
    me,
  ]);
  await api.pool.query(
    `INSERT INTO conversations (channel_id, conversation_key, session_id) VALUES ($1, 'k', 'chat')`,
    [channel.id],
  );
  await insertDeliveries(api.pool, [
    {
      id: 'waiting',
      channelId: channel.id,
      installationId,
      accountId: me,
      routingId: 'r',
      receivedAt: Date.now(),
      method: 'POST',
      query: '',
      headers: [],
      body: Buffer.from('x'),
    },
  ]);
  t.equal((await ann.delete(`${at}/channels/${channel.id}`)).status, 204);
  t.equal((await api.pool.query(`SELECT 1 FROM sessions WHERE id = 'chat'`)).rowCount, 0);
  const left = await api.pool.query(`SELECT state, last_error FROM deliveries WHERE id = 'waiting'`);
  t.same(left.rows, [{ state: 'dead', last_error: 'the channel is disconnected' }]);
});

t.test('another account can neither read nor change channels', async (t) => {
  const channel = await connect();
  const id = await take(channel, 'x');
  for (const answer of [
    await ben.post(`${at}/channels`, { name: 'x' }),
    await ben.post(`${at}/channels/${channel.id}/replace-address`),
    await ben.delete(`${at}/channels/${channel.id}`),
    await ben.get(`${at}/deliveries`),
    await ben.get(`${at}/deliveries/${id}`),
    await ben.post(`${at}/deliveries/${id}/replay`),
    await ben.post(`${at}/deliveries/replay`, { state: 'dead' }),
    await ben.get(`${at}/events`),
  ])
    t.equal(answer.status, 404);
  t.match(await readAddress(routingOf(channel.webhookUrl)), { channelId: channel.id });
});

t.test('deliveries are listed newest first, by channel and state, with their payload', async (t) => {
  const channel = await connect('list');
  const text = await take(channel, 'héllo', 'dead');
  const bytes = await take(channel, Buffer.from([0, 255, 1]));
  const large = await take(channel, Buffer.alloc(70_000, 97), 'delivered');
  const list = (await ann.get(`${at}/deliveries?channelId=${channel.id}`)).body.items;
  t.same(
    list.map((item: { id: string }) => item.id),
    [large, bytes, text],
  );
  t.match((await ann.get(`${at}/deliveries?channelId=${channel.id}&state=dead`)).body.items, [
    { id: text, direction: 'in', state: 'dead', attempts: 6, bodyBytes: 6 },
  ]);
  t.match((await ann.get(`${at}/deliveries/${text}`)).body, {
    body: 'héllo',
    bodyEncoding: 'text',
    bodyTruncated: false,
    headers: [['X-A', 'b']],
  });
  t.match((await ann.get(`${at}/deliveries/${bytes}`)).body, { body: 'AP8B', bodyEncoding: 'base64' });
  t.match((await ann.get(`${at}/deliveries/${large}`)).body, { bodyTruncated: true, bodyBytes: 70_000 });
  t.equal((await ann.get(`${at}/deliveries?state=lost`)).status, 400);
  t.equal((await ann.get(`${at}/deliveries/nothing`)).status, 404);
});

t.test('one is replayed, or all that are dead', async (t) => {
  const channel = await connect('replay');
  const ids = [
    await take(channel, '1', 'dead'),
    await take(channel, '2', 'dead'),
    await take(channel, '3', 'delivered'),
  ];
  const one = await ann.post(`${at}/deliveries/${ids[2]}/replay`);
  t.match(one, { status: 200, body: { id: ids[2], state: 'pending', attempts: 0 } });
  t.match(await ann.post(`${at}/deliveries/${ids[2]}/replay`), {
    status: 409,
    body: { code: 'delivery_state', detail: /It is pending\. It is next\. .* Only finished deliveries are replayed/ },
  });
  const many = await ann.post(`${at}/deliveries/replay`, { state: 'dead', channelId: channel.id });
  t.match(many, { status: 200, body: { replayed: 2 } });
  const unknown = await ann.post(`${at}/deliveries/replay`, { state: 'dead', channelId: 'nothing' });
  t.match(unknown, {
    status: 404,
    body: { code: 'not_found', detail: 'The installation has no channel with this id.' },
  });
  const pending = (await ann.get(`${at}/deliveries?channelId=${channel.id}&state=pending`)).body.items;
  t.equal(pending.length, 3);
});

/** A transaction that another request waits for. */
async function beginTransaction(t: Test) {
  const client = await api.pool.connect();
  t.teardown(() => client.release());
  await client.query('BEGIN');
  return client;
}

await soakTest(t, 'a delivery that another request replays meanwhile is pending, not without a channel', async (t) => {
  const id = await take(await connect('replayed-twice'), '1', 'dead');
  const other = await beginTransaction(t);
  await other.query(`UPDATE deliveries SET state = 'pending', attempts = 0 WHERE id = $1`, [id]);
  const replayed = ann.post(`${at}/deliveries/${id}/replay`);
  await untilLockIsAwaited(api.pool);
  await other.query('COMMIT');
  t.match(await replayed, { status: 409, body: { code: 'delivery_state' } });
});

t.test('those behind say what they wait for; one is tried now or given up', async (t) => {
  const channel = await connect('waiting');
  const [first, second] = [await take(channel, '1'), await take(channel, '2')];
  await api.pool.query(
    `UPDATE deliveries SET attempts = 1, last_error = 'error: no', next_attempt_at = now() + interval '1 hour' WHERE id = $1`,
    [first],
  );
  const shown = async () =>
    (await ann.get(`${at}/deliveries?channelId=${channel.id}`)).body.items.map(
      ({ waitReason, waitsFor }: { waitReason: string; waitsFor: string | null }) => [waitsFor, waitReason],
    );
  t.same(await shown(), [
    [first, `It waits for delivery ${first}, which comes first, whose last attempt failed: error: no`],
    [null, 'It failed once and is attempted again. Later deliveries of the channel wait for it.'],
  ]);
  const tryNow = (id: string) => ann.post(`${at}/deliveries/${id}/try-now`);
  const giveUp = (id: string) => ann.post(`${at}/deliveries/${id}/give-up`);
  t.match(await tryNow(second), {
    status: 409,
    body: {
      code: 'delivery_state',
      detail: new RegExp(`It waits for delivery ${first}.*Try that one now, or give it up`),
    },
  });
  t.match(await tryNow(first), { status: 200, body: { state: 'pending', attempts: 1, waitReason: /^It is next\./ } });
  await api.pool.query(
    `UPDATE deliveries SET attempts = 2, set_aside = true, next_attempt_at = now() + interval '1 hour' WHERE id = $1`,
    [first],
  );
  t.match(await shown(), [
    [null, 'It is next. At most 4 deliveries of an installation are attempted at once.'],
    [null, 'It failed 2 times and is attempted again. Later deliveries pass it.'],
  ]);
  t.match(await giveUp(first), { status: 200, body: { state: 'dead', lastError: 'given up by its user: error: no' } });
  t.match(await giveUp(first), { status: 409, body: { detail: 'It is dead. Replay it to deliver it again.' } });
  t.match(await tryNow(first), { status: 409, body: { detail: 'It is dead. Replay it to deliver it again.' } });
  await api.pool.query(`UPDATE deliveries SET next_attempt_at = 'infinity', last_error = 'paused' WHERE id = $1`, [
    second,
  ]);
  t.match((await tryNow(second)).body, {
    detail: /It waits until the installation can run: paused\. It cannot be tried/,
  });
  t.match(await giveUp(second), { status: 200, body: { state: 'dead' } });
  for (const call of [tryNow, giveUp]) t.equal((await call('nothing')).status, 404);
  t.equal((await ben.post(`${at}/deliveries/${first}/give-up`)).status, 404);
});

t.test('events are listed and replayed', async (t) => {
  const { items } = (await ann.get(`${at}/events`)).body;
  t.match(items, [{ type: 'pluginInstalled', state: 'pending', attempts: 0, data: { reason: 'install' } }]);
  const { id } = items[0];
  await api.pool.query(`UPDATE events SET state = 'dead', attempts = 8, finished_at = now() WHERE id = $1`, [id]);
  t.match((await ann.get(`${at}/events?state=dead`)).body.items, [{ id, attempts: 8 }]);
  t.match(await ann.post(`${at}/events/${id}/replay`), { status: 200, body: { id, state: 'pending', attempts: 0 } });
  t.match(await ann.post(`${at}/events/${id}/replay`), { status: 409, body: { detail: /It is pending/ } });
  t.equal((await ann.post(`${at}/events/nothing/replay`)).status, 404);
});

t.test('a request that acts again when it is repeated says so in its description', async (t) => {
  const channel = await connect('repeated');
  const replacePath = `/channels/${channel.id}/replace-address`;
  const repeated: readonly [string, string, object | undefined, (body: Record<string, unknown>) => unknown][] = [
    ['/channels', '/channels', { name: 'repeated' }, ({ id }) => id],
    ['/channels/{channelId}/replace-address', replacePath, undefined, ({ webhookUrl }) => webhookUrl],
    ['/rerun-setup', '/rerun-setup', undefined, ({ eventId }) => eventId],
  ];
  for (const [route, path, body, pick] of repeated) {
    const [first, second] = [await ann.post(`${at}${path}`, body), await ann.post(`${at}${path}`, body)];
    t.equal(first.status, second.status);
    t.not(pick(first.body), pick(second.body), `${route} acts again`);
    t.match(api.document.paths[`/installations/{id}${route}`]?.post?.description, /Not idempotent: a repeated request/);
  }
});

t.test('an address is not replaced while its installation is uninstalled', async (t) => {
  const { id } = (await ben.post('/installations', { slug: 'inbox' })).body;
  const channel = (await ben.post(`/installations/${id}/channels`, { name: 'desk' })).body;
  const other = await beginTransaction(t);
  await other.query(`UPDATE installations SET status = 'uninstalling' WHERE id = $1`, [id]);
  await retireInstallationAddresses(other, id);
  const replaced = ben.post(`/installations/${id}/channels/${channel.id}/replace-address`);
  await untilLockIsAwaited(api.pool);
  await other.query('COMMIT');
  t.equal((await replaced).status, 404);
  t.equal(await readAddress(routingOf(channel.webhookUrl)), 'retired');
});

t.test('an uninstall retires the addresses at once', async (t) => {
  const channel = await connect('last');
  t.equal((await ann.delete(at)).status, 204);
  t.equal(await readAddress(routingOf(channel.webhookUrl)), 'retired');
});
