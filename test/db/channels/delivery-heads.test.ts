/** A look-up of the head of a channel queue reads few deliveries, however many wait for others of their conversation. */
import type { Pool } from 'pg';
import t from 'tap';
import { findDelivery } from '../../../db/channels/delivery-history.ts';
import {
  type ChannelQueue,
  type ClaimedDelivery,
  claimNextDelivery,
  findWaitingChannelQueues,
  finishDelivery,
  HEAD_CONVERSATIONS,
  postponeDelivery,
} from '../../../db/channels/delivery-queue.ts';
import { HeadSearch } from '../../../db/channels/head-search.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';

const WAITING = amount({ quick: 5_000, soak: 20_000 });
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
const claimWith = async (db: Pool, queue: ChannelQueue): Promise<ClaimedDelivery | null> =>
  (await claimNextDelivery(db, queue, FENCE)).delivery;
const claim = (queue: ChannelQueue): Promise<ClaimedDelivery | null> => claimWith(pool, queue);
const finish = (id: string) => finishDelivery(pool, id, EPOCH, 'dead');
const wait = { afterSeconds: 3_600, error: 'not deliverable', as: 'failure' } as const;

await connect('c');
await add('poisoned', 1, ORDERED, 'ann');
await add('later', WAITING, ORDERED, 'ann');
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
  t.equal((await claimWith(explained.pool, ORDERED))?.id, 'other 1', 'of another conversation');
  for (const { rowsRead } of explained.costs) t.ok((rowsRead.deliveries ?? 0) < ROWS_MAX, JSON.stringify(rowsRead));
});

t.test('what is behind another is claimed in order, once the delivery set aside has ended', async (t) => {
  await finish('other 1');
  t.equal((await claim(ORDERED))?.id, 'other 2');
  await postponeDelivery(pool, 'other 2', EPOCH, wait);
  const { delivery, waitMs } = await claimNextDelivery(pool, ORDERED, FENCE);
  t.equal(delivery, null, 'the head is due later');
  const latestMs = wait.afterSeconds * 1_000;
  t.ok(waitMs !== null && waitMs > latestMs / 2 && waitMs <= latestMs, 'the claim returns the wait of the head');
  await pool.query(`UPDATE deliveries SET next_attempt_at = 'infinity' WHERE id = 'other 2'`);
  t.match(await claimNextDelivery(pool, ORDERED, FENCE), { delivery: null, hasHead: true, waitMs: null });
  await pool.query(`UPDATE deliveries SET state = 'dead' WHERE id = 'other 2'`);
  t.equal(await claim(ORDERED), null, 'all others are behind it');
  t.match(await findWaitingChannelQueues(pool, null, ['c']), [{ setAside: true }, { setAside: false, waitMs: 0 }]);
  await pool.query(`UPDATE deliveries SET next_attempt_at = now() WHERE id = 'poisoned 1'`);
  t.equal((await claim(ASIDE))?.id, 'poisoned 1');
  await finish('poisoned 1');
  for (const id of ['later 1', 'later 2']) {
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

t.test('replies of all conversations are claimed, however many are behind others', async (t) => {
  const BEHIND = 1.5 * HEAD_CONVERSATIONS;
  await connect('full');
  const ordered = { ...ORDERED, channelId: 'full' };
  const explained = explainPool(pool);
  const heads = new HeadSearch();
  const search = () => heads.claim(explained.pool, ordered, FENCE);
  for (const queue of [{ ...ordered, setAside: true }, ordered]) {
    const name = `full ${queue.setAside}`;
    await add(name, BEHIND, queue, '-');
    await pool.query(
      `UPDATE deliveries SET conversation_key = 'm' || split_part(id, ' ', 3) WHERE id LIKE $1 || ' %'`,
      [name],
    );
  }
  await pool.query('VACUUM ANALYZE deliveries');
  t.match(await search(), { delivery: null, isNextDue: false, wakeAfterMs: null }, 'all are behind others');
  const atEnd = explainPool(pool);
  await claimNextDelivery(atEnd.pool, ordered, FENCE, { afterKey: 'z' });
  t.ok((atEnd.costs[0]?.rowsRead.deliveries ?? 0) < ROWS_MAX, 'a search that begins late does not read what it passes');

  await add('busy', 1, ordered, 'a busy');
  await add('last', 2, ordered, 'z last');
  const claimed: string[] = [];
  while (claimed.length < 12) {
    const found = await search();
    if (!found.delivery) {
      t.equal(found.isNextDue, true, 'the search continues with the first conversation');
      continue;
    }
    t.equal(found.delivery.hasNext, true);
    claimed.push(found.delivery.id);
    await finish(found.delivery.id);
    // The busy conversation always has another reply.
    if (found.delivery.id.startsWith('busy')) await add(`busy ${claimed.length}`, 1, ordered, 'a busy');
  }
  t.same(
    claimed.filter((id) => id.startsWith('last')),
    ['last 1', 'last 2'],
    'a busy conversation does not starve them',
  );

  await pool.query(`UPDATE deliveries SET state = 'dead' WHERE channel_id = 'full' AND conversation_key = 'a busy'`);
  await add('late', 1, ordered, 'z last');
  await pool.query(
    `UPDATE deliveries SET next_attempt_at = now() + interval '1 hour', last_error = 'x' WHERE id = 'late 1'`,
  );
  let found = await search();
  while (!found.delivery && found.isNextDue) found = await search();
  t.ok(!found.delivery && (found.wakeAfterMs ?? 0) > 0, 'the wait of a head behind many conversations');
  const reads = explained.costs.map(({ rowsRead }) => rowsRead.deliveries ?? 0);
  t.ok(Math.max(...reads) < 4 * HEAD_CONVERSATIONS, `${Math.max(...reads)} rows`);
});

t.test('replayed replies keep the order of their conversation when one of them fails', async (t) => {
  await connect('replayed');
  const ordered = { ...ORDERED, channelId: 'replayed' };
  const aside = { ...ordered, setAside: true };
  await add('dan aside', 1, aside, 'dan');
  await pool.query(
    `UPDATE deliveries SET next_attempt_at = now() + interval '1 hour', last_error = 'x' WHERE id = 'dan aside 1'`,
  );
  for (const key of ['ann', 'ben', 'dan']) await add(key, 2, ordered, key);
  await pool.query(`UPDATE deliveries SET replayed_at = now() WHERE channel_id = 'replayed' AND NOT set_aside`);
  await add('ann new', 1, ordered, 'ann');
  await add('cid', 1, ordered, 'cid');
  const claimAll = async (queue: ChannelQueue): Promise<string[]> => {
    const ids: string[] = [];
    for (let next = await claim(queue); next; next = await claim(queue)) {
      ids.push(next.id);
      await finish(next.id);
    }
    return ids;
  };
  t.equal((await claim(ordered))?.id, 'ann 1');
  const explained = explainPool(pool);
  await postponeDelivery(explained.pool, 'ann 1', EPOCH, { ...wait, setAside: true });
  t.ok((explained.costs[0]?.rowsRead.deliveries ?? 0) < ROWS_MAX, JSON.stringify(explained.costs));
  t.same(await claimAll(aside), ['ben 1'], 'only the first one of another conversation is set aside with it');
  t.same(await claimAll(ordered), ['ben 2', 'cid 1']);
  await pool.query(`UPDATE deliveries SET next_attempt_at = now() WHERE channel_id = 'replayed' AND state = 'pending'`);
  t.same(await claimAll(aside), ['dan aside 1', 'ann 1']);
  t.same(await claimAll(ordered), ['ann 2', 'dan 1', 'dan 2', 'ann new 1']);
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
  t.equal((await claimWith(explained.pool, queue))?.id, 'old 1');
  t.equal((await claimWith(explained.pool, { ...queue, setAside: false }))?.id, 'new 1');
  t.equal((await claimWith(explained.pool, { ...replies, setAside: false }))?.id, 'free 1');
  await add('behind', 1, { ...replies, setAside: false }, 'reply 7');
  t.match(await findDelivery(explained.pool, 'i', 'behind 1', 0), { waitsFor: { id: 'reply 7' } });
  for (const { rowsRead } of explained.costs) t.ok((rowsRead.deliveries ?? 0) < ROWS_MAX, JSON.stringify(rowsRead));
});
