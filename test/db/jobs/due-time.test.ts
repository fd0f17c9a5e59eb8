/** What was stored or postponed while the clock of the database was ahead does not wait until that time. */
import t from 'tap';
import { claimNextDelivery, findWaitingChannelQueues } from '../../../db/channels/delivery-queue.ts';
import { claimNextEvent, EVENT_WAIT_MAX_S, requeueStrandedEvents } from '../../../db/installations/events.ts';
import { requeueUpdates } from '../../../db/installations/updates.ts';
import { startQueues } from '../../../db/jobs/queues.ts';
import { insertOwnedChannel } from '../../fixtures/bare-installation.ts';
import { testDatabase } from '../../runner/harness.ts';

const FENCE = { shard: 0, epoch: 1 };
const LONGEST_WAIT_S = 60;
const QUEUE = { channelId: 'c', direction: 'in', setAside: false } as const;

const { pool } = await testDatabase(t);
const queues = await startQueues({ pool, role: 'producer', onError: () => undefined });
t.teardown(() => queues.stop());
await insertOwnedChannel(pool);

interface Waiting {
  /** PostgreSQL's text of a time. */
  readonly dueAt: string;
  readonly lastError?: string;
}

async function isClaimed({ dueAt, lastError }: Waiting): Promise<boolean> {
  await pool.query('DELETE FROM deliveries');
  await pool.query(
    `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body, received_at,
       next_attempt_at, last_error)
     VALUES ('d', 'c', 'i', 'a', 'r', 'POST', '', '[]', '', now(), $1, $2)`,
    [dueAt, lastError ?? null],
  );
  const [found] = await findWaitingChannelQueues(pool, null, ['c'], LONGEST_WAIT_S);
  const { delivery } = await claimNextDelivery(pool, QUEUE, FENCE, { longestWait: LONGEST_WAIT_S });
  t.equal(delivery !== null, found?.waitMs === 0, 'a queue is found with the wait of its claim');
  return delivery !== null;
}

async function isEventClaimed({ dueAt, lastError }: Waiting): Promise<boolean> {
  await pool.query('DELETE FROM events');
  await pool.query('DELETE FROM pgboss.job');
  await pool.query(
    `INSERT INTO events (id, installation_id, account_id, plugin_id, type, data, next_attempt_at, last_error)
     VALUES ('e', 'i', 'a', 'p', 'sessionStarted', '{}', $1, $2)`,
    [dueAt, lastError ?? null],
  );
  await queues.send(pool, 'events', { eventId: 'e', installationId: 'i' }, { delaySeconds: 86_400 });
  const requeued = await requeueStrandedEvents(pool, queues, { shards: null, delivering: new Set() });
  const event = await claimNextEvent(pool, 'i', FENCE);
  t.equal(event !== null, requeued === 1, 'the event gets a job if it is due');
  return event !== null;
}

const after = async (seconds: number): Promise<string> =>
  (await pool.query('SELECT (now() + make_interval(secs => $1))::text AS at', [seconds])).rows[0].at;

t.test('what was never postponed is due', async (t) => {
  const dueAt = await after(86_400);
  t.ok(await isClaimed({ dueAt }));
  t.ok(await isEventClaimed({ dueAt }));
});

t.test('what was postponed waits, at most for the longest wait', async (t) => {
  const lastError = 'it failed';
  t.notOk(await isClaimed({ dueAt: await after(LONGEST_WAIT_S - 10), lastError }));
  t.ok(await isClaimed({ dueAt: await after(LONGEST_WAIT_S + 600), lastError }));
  t.notOk(await isEventClaimed({ dueAt: await after(EVENT_WAIT_MAX_S - 10), lastError }));
  t.ok(await isEventClaimed({ dueAt: await after(EVENT_WAIT_MAX_S + 600), lastError }));
});

t.test('what is held stays so', async (t) => {
  t.notOk(await isClaimed({ dueAt: 'infinity', lastError: 'paused' }));
  t.notOk(await isEventClaimed({ dueAt: 'infinity', lastError: 'paused' }));
});

t.test('an update under way gets a job, though one waits from a time when the clock was ahead', async (t) => {
  const requeue = () => requeueUpdates(pool, queues, new Set());
  await pool.query('DELETE FROM pgboss.job');
  await pool.query(
    `INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, manifest, readme,
       capabilities, added_capabilities, discovered, registrations)
     VALUES ('v', 'p', '1.0.0', 'published', 'a', 'b', 1, '{}', '', '{}', '{}', '{}', '{}')`,
  );
  await pool.query(`UPDATE installations SET target_version_id = 'v' WHERE id = 'i'`);
  await queues.send(pool, 'updates', { installationId: 'i' }, { delaySeconds: 86_400 });
  t.equal(await requeue(), 1);
  t.equal(await requeue(), 0, 'which counts from then on');
});
