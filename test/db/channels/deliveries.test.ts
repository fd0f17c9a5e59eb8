/** Requests at rest, and the addresses they came to. */
import { randomBytes, randomUUIDv7 } from 'node:crypto';
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import {
  deleteChannel,
  findAddresses,
  insertChannel,
  RETIRED_ADDRESSES_MAX,
  replaceAddress,
} from '../../../db/channels/channels.ts';
import { insertDeliveries, insertReply, type NewDelivery } from '../../../db/channels/deliveries.ts';
import { replayDeliveries } from '../../../db/channels/delivery-history.ts';
import { findWaitingChannelQueues, finishDelivery, sweepDeliveries } from '../../../db/channels/delivery-queue.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { bindConversation } from '../../../db/sessions/conversations.ts';
import { createSession } from '../../../db/sessions/sessions.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { testDatabase } from '../../runner/harness.ts';

const { pool } = await testDatabase(t);
const account = await findOrCreateAccount(pool, 'ann');
await insertBareInstallation(pool, { accountId: account.id });
const connect = () =>
  inTransaction(pool, (tx) => insertChannel(tx, { installationId: 'i', accountId: account.id, name: 'inbox' }));

const deliveryOf = (channelId: string, body: Buffer, id = randomUUIDv7()): NewDelivery => ({
  id,
  channelId,
  installationId: 'i',
  accountId: account.id,
  routingId: 'r',
  receivedAt: 1_234_567_890_123,
  method: 'POST',
  query: 'a=1&a=2',
  headers: [
    ['X-A', 'é\u0000'],
    ['x-a', '"'],
  ],
  body,
});

t.test('a group keeps its order and every byte; written twice it is there once', async (t) => {
  const channel = await connect();
  const group = Array.from({ length: 50 }, () => deliveryOf(channel.id, randomBytes(300)));
  await insertDeliveries(pool, group);
  await insertDeliveries(pool, [...group].reverse());
  const found = await pool.query('SELECT * FROM deliveries WHERE channel_id = $1 ORDER BY position', [channel.id]);
  t.same(
    found.rows.map(({ id, body }) => [id, body.toString('hex')]),
    group.map(({ id, body }) => [id, body.toString('hex')]),
  );
  t.equal(Date.parse(found.rows[0].received_at), 1_234_567_890_123);
  t.same(found.rows[0].headers, group[0]?.headers);
});

const readAddress = async (routingId: string) => (await findAddresses(pool, [routingId])).get(routingId);

t.test('an address is valid until it is replaced', async (t) => {
  const channel = await connect();
  t.match(channel.routingId, /^[A-Za-z0-9_-]{22}$/);
  t.match(await readAddress(channel.routingId), { channelId: channel.id, installationId: 'i', handshake: null });
  const replaced = await inTransaction(pool, (tx) => replaceAddress(tx, 'i', channel.id));
  t.equal(await readAddress(channel.routingId), 'retired');
  t.match(await readAddress(replaced?.routingId ?? ''), { channelId: channel.id });
  t.equal(await inTransaction(pool, (tx) => replaceAddress(tx, 'other', channel.id)), null);
  t.equal((await pool.query('SELECT 1 FROM channels WHERE id = $1', [channel.id])).rowCount, 1);
  t.equal(await inTransaction(pool, (tx) => deleteChannel(tx, 'other', channel.id)), false);
  t.match(await readAddress(replaced?.routingId ?? ''), { channelId: channel.id });
  t.equal(await inTransaction(pool, (tx) => deleteChannel(tx, 'i', channel.id)), true);
  t.equal(await readAddress(replaced?.routingId ?? ''), 'retired');
  t.equal(await readAddress('A'.repeat(22)), undefined);
});

t.test('a request that arrived after its address was replaced is a dead letter', async (t) => {
  const channel = await connect();
  await inTransaction(pool, (tx) => replaceAddress(tx, 'i', channel.id));
  const at = (receivedAt: number) => ({
    ...deliveryOf(channel.id, Buffer.from('x')),
    routingId: channel.routingId,
    receivedAt,
  });
  await insertDeliveries(pool, [at(Date.now() - 3_600_000), at(Date.now() + 3_600_000)]);
  const { rows } = await pool.query(
    'SELECT state, last_error, finished_at IS NOT NULL AS ended FROM deliveries WHERE channel_id = $1 ORDER BY position',
    [channel.id],
  );
  t.match(rows, [
    { state: 'pending', last_error: null, ended: false },
    { state: 'dead', last_error: /^the webhook address was replaced/, ended: true },
  ]);
});

t.test('the sweep deletes old finished deliveries, never pending ones', async (t) => {
  const channel = await connect();
  const [old, fresh, pending] = [1, 2, 3].map(() => deliveryOf(channel.id, Buffer.from('x')));
  await insertDeliveries(pool, [old, fresh, pending] as NewDelivery[]);
  await pool.query(`UPDATE deliveries SET state = 'dead', finished_at = now() - interval '3 days' WHERE id = $1`, [
    old?.id,
  ]);
  await pool.query(`UPDATE deliveries SET state = 'delivered', finished_at = now() WHERE id = $1`, [fresh?.id]);
  await pool.query(`UPDATE deliveries SET received_at = now() - interval '9 days' WHERE id = $1`, [pending?.id]);
  await sweepDeliveries(pool, 2);
  const left = await pool.query('SELECT id FROM deliveries WHERE channel_id = $1 ORDER BY position', [channel.id]);
  t.same(
    left.rows.map(({ id }) => id),
    [fresh?.id, pending?.id],
  );
});

t.test('a reply that fails while its session is being deleted ends, without a notice', async (t) => {
  const channel = await connect();
  const given = { accountId: account.id, agentId: 'a', agentName: 'A', channelId: channel.id };
  const { id: sessionId } = await createSession(pool, given);
  await inTransaction(pool, (tx) => bindConversation(tx, { channelId: channel.id, key: 'k', sessionId }));
  const { id: replyId, ...reply } = deliveryOf(channel.id, Buffer.from('{}'));
  await insertReply(pool, { ...reply, id: replyId, conversationKey: 'k', traceparent: null });
  await pool.query('UPDATE deliveries SET claimed_by = 1 WHERE id = $1', [replyId]);
  await inTransaction(pool, async (tx) => {
    await tx.query('DELETE FROM sessions WHERE id = $1', [sessionId]);
    t.equal(await finishDelivery(pool, replyId, 1, 'dead'), true, 'it does not wait for the deletion');
  });
  t.match((await pool.query('SELECT state FROM deliveries WHERE id = $1', [replyId])).rows, [{ state: 'dead' }]);
});

t.test('channels without a pending delivery cost the look-up of waiting queues nothing', async (t) => {
  const IDLE = 5_000;
  await pool.query(
    `INSERT INTO channels (id, installation_id, account_id, name, routing_id)
     SELECT 'idle-' || n, 'i', $1, 'idle', 'idle-' || n FROM generate_series(1, ${IDLE}) n`,
    [account.id],
  );
  await pool.query('ANALYZE channels, deliveries');
  const channel = await connect();
  await insertDeliveries(pool, [deliveryOf(channel.id, randomBytes(10))]);
  await pool.query(`UPDATE deliveries SET state = 'dead' WHERE state = 'pending' AND channel_id <> $1`, [channel.id]);
  await inTransaction(pool, async (tx) => {
    const waiting = await findWaitingChannelQueues(tx, null, null);
    t.match(waiting, [{ channelId: channel.id, direction: 'in', setAside: false, waitMs: 0 }]);
    t.equal(waiting.length, 1);
    const read = await tx.query<{ rows: number }>(
      `SELECT (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int AS rows FROM pg_stat_xact_user_tables
        WHERE relname = 'channels'`,
    );
    t.ok((read.rows[0]?.rows ?? IDLE) < 10, `${read.rows[0]?.rows} rows of channels were read`);
  });
  await pool.query(
    `UPDATE deliveries SET next_attempt_at = now() + interval '1 hour', last_error = 'x' WHERE channel_id = $1`,
    [channel.id],
  );
  const [later] = await findWaitingChannelQueues(pool, null, [channel.id]);
  t.ok((later?.waitMs ?? 0) > 3_500_000, 'a queue whose head is due later is found with its wait');
  await pool.query(`UPDATE deliveries SET next_attempt_at = 'infinity' WHERE channel_id = $1`, [channel.id]);
  t.same(await findWaitingChannelQueues(pool, null, [channel.id]), [], 'one that is held is not');
});

t.test('a request that arrived after its address was replaced is replayed by its id only', async (t) => {
  const channel = await connect();
  await inTransaction(pool, (tx) => replaceAddress(tx, 'i', channel.id));
  const routingId = channel.routingId;
  const late = { ...deliveryOf(channel.id, Buffer.from('x')), routingId, receivedAt: Date.now() + 3_600_000 };
  await insertDeliveries(pool, [late]);
  const replay = (filter: { id: string } | { state: 'dead' }) =>
    inTransaction(pool, (tx) =>
      replayDeliveries(tx, { installationId: 'i', channelId: channel.id, limit: 10, ...filter }),
    );
  t.equal(await replay({ state: 'dead' }), 0);
  t.equal(await replay({ id: late.id }), 1);
});

t.test('the oldest retired addresses of an installation are deleted, a batch with each new address', async (t) => {
  const channel = await connect();
  await pool.query('DELETE FROM channel_addresses WHERE retired_at IS NOT NULL');
  await pool.query(
    `INSERT INTO channel_addresses (routing_id, channel_id, installation_id, retired_at)
       SELECT installation || n, $1, installation, now() - n * interval '1 minute'
         FROM unnest('{i,other}'::text[]) AS installation, generate_series(1, $2) AS n`,
    [channel.id, 2 * RETIRED_ADDRESSES_MAX + 1],
  );
  const replace = () => inTransaction(pool, (tx) => replaceAddress(tx, 'i', channel.id));
  const countRetired = async (installationId: string) =>
    (
      await pool.query('SELECT FROM channel_addresses WHERE installation_id = $1 AND retired_at IS NOT NULL', [
        installationId,
      ])
    ).rowCount;
  await replace();
  t.equal(await countRetired('i'), RETIRED_ADDRESSES_MAX + 2);
  const replaced = await replace();
  await connect();
  t.equal(await countRetired('i'), RETIRED_ADDRESSES_MAX);
  t.equal(await countRetired('other'), 2 * RETIRED_ADDRESSES_MAX + 1);
  t.equal(await readAddress(channel.routingId), 'retired');
  t.match(await readAddress(replaced?.routingId ?? ''), { channelId: channel.id });
  t.equal(await readAddress(`i${RETIRED_ADDRESSES_MAX - 2}`), 'retired');
  t.equal(await readAddress(`i${RETIRED_ADDRESSES_MAX - 1}`), undefined);
});
