/** The periodic queries of a supervisor read only held work, not everything that waits behind it. */
import t from 'tap';
import { endOrphanedDeliveries, releaseHeldDeliveries } from '../../../db/channels/delivery-queue.ts';
import { releaseHeldEvents, requeueStrandedEvents } from '../../../db/installations/events.ts';
import { startQueues } from '../../../db/jobs/queues.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';

const WAITING = 20_000;
/** Much more than is held, and much less than waits. */
const ROWS_MAX = 100;

t.setTimeout(120_000);
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

t.test('the sweep of stranded events reads the next one of each installation', async (t) => {
  const explained = explainPool(pool);
  t.equal(await requeueStrandedEvents(explained.pool, queues, { shards: null, delivering: new Set() }), 0);
  const { rowsRead = {} } = explained.costs[0] ?? {};
  t.ok((rowsRead.events ?? 0) < ROWS_MAX, JSON.stringify(rowsRead));
});

t.test('the search for deliveries without a channel reads no deliveries of one that exists', async (t) => {
  const explained = explainPool(pool);
  await endOrphanedDeliveries(explained.pool);
  for (const { rowsRead } of explained.costs) t.ok((rowsRead.deliveries ?? 0) < ROWS_MAX, JSON.stringify(rowsRead));
  await pool.query('DELETE FROM channels');
  await endOrphanedDeliveries(pool);
  const { rows } = await pool.query('SELECT state, count(*)::int FROM deliveries GROUP BY state');
  t.same(rows, [{ state: 'dead', count: WAITING }]);
});
