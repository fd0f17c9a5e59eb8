/** The scheduler of channel queues while the database does not answer. */
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
