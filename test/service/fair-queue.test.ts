/** Waiting work is served account by account, and no account occupies all places. */
import t from 'tap';
import { mayTakePlace } from '../../db/jobs/account-share.ts';
import { RoundRobinQueue } from '../../db/timing/round-robin-queue.ts';
import { FairQueue } from '../../service/timing/fair-queue.ts';

t.test('an account gets two thirds of the places; others still find some', (t) => {
  const fill = (taken: number) => {
    let held = 0;
    while (mayTakePlace(held, 100 - taken - held)) held += 1;
    return held;
  };
  const shares: number[] = [];
  for (let account = 0; account < 4; account += 1) shares.push(fill(shares.reduce((sum, share) => sum + share, 0)));
  t.same(shares, [67, 22, 8, 2]);
  t.equal(mayTakePlace(0, 1), true);
  t.equal(mayTakePlace(0, 0), false);
  t.end();
});

t.test('keys take turns, and the items of one key keep their order', (t) => {
  const queue = new RoundRobinQueue<number>();
  for (let item = 0; item < 5; item += 1) queue.push('a', item);
  queue.push('b', 10);
  queue.push('c', 20);
  queue.push('b', 11);
  t.equal(queue.peek(), 0);
  const order: (number | undefined)[] = [];
  for (let count = 0; count < 4; count += 1) order.push(queue.shift());
  t.same(order, [0, 10, 20, 1]);
  t.same(queue.keys, ['b', 'a']);
  t.same([queue.size, queue.count('a'), queue.count('c'), queue.peek('a')], [4, 3, 0, 2]);
  t.same(
    queue.remove('a', (item) => item === 3),
    [3],
  );
  t.same([queue.shift('a'), queue.shift('a'), queue.shift('a'), queue.size], [2, 4, undefined, 1]);
  t.same(queue.clear(), [11]);
  t.same([queue.shift(), queue.peek(), queue.size], [undefined, undefined, 0]);
  t.end();
});

t.test('a filter whose answer changes with the time loses no item', (t) => {
  const queue = new RoundRobinQueue<number>();
  queue.push('a', 1);
  queue.push('a', 3);
  let now = 0;
  const isDue = (item: number): boolean => {
    now += 1;
    return item <= now;
  };
  t.same(queue.remove('a', isDue), [1]);
  t.same([queue.size, queue.count('a'), queue.peek()], [1, 1, 3]);
  t.same(queue.remove('a', isDue), [3]);
  t.same([queue.size, queue.keys], [0, []]);
  t.end();
});

t.test('work of another account runs next, however much of the first one waits', async (t) => {
  const queue = new FairQueue({ places: 1, waitingPlaces: 6 });
  const done: string[] = [];
  const start = (accountId: string) =>
    queue.hasRoom(accountId) ? queue.run(accountId, async () => void done.push(accountId)) : 'full';
  const runs = Array.from({ length: 8 }, () => start('greedy'));
  t.equal(runs.filter((run) => run === 'full').length, 3, 'one runs and four of six places are taken');
  runs.push(start('other'), start('greedy'));
  await Promise.all(runs);
  t.equal(done.indexOf('other'), 2, 'the first ran at once, the second was next');
  t.same([queue.running, queue.waiting, done.length], [0, 0, 6]);
  await t.rejects(
    queue.run('greedy', () => Promise.reject(new Error('no'))),
    { message: 'no' },
  );
  t.same([queue.running, queue.waiting], [0, 0], 'failed work frees its place');
});
