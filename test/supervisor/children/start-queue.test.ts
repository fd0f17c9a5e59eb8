/** Starts of plugin processes wait for room, and no account keeps another from starting. */
import { availableParallelism } from 'node:os';
import t from 'tap';
import { type Places, StartQueue } from '../../../supervisor/children/start-queue.ts';

const settled = () => new Promise(setImmediate);

/** The queue's view of the processes: each start adds one, which is busy until the test changes that. */
function makePlaces(max: number) {
  const processes: { accountId: string; isBusy: boolean }[] = [];
  const places: Places = {
    max,
    count: () => {
      const busy = processes.filter(({ isBusy }) => isBusy);
      const busyOf = (accountId: string) => busy.filter((process) => process.accountId === accountId).length;
      return { total: processes.length, busy: busy.length, busyOf };
    },
    stopIdle(accountId) {
      const idle = processes.filter(({ isBusy }) => !isBusy);
      const stopped = idle.find((process) => process.accountId === accountId) ?? idle[0];
      if (stopped) processes.splice(processes.indexOf(stopped), 1);
      return stopped ? settled() : null;
    },
  };
  return { processes, places };
}
const owner = (accountId: string, required = false) => ({ plugin: { accountId, required } });

t.test('one account gets two thirds of the places, and the next one still gets its own', async (t) => {
  const { processes, places } = makePlaces(10);
  const queue = new StartQueue(places);
  t.teardown(() => queue.close());
  const start = (accountId: string, required = false) =>
    queue
      .run(owner(accountId, required), async () => void processes.push({ accountId, isBusy: true }))
      .catch(() => undefined);
  const countOf = (accountId: string) => processes.filter((process) => process.accountId === accountId).length;
  for (let count = 0; count < 20; count += 1) void start('greedy');
  await settled();
  t.equal(countOf('greedy'), 6);
  for (let count = 0; count < 20; count += 1) void start('second');
  await settled();
  t.equal(countOf('second'), 2);
  await start('third');
  t.equal(countOf('third'), 1, 'a third account starts at once');
  const waiting = start('fourth');
  await settled();
  t.equal(countOf('fourth'), 0, 'the last place is kept for a plugin that its account requires');
  await start('fifth', true);
  t.equal(countOf('fifth'), 1);
  queue.close();
  await waiting;
});

t.test('over the cap an idle process gives way, one of the same account first', async (t) => {
  const { processes, places } = makePlaces(2);
  const queue = new StartQueue(places);
  t.teardown(() => queue.close());
  processes.push({ accountId: 'ann', isBusy: false }, { accountId: 'ben', isBusy: false });
  await queue.run(owner('ben'), async () => void processes.push({ accountId: 'ben', isBusy: false }));
  t.same(
    processes.map(({ accountId }) => accountId),
    ['ann', 'ben'],
  );
});

t.test('an account starts three plugins at once; others start beside it', async (t) => {
  const { places } = makePlaces(100);
  const queue = new StartQueue(places);
  t.teardown(() => queue.close());
  const begun: string[] = [];
  const release = Promise.withResolvers<void>();
  const start = (accountId: string) =>
    queue.run(owner(accountId), async () => {
      begun.push(accountId);
      await release.promise;
    });
  const starts = ['slow', 'slow', 'slow', 'slow', 'slow', 'quick'].map(start);
  await settled();
  t.same(begun.toSorted(), ['quick', 'slow', 'slow', 'slow']);
  release.resolve();
  await Promise.all(starts);
  t.equal(begun.length, 6, 'the rest follows when the first are done');
});

t.test('accounts whose starts never end leave starts to accounts that have none', async (t) => {
  const { places } = makePlaces(1_000);
  const queue = new StartQueue(places);
  t.teardown(() => queue.close());
  const release = Promise.withResolvers<void>();
  const begun: string[] = [];
  const start = (accountId: string) =>
    queue.run(owner(accountId), async () => {
      begun.push(accountId);
      await release.promise;
    });
  const startsMax = Math.min(16, 4 * availableParallelism());
  // As many as hold all starts with three each.
  const slow = Array.from({ length: Math.ceil(startsMax / 3) }, (_none, number) => `slow ${number}`);
  const starts = slow.flatMap((accountId) => [1, 2, 3].map(() => start(accountId)));
  await settled();
  starts.push(start('quick'));
  await settled();
  t.ok(begun.includes('quick'), `after ${begun.join()}`);
  t.equal(begun.filter((accountId) => accountId === 'slow 0').length, 3, 'an account that came first has three');
  release.resolve();
  await Promise.all(starts);
  t.equal(begun.length, starts.length);
});

t.test('a start that gets no place in time fails with a reason; a cancelled one at once', async (t) => {
  const { processes, places } = makePlaces(1);
  processes.push({ accountId: 'ann', isBusy: true });
  let now = 0;
  const queue = new StartQueue(places, () => now);
  t.teardown(() => queue.close());
  const late = queue.run(owner('ann'), async () => undefined);
  const stopped = owner('ann');
  const cancelled = queue.run(stopped, async () => undefined);
  t.equal(queue.countWaiting(stopped), 1);
  queue.cancel(stopped);
  await t.rejects(cancelled, { name: 'NoRoomError', message: 'it was stopped' });
  now = 60_000;
  await t.rejects(late, { name: 'NoRoomError', message: 'no plugin process became free for it within 60 s' });
});

t.test('an owner of two starts still waits for the second one when the first begins', async (t) => {
  const { processes, places } = makePlaces(1);
  processes.push({ accountId: 'ann', isBusy: true });
  const queue = new StartQueue(places);
  // A start of its plugin, and one of an update beside it.
  const updated = owner('ann', true);
  const start = () => queue.run(updated, async () => void processes.push({ accountId: 'ann', isBusy: true }));
  const first = start();
  const second = start();
  const other = queue.run(owner('ben'), async () => undefined);
  t.equal(queue.countWaiting(updated), 2);
  processes.pop();
  await first;
  t.equal(queue.countWaiting(updated), 1);
  queue.close();
  await Promise.all([second, other].map((rejected) => t.rejects(rejected, { name: 'NoRoomError' })));
  t.equal(queue.countWaiting(updated), 0);
});

t.test('a start is cancelled also when its plugin has become required since', async (t) => {
  const { processes, places } = makePlaces(1);
  processes.push({ accountId: 'ann', isBusy: true });
  const queue = new StartQueue(places);
  t.teardown(() => queue.close());
  const changing = { plugin: { accountId: 'ann', required: false } };
  const cancelled = queue.run(changing, async () => undefined);
  changing.plugin = { accountId: 'ann', required: true };
  queue.cancel(changing);
  t.equal(queue.waiting, 0);
  await t.rejects(cancelled, { name: 'NoRoomError', message: 'it was stopped' });
});

t.test('a start that waits begins when a process is idle again', async (t) => {
  const { processes, places } = makePlaces(1);
  const busy = { accountId: 'ann', isBusy: true };
  processes.push(busy);
  const queue = new StartQueue(places);
  t.teardown(() => queue.close());
  const waiting = queue.run(owner('ben'), async () => 'begun');
  busy.isBusy = false;
  t.equal(await waiting, 'begun');
});
