/**
 * PostgreSQL expects in each channel what an average one has. A claim of a channel with thousands of deliveries set aside reads few
 * of them nevertheless.
 */
import t from 'tap';
import { findDelivery } from '../../../db/channels/delivery-history.ts';
import { claimNextDelivery } from '../../../db/channels/delivery-queue.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';

const CHANNELS = 30_000;
const SET_ASIDE = 3_000;
const WAITING = 200;
/** A claim looks through a hundred deliveries and then through the conversations, and asks about each. */
const ROWS_MAX = 1_000;

const { pool } = await testDatabase(t);
await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
await insertBareInstallation(pool, { accountId: 'a' });
await connect('calm', CHANNELS);
await addReplies('calm', { ofEach: 2, setAside: false });
await connect('poisoned', 1);
await addReplies('poisoned', { ofEach: SET_ASIDE, setAside: true });
await addReplies('poisoned', { ofEach: WAITING, setAside: false });
await pool.query('VACUUM ANALYZE deliveries');

/** Adds channels with the ids `<name> 1`, `<name> 2` and so on. */
async function connect(name: string, count: number): Promise<void> {
  await pool.query(
    `INSERT INTO channels (id, installation_id, account_id, name, routing_id)
     SELECT id, 'i', 'a', id, id FROM (SELECT $1 || ' ' || n AS id FROM generate_series(1, $2::int) n) c`,
    [name, count],
  );
}

/** Adds replies of different conversations to each channel of a name. */
async function addReplies(name: string, { ofEach, setAside }: { ofEach: number; setAside: boolean }): Promise<void> {
  await pool.query(
    `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body,
       received_at, direction, set_aside, conversation_key)
     SELECT concat_ws(' ', c.id, CASE WHEN $3 THEN 'aside' END, n), c.id, 'i', 'a', 'r', 'SEND', '', '[]', '',
            now(), 'out', $3::boolean, 'of ' || n
       FROM channels c, generate_series(1, $2::int) n WHERE c.id LIKE $1 || ' %' ORDER BY c.id, n`,
    [name, ofEach, setAside],
  );
}

t.test('a claim and a look at a delivery read few of those set aside', async (t) => {
  const explained = explainPool(pool);
  const queue = { channelId: 'poisoned 1', direction: 'out', setAside: false } as const;
  t.match(await claimNextDelivery(explained.pool, queue, { shard: 0, epoch: 1 }), { delivery: null, hasHead: false });
  const found = await findDelivery(explained.pool, 'i', 'poisoned 1 7', 0);
  t.match(found, { waitsFor: { id: 'poisoned 1 aside 7' } });
  for (const { rowsRead } of explained.costs) t.ok((rowsRead.deliveries ?? 0) < ROWS_MAX, JSON.stringify(rowsRead));
});
