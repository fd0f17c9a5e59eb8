/** The periodic queries of a supervisor read only held work, not everything that waits behind it. */
import { randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import t from 'tap';
import {
  claimNextDelivery,
  endOrphanedDeliveries,
  releaseHeldDeliveries,
} from '../../../db/channels/delivery-queue.ts';
import { endOrphanedEvents, releaseHeldEvents, requeueStrandedEvents } from '../../../db/installations/events.ts';
import { startQueues } from '../../../db/jobs/queues.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { SWEEP_BATCH } from '../../../db/postgres/rows.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';

const WAITING = amount({ quick: 6_000, soak: 20_000 });
/** Much more than is held, and much less than waits. */
const ROWS_MAX = 100;

const { pool } = await testDatabase(t);
const queues = await startQueues({ pool, role: 'producer', onError: () => undefined });
t.teardown(() => queues.stop());
await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
await insertBareInstallation(pool, { accountId: 'a' });
await pool.query(`UPDATE installations SET status = 'paused' WHERE id = 'i'`);
await pool.query(
  `INSERT INTO channels (id, installation_id, account_id, name, routing_id) VALUES ('c', 'i', 'a', 'c', 'r')`,
);
await pool.query(
  `INSERT INTO events (id, installation_id, account_id, plugin_id, type, data, next_attempt_at)
   SELECT 'e' || lpad(n::text, 6, '0'), 'i', 'a', 'p', 'sessionStarted', '{}', CASE n WHEN 1 THEN 'infinity' ELSE now() END
     FROM generate_series(1, $1::int) n`,
  [WAITING],
);
await pool.query(
  `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body, received_at, next_attempt_at)
   SELECT 'd' || lpad(n::text, 6, '0'), 'c', 'i', 'a', 'r', 'POST', '', '[]', '', now(), CASE n WHEN 1 THEN 'infinity' ELSE now() END
     FROM generate_series(1, $1::int) n`,
  [WAITING],
);
await pool.query('VACUUM ANALYZE events, deliveries');

t.test('a release of held work reads what is held', async (t) => {
  for (const installationId of [null, 'i']) {
    const explained = explainPool(pool);
    t.equal(await releaseHeldEvents(explained.pool, queues, installationId), 0);
    t.same(await releaseHeldDeliveries(explained.pool, installationId), []);
    for (const { rowsRead } of explained.costs)
      t.ok((rowsRead.events ?? 0) + (rowsRead.deliveries ?? 0) < ROWS_MAX, JSON.stringify(rowsRead));
  }
});

t.test('a release unpacks the registrations of a version once, however many deliveries wait', async (t) => {
  const HELD = 1_000;
  await insertBareInstallation(pool, { accountId: 'a', pluginId: 'large', installationId: 'large' });
  // Random, so that it is not compressed.
  const tools = { filler: randomBytes(200_000).toString('base64') };
  const setHandlers = async (channel: object) =>
    pool.query('UPDATE versions SET registrations = $1 WHERE id = $2', [JSON.stringify({ tools, channel }), 'large']);
  await pool.query(
    `INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, manifest, readme,
                             capabilities, added_capabilities, discovered, registrations)
       VALUES ('large', 'large', '1.0.0', 'published', 'a', 'b', 1, '{}', '', '{}', '{}', '{}', '{}')`,
  );
  await setHandlers({ receive: false, send: true });
  await pool.query(`UPDATE installations SET current_version_id = 'large' WHERE id = 'large'`);
  await pool.query(
    `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body, received_at, next_attempt_at)
     SELECT 'l' || n, 'l', 'large', 'a', 'r', 'POST', '', '[]', '', now(), 'infinity' FROM generate_series(1, $1::int) n`,
    [HELD],
  );
  await pool.query('ANALYZE deliveries');
  t.teardown(async () => {
    await pool.query(`DELETE FROM deliveries WHERE channel_id = 'l'`);
    await pool.query(`DELETE FROM installations WHERE id = 'large'`);
  });
  for (const installationId of [null, 'large']) {
    const explained = explainPool(pool);
    t.same(await releaseHeldDeliveries(explained.pool, installationId), []);
    const [{ blocksRead } = { blocksRead: Number.NaN }] = explained.costs;
    // Each unpacking reads more than 100 blocks.
    t.ok(blocksRead < 10 * HELD, `${blocksRead} blocks`);
  }
  await setHandlers({ receive: true, send: false });
  const explained = explainPool(pool);
  t.same(await releaseHeldDeliveries(explained.pool, 'large', 'l7'), ['l']);
  for (const { rowsRead } of explained.costs) t.ok((rowsRead.deliveries ?? 0) < 10, JSON.stringify(rowsRead));
  t.equal((await releaseHeldDeliveries(pool, null)).length, HELD - 1);
});

t.test('the sweep of stranded events reads the next one of each installation', async (t) => {
  const explained = explainPool(pool);
  t.equal(await requeueStrandedEvents(explained.pool, queues, { shards: null, delivering: new Set() }), 0);
  const { rowsRead = {} } = explained.costs[0] ?? {};
  t.ok((rowsRead.events ?? 0) < ROWS_MAX, JSON.stringify(rowsRead));
});

t.test('the search for deliveries without a channel reads no deliveries of one that exists', async (t) => {
  const explained = explainPool(pool);
  await endOrphanedDeliveries(explained.pool, null);
  for (const { rowsRead } of explained.costs) t.ok((rowsRead.deliveries ?? 0) < ROWS_MAX, JSON.stringify(rowsRead));
});

t.test('the end of one channel reads no deliveries of others', async (t) => {
  await pool.query(
    `WITH others AS (
       INSERT INTO channels (id, installation_id, account_id, name, routing_id)
       SELECT 'o' || n, 'i', 'a', 'o' || n, 'o' || n FROM generate_series(1, $1::int) n RETURNING id)
     INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body, received_at)
     SELECT id, id, 'i', 'a', 'r', 'POST', '', '[]', '', now() FROM others`,
    [2 * ROWS_MAX],
  );
  t.teardown(() => pool.query(`DELETE FROM deliveries WHERE channel_id LIKE 'o%'`));
  const explained = explainPool(pool);
  await endOrphanedDeliveries(explained.pool, 'c');
  for (const { rowsRead } of explained.costs) t.ok((rowsRead.deliveries ?? 0) < 10, JSON.stringify(rowsRead));
  await pool.query(`DELETE FROM channels WHERE id = 'o1'`);
  await endOrphanedDeliveries(explained.pool, 'o1');
  const ended = await pool.query(`SELECT id FROM deliveries WHERE state = 'dead'`);
  t.same(ended.rows, [{ id: 'o1' }]);
});

/** Runs a sweep while another transaction holds the row. @returns the rows that each statement changed */
async function sweepBesideLocked(
  table: 'deliveries' | 'events',
  id: string,
  sweep: (pool: Pool) => Promise<void>,
): Promise<number[]> {
  const changed: number[] = [];
  const query = async (text: string, values: unknown[]) => {
    const result = await pool.query(text, values);
    changed.push(result.rowCount ?? 0);
    return result;
  };
  await inTransaction(pool, async (tx) => {
    await tx.query(`SELECT 1 FROM ${table} WHERE id = $1 FOR UPDATE`, [id]);
    await sweep({ query } as unknown as Pool);
  });
  return changed;
}
const listStates = async (table: 'deliveries' | 'events') =>
  (await pool.query(`SELECT state, count(*)::int FROM ${table} GROUP BY state ORDER BY state`)).rows;
const FULL_BATCHES = Array.from({ length: WAITING / SWEEP_BATCH - 1 }, () => SWEEP_BATCH);

t.test('deliveries of disconnected channels end in batches, without a wait for locked ones', async (t) => {
  await pool.query('DELETE FROM channels');
  const changed = await sweepBesideLocked('deliveries', 'd000001', (counted) => endOrphanedDeliveries(counted, null));
  t.same(changed, [...FULL_BATCHES, SWEEP_BATCH - 1]);
  t.same(await listStates('deliveries'), [
    { state: 'dead', count: WAITING - 1 },
    { state: 'pending', count: 1 },
  ]);
  await pool.query(`UPDATE deliveries SET next_attempt_at = now() WHERE state = 'pending'`);
  const queue = { channelId: 'c', direction: 'in', setAside: false } as const;
  await pool.query('UPDATE shards SET epoch = 1 WHERE id = 0');
  const { delivery } = await claimNextDelivery(pool, queue, { shard: 0, epoch: 1 });
  t.equal(delivery, null, 'a delivery of a disconnected channel is not claimed');
  await endOrphanedDeliveries(pool, 'another');
  t.equal((await listStates('deliveries')).length, 2);
  await endOrphanedDeliveries(pool, 'c');
  t.same(await listStates('deliveries'), [{ state: 'dead', count: WAITING }]);
});

t.test('events of removed installations end in batches, without a wait for locked ones', async (t) => {
  await endOrphanedEvents(pool);
  t.same(await listStates('events'), [{ state: 'pending', count: WAITING }], 'those of others stay');
  await pool.query('DELETE FROM installations');
  t.same(await sweepBesideLocked('events', 'e000001', endOrphanedEvents), [...FULL_BATCHES, SWEEP_BATCH - 1]);
  await endOrphanedEvents(pool);
  t.same(await listStates('events'), [{ state: 'dead', count: WAITING }]);
});
