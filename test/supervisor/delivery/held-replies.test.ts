/** A retry of a channel queue is planned also while the first delivery of the queue waits for one of its conversation. */
import t from 'tap';
import { findWaitingChannelQueues } from '../../../db/channels/delivery-queue.ts';
import { HeadSearch } from '../../../db/channels/head-search.ts';
import { ChannelScheduler } from '../../../supervisor/delivery/channel-scheduler.ts';
import { deliverHead } from '../../../supervisor/delivery/webhook-delivery.ts';
import { insertOwnedChannel } from '../../fixtures/bare-installation.ts';
import { eventually } from '../../runner/eventually.ts';
import { testDatabase } from '../../runner/harness.ts';

const MINUTE_MS = 60_000;
const { pool } = await testDatabase(t);
await insertOwnedChannel(pool);
await pool.query(
  `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body,
     received_at, direction, set_aside, conversation_key, attempts, next_attempt_at, last_error)
   SELECT id, 'c', 'i', 'a', 'r', 'SEND', '', '[]', '', now(), 'out', set_aside, key, attempts,
          now() + make_interval(mins => due_minutes), CASE WHEN attempts > 0 THEN 'it failed' END
     FROM (VALUES ('ann 1', true, 'ann', 2, 60), ('ann 2', false, 'ann', 0, 0), ('ben 1', false, 'ben', 1, 30))
       AS v (id, set_aside, key, attempts, due_minutes)`,
);

/** Records the alarms instead of waiting for them. */
class RecordedScheduler extends ChannelScheduler {
  readonly alarms: number[] = [];
  override wakeAfter(_channelId: string | null, ms: number): void {
    this.alarms.push(Math.ceil(ms / MINUTE_MS));
  }
}

/** The alarms that one look-up of the channel plans, in minutes. */
async function planAlarms(): Promise<readonly number[]> {
  const unused = () => {
    throw new Error('no delivery is due');
  };
  const deps = {
    services: { pool },
    ownership: { begin: () => ({ fence: { shard: 0, epoch: 1 }, end: () => undefined }) },
    heads: new HeadSearch(),
    fleet: { findRefusal: unused },
    writes: { write: unused },
    deliveryWaits: [],
    faultPoint: unused,
    onError: unused,
  } as unknown as Parameters<typeof deliverHead>[0];
  let tried = 0;
  const scheduler = new RecordedScheduler({
    concurrency: 1,
    perInstallation: 1,
    retryMs: 1,
    onError: (error) => t.fail(error.message),
    find: (channelIds) => findWaitingChannelQueues(pool, null, channelIds),
    work: async (queue) => {
      const outcome = await deliverHead(deps, queue);
      tried += 1;
      return outcome;
    },
  });
  scheduler.wake('c');
  await eventually(() => tried === 1);
  await scheduler.stop(MINUTE_MS);
  return scheduler.alarms.toSorted((one, other) => one - other);
}

t.test('a look-up plans the retry after a delivery that is behind another', async (t) => {
  t.same(await planAlarms(), [30, 60], 'that of ben 1, and that of ann 1, which was set aside');
});

t.test('no alarm is planned for a queue that waits only for deliveries set aside', async (t) => {
  await pool.query(`UPDATE deliveries SET state = 'dead' WHERE id = 'ben 1'`);
  t.same(await planAlarms(), [60]);
});
