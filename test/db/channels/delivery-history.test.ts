/** Finds what a delivery waits for without reading all deliveries that were set aside. */
import t from 'tap';
import { findDelivery } from '../../../db/channels/delivery-history.ts';
import { insertBareChannel, insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';

const ASIDE = amount({ quick: 8_000, soak: 20_000 });
/** A look-up of the head reads up to 1,000 deliveries of the ordered queue. */
const ROWS_MAX = 5_000;

const { pool } = await testDatabase(t);
await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
await insertBareInstallation(pool, { accountId: 'a' });
await insertBareChannel(pool);
const add = (conversation: string, count: number, isAside: boolean) =>
  pool.query(
    `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body,
       received_at, direction, set_aside, conversation_key)
     SELECT concat_ws(' ', $1::text, CASE WHEN $2 THEN 'aside' END, n), 'c', 'i', 'a', 'r', 'SEND', '', '[]', '', now(),
            'out', $2, $1
       FROM generate_series(1, $3::int) n ORDER BY n`,
    [conversation, isAside, count],
  );

t.test('a delivery of another conversation than those set aside', async (t) => {
  // PostgreSQL expects that every delivery set aside is of the conversation.
  await add('ann', ASIDE, true);
  await add('ann', 1_000, false);
  await add('ben', 1, false);
  await pool.query('VACUUM ANALYZE deliveries');
  const explained = explainPool(pool);
  t.match(await findDelivery(explained.pool, 'i', 'ben 1', 0), { waitsFor: { id: 'ann 1' } });
  t.match(await findDelivery(explained.pool, 'i', 'ann 9', 0), { waitsFor: { id: 'ann aside 1' } });
  for (const { rowsRead } of explained.costs) t.ok((rowsRead.deliveries ?? 0) < ROWS_MAX, JSON.stringify(rowsRead));
});
