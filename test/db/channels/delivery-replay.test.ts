/** The cost of a replay and of a list does not grow with the deliveries of the channels. */
import type { ClientBase } from 'pg';
import t from 'tap';
import { pageDeliveries, replayDeliveries } from '../../../db/channels/delivery-history.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';

const ROWS = amount({ quick: 5_000, soak: 20_000 });
const REPLAYED = 100;
/** Rows are read as candidates, then locked, and then changed. */
const READ_MAX = 4 * REPLAYED;

const { pool } = await testDatabase(t);
await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
await insertBareInstallation(pool, { accountId: 'a' });
await pool.query(
  `INSERT INTO channels (id, installation_id, account_id, name, routing_id)
   VALUES ('busy', 'i', 'a', 'busy', 'r1'), ('rare', 'i', 'a', 'rare', 'r2'), ('behind', 'i', 'a', 'behind', 'r3')`,
);
await pool.query(
  `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body, received_at,
     state, finished_at)
   SELECT 'd' || lpad(n::text, 6, '0'), CASE n WHEN 7 THEN 'rare' ELSE 'busy' END, 'i', 'a', 'r', 'POST', '', '[]', '',
          now(), CASE n WHEN 9 THEN 'dead' ELSE 'delivered' END, now() FROM generate_series(1, $1::int) n`,
  [ROWS],
);
await pool.query('VACUUM ANALYZE deliveries');

for (const [name, filter, count] of [
  ['of a channel with few', { state: 'delivered', channelId: 'rare' }, 1],
  ['of a state that few have', { state: 'dead' }, 1],
  ['of all channels', { state: 'delivered' }, REPLAYED],
  ['of a channel with many', { state: 'delivered', channelId: 'busy' }, REPLAYED],
] as const)
  t.test(`a replay ${name} reads about as many deliveries as it replays`, async (t) => {
    const explained = explainPool(pool);
    const tx = explained.pool as unknown as ClientBase;
    t.equal(await replayDeliveries(tx, { installationId: 'i', limit: REPLAYED, ...filter }), count);
    const rows = explained.costs[0]?.rowsRead.deliveries ?? 0;
    t.ok(rows <= READ_MAX, `${rows} rows are read`);
  });

t.test('replays go oldest first, over all channels', async (t) => {
  const { rows } = await pool.query(`SELECT id FROM deliveries WHERE state = 'pending' ORDER BY position LIMIT 3`);
  t.equal(rows[0].id, 'd000007');
});

t.test('a list looks through a bounded number of deliveries for the head of a queue', async (t) => {
  await pool.query(
    `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body, received_at,
       direction, conversation_key, set_aside)
     SELECT 'h' || lpad(n::text, 6, '0'), 'behind', 'i', 'a', 'r', 'SEND', '', '[]', '', now(), 'out', 'k' || n % 1000, n <= 1000
       FROM generate_series(1, 5000) n`,
  );
  await pool.query('VACUUM ANALYZE deliveries');
  const explained = explainPool(pool);
  const page = await pageDeliveries(explained.pool, { installationId: 'i', channelId: 'behind', limit: 100 });
  t.match(page.items[0], { id: 'h005000', waitsFor: { id: 'h001000' } });
  const rows = explained.costs[0]?.rowsRead.deliveries ?? 0;
  t.ok(rows <= 5_000, `${rows} rows are read`);
});
