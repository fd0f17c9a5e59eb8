/** Metrics of waiting work do not count the time before a replay, or the time in which the installation could not run. */
import t from 'tap';
import { replayDeliveries } from '../../../db/channels/delivery-history.ts';
import { claimNextDelivery, releaseHeldDeliveries } from '../../../db/channels/delivery-queue.ts';
import { replayEvent } from '../../../db/installations/event-history.ts';
import { releaseHeldEvents } from '../../../db/installations/events.ts';
import { startQueues } from '../../../db/jobs/queues.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { readBacklogs } from '../../../service/telemetry/backlogs.ts';
import { insertOwnedChannel } from '../../fixtures/bare-installation.ts';
import { testDatabase } from '../../runner/harness.ts';

const HOUR_S = 3_600;
const { pool } = await testDatabase(t);
const queues = await startQueues({ pool, role: 'producer', onError: () => undefined });
t.teardown(() => queues.stop());
await insertOwnedChannel(pool);
await pool.query(
  `INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, manifest, readme,
     capabilities, added_capabilities, discovered, registrations)
   VALUES ('v', 'p', '1.0.0', 'published', '', '', 1, '{}', '', '{}', '{}', '{}', '{"channel": {"receive": true, "send": true}}')`,
);
await pool.query(`UPDATE installations SET current_version_id = 'v'`);

/** Writes two webhook requests, two replies and two events that arrived nine hours ago. */
async function insertOld(state: 'dead' | 'pending', nextAttempts: readonly [string, string]): Promise<void> {
  await pool.query('DELETE FROM deliveries');
  await pool.query('DELETE FROM events');
  await pool.query(
    `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body, received_at,
       direction, state, next_attempt_at)
     SELECT direction || n, 'c', 'i', 'a', 'r', 'POST', '', '[]', '', now() - interval '9 h', direction, $1, at
       FROM unnest($2::timestamptz[]) WITH ORDINALITY AS a (at, n), (VALUES ('in'), ('out')) AS d (direction) ORDER BY n`,
    [state, nextAttempts],
  );
  await pool.query(
    `INSERT INTO events (id, installation_id, account_id, plugin_id, type, data, occurred_at, state, next_attempt_at)
     SELECT 'e' || n, 'i', 'a', 'p', 'sessionStarted', '{}', now() - interval '9 h', $1, at
       FROM unnest($2::timestamptz[]) WITH ORDINALITY AS a (at, n)`,
    [state, nextAttempts],
  );
}

async function readAges(): Promise<Record<string, number>> {
  const backlogs = await readBacklogs(pool);
  const waiting = backlogs.filter(({ name }) => ['webhooks', 'replies', 'events'].includes(name));
  for (const { name, waiting: count } of waiting) t.equal(count, 2, name);
  return Object.fromEntries(waiting.map(({ name, oldestSeconds }) => [name, Math.floor(oldestSeconds / HOUR_S)]));
}

async function claimQueuedAt(): Promise<number> {
  const queue = { channelId: 'c', direction: 'in', setAside: false } as const;
  const { delivery } = await claimNextDelivery(pool, queue, { shard: 0, epoch: 1 });
  return Math.floor((Date.now() - Date.parse(delivery?.queuedAt ?? '')) / (HOUR_S * 1_000));
}

t.test('what only waits counts from its arrival', async (t) => {
  await insertOld('pending', ['now', 'now']);
  t.same(await readAges(), { webhooks: 9, replies: 9, events: 9 });
  t.equal(await claimQueuedAt(), 9);
});

t.test('what was replayed counts from its replay', async (t) => {
  await insertOld('dead', ['now', 'now']);
  await inTransaction(pool, async (tx) => {
    t.equal(await replayDeliveries(tx, { installationId: 'i', state: 'dead', limit: 10 }), 4);
    for (const id of ['e1', 'e2']) t.ok(await replayEvent(tx, queues, 'i', id));
  });
  t.same(await readAges(), { webhooks: 0, replies: 0, events: 0 });
  t.equal(await claimQueuedAt(), 0);
});

t.test('what was held, and what waited behind it, counts from the release', async (t) => {
  await insertOld('pending', ['infinity', 'now']);
  t.equal(await releaseHeldEvents(pool, queues, 'i'), 1);
  t.same(await releaseHeldDeliveries(pool, 'i'), ['c', 'c']);
  t.same(await readAges(), { webhooks: 0, replies: 0, events: 0 });
  t.equal(await claimQueuedAt(), 0);
  t.same(await releaseHeldDeliveries(pool, 'i'), []);
});

t.test('a release does not wait for a transaction that has locked the installation', async (t) => {
  await insertOld('pending', ['infinity', 'now']);
  await inTransaction(pool, async (tx) => {
    await tx.query(`SELECT FROM installations WHERE id = 'i' FOR UPDATE`);
    t.equal(await releaseHeldEvents(pool, queues, 'i'), 1);
  });
});
