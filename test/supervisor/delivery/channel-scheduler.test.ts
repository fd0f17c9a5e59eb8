/** The scheduler of channel queues while the database does not answer, and with many waiting queues. */
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { ChannelScheduler } from '../../../supervisor/delivery/channel-scheduler.ts';

t.test('a stop waits no longer than its grace for a lookup', async (t) => {
  const answered = Promise.withResolvers<[]>();
  const scheduler = new ChannelScheduler({
    concurrency: 1,
    perInstallation: 1,
    retryMs: 1,
    find: () => answered.promise,
    work: () => Promise.reject(new Error('nothing waits')),
    onError: (error) => t.error(error),
  });
  scheduler.wake(null);
  await t.resolves(scheduler.stop(1));
  answered.resolve([]);
});

/** How often the scheduler has read the account of a queue. */
let reads = 0;
/** A queue with a due head. */
const createQueue = (accountId: string, installationId: string, channelId: string) => ({
  channelId,
  installationId,
  direction: 'in' as const,
  setAside: false,
  waitMs: 0,
  get accountId() {
    reads += 1;
    return accountId;
  },
});

t.test('a lookup costs time for each waiting queue, and one webhook does not', async (t) => {
  const queues = Array.from({ length: 20_000 }, (_, n) => createQueue('busy', `busy ${n % 100}`, `busy ${n}`));
  const started: string[] = [];
  const scheduler = new ChannelScheduler({
    concurrency: 32,
    perInstallation: 4,
    retryMs: 1,
    find: async () => queues,
    work: ({ channelId }) => {
      started.push(channelId);
      return new Promise(() => undefined);
    },
    onError: (error) => t.error(error),
  });
  for (const lookup of ['the first lookup', 'a repeated lookup']) {
    reads = 0;
    scheduler.wake(null);
    await turn();
    t.equal(started.length, 22, `${lookup}: the account has its share of the workers`);
    t.ok(reads < 10 * queues.length, `${lookup}: ${reads} reads`);
  }
  reads = 0;
  scheduler.add(createQueue('quiet', 'quiet', 'quiet'));
  t.equal(started.at(-1), 'quiet');
  t.ok(reads < 100, `${reads} reads`);
  await scheduler.stop(0);
});

t.test('queues of an installation that has all its workers do not hold up the others of the account', async (t) => {
  const started: string[] = [];
  const finish: (() => void)[] = [];
  const scheduler = new ChannelScheduler({
    concurrency: 32,
    perInstallation: 1,
    retryMs: 1,
    find: async () => [],
    work: ({ channelId }) => {
      started.push(channelId);
      return new Promise((resolve) => finish.push(() => resolve({ isNextDue: false, wakeAfterMs: null })));
    },
    onError: (error) => t.error(error),
  });
  const add = (installationId: string, channelId: string) =>
    scheduler.add(createQueue('ann', installationId, channelId));
  add('one', '1');
  add('one', '2');
  add('one', '2');
  add('two', '3');
  t.same(started, ['1', '3']);
  finish[0]?.();
  await turn();
  t.same(started, ['1', '3', '2']);
  finish[2]?.();
  await turn();
  t.equal(started.length, 3, 'a queue that was added twice is worked on once');
  await scheduler.stop(0);
});
