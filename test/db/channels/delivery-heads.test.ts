/** A look-up of the head of a channel queue reads few deliveries, however many wait for others of their conversation. */
import t from 'tap';
import {
  type ChannelQueue,
  type ClaimedDelivery,
  claimNextDelivery,
  findWaitingChannelQueues,
  finishDelivery,
  postponeDelivery,
} from '../../../db/channels/delivery-queue.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';

const WAITING = 20_000;
/** Much less than waits. A claim looks through 100 and asks about each. */
const ROWS_MAX = 1_000;
const EPOCH = 1;
const FENCE = { shard: 0, epoch: EPOCH };
const ORDERED: ChannelQueue = { channelId: 'c', direction: 'out', setAside: false };
const ASIDE: ChannelQueue = { ...ORDERED, setAside: true };

const { pool } = await testDatabase(t);
await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
await pool.query('UPDATE shards SET epoch = $1 WHERE id = 0', [EPOCH]);
await insertBareInstallation(pool, { accountId: 'a' });

async function connect(channelId: string): Promise<void> {
  await pool.query(
    `INSERT INTO channels (id, installation_id, account_id, name, routing_id) VALUES ($1, 'i', 'a', $1, $1)`,
    [channelId],
  );
}
/** Adds deliveries with the ids `<name> 1`, `<name> 2` and so on. */
async function add(name: string, count: number, queue: ChannelQueue, conversation: string | null): Promise<void> {
  await pool.query(
    `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body,
       received_at, direction, set_aside, conversation_key)
     SELECT $1 || ' ' || n, $2, 'i', 'a', 'r', 'SEND', '', '[]', '', now(), $3, $4, $5
       FROM generate_series(1, $6::int) n ORDER BY n`,
    [name, queue.channelId, queue.direction, queue.setAside, conversation, count],
  );
}
const claim = (queue: ChannelQueue): Promise<ClaimedDelivery | null> => claimNextDelivery(pool, queue, FENCE);
const finish = (id: string) => finishDelivery(pool, id, EPOCH, 'dead');
const wait = { afterSeconds: 3_600, error: 'not deliverable', as: 'failure' } as const;

await connect('c');
await add('poisoned', 1, ORDERED, 'ann');
await add('held', WAITING, ORDERED, 'ann');
await add('other', 2, ORDERED, 'ben');
await claim(ORDERED);
await postponeDelivery(pool, 'poisoned 1', EPOCH, { ...wait, setAside: true });
await pool.query('VACUUM ANALYZE deliveries');

t.test('a queue is found with one row, and its claim reads few', async (t) => {
  const explained = explainPool(pool);
  const found = await findWaitingChannelQueues(explained.pool, null, null);
  t.match(
    found.map(({ direction, setAside, waitMs }) => ({ direction, setAside, isDue: waitMs === 0 })),
    [
      { direction: 'out', setAside: true, isDue: false },
      { direction: 'out', setAside: false, isDue: true },
    ],
  );
  t.equal((await claimNextDelivery(explained.pool, ORDERED, FENCE))?.id, 'other 1', 'of another conversation');
  for (const { rowsRead } of explained.costs) t.ok((rowsRead.deliveries ?? 0) < ROWS_MAX, JSON.stringify(rowsRead));
});

t.test('what is held up is claimed in order, once the delivery set aside has ended', async (t) => {
  await finish('other 1');
  t.equal((await claim(ORDERED))?.id, 'other 2');
  await postponeDelivery(pool, 'other 2', EPOCH, wait);
  t.equal(await claim(ORDERED), null, 'the head is due later');
  await pool.query(`UPDATE deliveries SET state = 'dead' WHERE id = 'other 2'`);
  t.equal(await claim(ORDERED), null, 'all others are held up');
  t.match(await findWaitingChannelQueues(pool, null, ['c']), [{ setAside: true }, { setAside: false, waitMs: 0 }]);
  await pool.query(`UPDATE deliveries SET next_attempt_at = now() WHERE id = 'poisoned 1'`);
  t.equal((await claim(ASIDE))?.id, 'poisoned 1');
  await finish('poisoned 1');
  for (const id of ['held 1', 'held 2']) {
    t.equal((await claim(ORDERED))?.id, id);
    await finish(id);
  }
});

t.test('of several conversations behind a poisoned one, the one that has waited longest is next', async (t) => {
  await connect('many');
  const ordered = { ...ORDERED, channelId: 'many' };
  for (const key of ['a', 'c', 'e']) {
    await add(`aside ${key}`, 1, { ...ordered, setAside: true }, key);
    await add(`behind ${key}`, 200, ordered, key);
  }
  await add('first', 2, ordered, 'd');
  await add('second', 1, ordered, 'b');
  for (const id of ['first 1', 'first 2', 'second 1']) {
    t.equal((await claim(ordered))?.id, id);
    await finish(id);
  }
  t.equal(await claim(ordered), null);
});

t.test('many deliveries set aside cost a look-up nothing', async (t) => {
  await connect('aside');
  const queue = { channelId: 'aside', direction: 'in', setAside: true } as const;
  await add('old', WAITING, queue, null);
  await add('new', 1, { ...queue, setAside: false }, null);
  const replies = { ...queue, direction: 'out' } as const;
  await add('reply', WAITING, replies, null);
  await pool.query(`UPDATE deliveries SET conversation_key = id WHERE direction = 'out' AND channel_id = 'aside'`);
  await add('free', 1, { ...replies, setAside: false }, 'reply');
  await pool.query('VACUUM ANALYZE deliveries');
  const explained = explainPool(pool);
  t.equal((await findWaitingChannelQueues(explained.pool, null, ['aside'])).length, 4);
  t.equal((await claimNextDelivery(explained.pool, queue, FENCE))?.id, 'old 1');
  t.equal((await claimNextDelivery(explained.pool, { ...queue, setAside: false }, FENCE))?.id, 'new 1');
  t.equal((await claimNextDelivery(explained.pool, { ...replies, setAside: false }, FENCE))?.id, 'free 1');
  for (const { rowsRead } of explained.costs) t.ok((rowsRead.deliveries ?? 0) < ROWS_MAX, JSON.stringify(rowsRead));
});
