/**
 * Compares three ways to bring webhook requests to the worker of their channel. The rows are the same in each: they have
 * order, bytes and attempts. They differ in what wakes the worker: the service's own scheduler, a pg-boss job that drains
 * its channel (policy `stately`), or a pg-boss job for each request (policy `key_strict_fifo`). No plugin is called. Run
 * `sh deploy/node.sh bench/queue-systems.ts [--requests 4000]`.
 */
import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Pool } from 'pg';
import { PgBoss } from 'pg-boss';
import { findOrCreateAccount } from '../db/accounts/accounts.ts';
import { insertChannel } from '../db/channels/channels.ts';
import { insertDeliveries, type NewDelivery } from '../db/channels/deliveries.ts';
import { claimNextDelivery, findWaitingChannelQueues, finishDelivery } from '../db/channels/delivery-queue.ts';
import { findShard } from '../db/cluster/shards.ts';
import { QueueWorker } from '../db/jobs/queue-worker.ts';
import { openListener } from '../db/postgres/listener.ts';
import { subscribeToDeliveries } from '../db/postgres/notifications.ts';
import { type Fence, inTransaction, openPool } from '../db/postgres/pool.ts';
import { ChannelScheduler } from '../supervisor/delivery/channel-scheduler.ts';
import { insertBareInstallation } from '../test/fixtures/bare-installation.ts';
import { TEMPLATE, withDatabase } from '../test/runner/server.ts';
import { openCleanup } from './fixtures/cleanup.ts';
import { startBenchServer } from './fixtures/postgres.ts';
import { readPositiveNumber } from './options.ts';
import { percentile } from './percentiles.ts';

const { values } = parseArgs({ options: { requests: { type: 'string', default: '4000' } } });
const BACKLOG = readPositiveNumber('--requests', values.requests);
const SINGLE = 300;
const CHANNELS = 50;
const WORKERS = 32;
/** As many as one commit of the webhook address takes under load. */
const GROUP = 64;
/** PostgreSQL's processes publish their counts at most this much later. Milliseconds. */
const COUNTS_MS = 11_000;
const BODY = randomBytes(2_048);

interface System {
  readonly name: string;
  accept(group: readonly NewDelivery[]): Promise<void>;
  stop(): Promise<unknown>;
}
interface Result {
  readonly name: string;
  readonly p50Ms: number;
  readonly commits: number;
  readonly walBytes: number;
  readonly acceptedPerSecond: number;
  readonly drainedPerSecond: number;
}

const onError = (error: Error): void => console.error(error.message);
const cleanup = openCleanup();
const server = await startBenchServer(cleanup);
const database = openPool(withDatabase(server.url, TEMPLATE), { name: 'bulkhead-bench', connections: 40, onError });
cleanup.teardown(() => database.close());
const { pool } = database;
const account = await findOrCreateAccount(pool, 'ann');
await insertBareInstallation(pool, { accountId: account.id });
const ids = { installationId: 'i', accountId: account.id };
const channels = await Promise.all(
  Array.from({ length: CHANNELS }, (_, index) =>
    inTransaction(pool, (tx) => insertChannel(tx, { ...ids, name: `inbox ${index}` })),
  ),
);
const { rows } = await pool.query<Fence>('SELECT id AS shard, epoch FROM shards WHERE id = $1', [
  findShard(account.id),
]);
const fence = rows[0] as Fence;
const done = new Map<string, () => void>();

/** @returns false: nothing waits */
async function workOn(channelId: string): Promise<boolean> {
  const { delivery } = await claimNextDelivery(pool, { channelId, direction: 'in', setAside: false }, fence);
  if (!delivery) return false;
  await finishDelivery(pool, delivery.id, fence.epoch, 'delivered');
  done.get(delivery.id)?.();
  return true;
}

async function openScheduler(): Promise<System> {
  const listener = await openListener(pool, onError);
  const scheduler = new ChannelScheduler({
    concurrency: WORKERS * 2,
    perInstallation: WORKERS,
    retryMs: 1_000,
    onError,
    find: (channelIds) => findWaitingChannelQueues(pool, null, channelIds),
    work: async ({ channelId }) => ({ isNextDue: await workOn(channelId), wakeAfterMs: null }),
  });
  await subscribeToDeliveries(listener, ({ channelId, accountId, queue }) => {
    if (queue) scheduler.add({ channelId, accountId, setAside: false, ...queue });
  });
  return {
    name: 'own scheduler',
    accept: (group) => insertDeliveries(pool, group),
    stop: async () => {
      await scheduler.stop(0);
      await listener.close();
    },
  };
}

async function openBoss(policy: 'stately' | 'key_strict_fifo'): Promise<System> {
  const listener = await openListener(pool, onError);
  const name = `deliveries-${policy}`;
  let worker: QueueWorker | null = null;
  const boss = new PgBoss({
    db: {
      executeSql: (text: string, parameters?: unknown[]) => pool.query(text, parameters),
      listen: (channel: string) =>
        listener.listen(channel, { onNotification: () => worker?.wake(), onReconnect: () => worker?.wake() }),
    },
    useListenNotify: true,
    schedule: false,
  });
  boss.on('error', onError);
  await boss.start();
  await boss.createQueue(name, { policy, notify: true });
  worker = new QueueWorker({
    boss,
    name,
    limits: { concurrency: WORKERS, perGroup: WORKERS, pollSeconds: 2 },
    handler: async (data) => {
      const { channelId } = data as { channelId: string };
      if (policy === 'key_strict_fifo') await workOn(channelId);
      else while (await workOn(channelId));
    },
    onError,
  });
  return {
    name: `pg-boss, ${policy}`,
    accept: (group) =>
      inTransaction(pool, async (tx) => {
        await insertDeliveries(tx, group);
        const all = group.map(({ channelId }) => channelId);
        const keys = policy === 'stately' ? [...new Set(all)] : all;
        const jobs = keys.map((channelId) => ({ data: { channelId }, singletonKey: channelId }));
        await boss.insert(name, jobs, { db: { executeSql: (text, parameters) => tx.query(text, parameters) } });
      }),
    stop: async () => {
      await worker?.stop(0);
      await boss.stop({ graceful: false, close: false });
      await listener.close();
    },
  };
}

const createDelivery = (index: number): NewDelivery => ({
  ...ids,
  id: randomUUIDv7(),
  channelId: channels[index % CHANNELS]?.id ?? '',
  routingId: 'r',
  receivedAt: Date.now(),
  method: 'POST',
  query: '',
  headers: [],
  body: BODY,
});

function finished(id: string): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<void>();
  done.set(id, resolve);
  return promise.finally(() => done.delete(id));
}

async function readCosts(db: Pool): Promise<{ commits: number; wal: number }> {
  await sleep(COUNTS_MS);
  const read = await db.query<{ commits: number; wal: number }>(
    `SELECT xact_commit::int AS commits, (pg_current_wal_lsn() - '0/0')::float8 AS wal FROM pg_stat_database
      WHERE datname = current_database()`,
  );
  return read.rows[0] ?? { commits: 0, wal: 0 };
}

async function measure(system: System): Promise<Result> {
  const one = async (index: number): Promise<number> => {
    const delivery = createDelivery(index);
    const over = finished(delivery.id);
    await system.accept([delivery]);
    const started = performance.now();
    await over;
    return performance.now() - started;
  };
  for (let index = 0; index < CHANNELS; index += 1) await one(index);
  const before = await readCosts(pool);
  const waits: number[] = [];
  for (let index = 0; index < SINGLE; index += 1) waits.push(await one(index));
  const after = await readCosts(pool);
  const groups = Array.from({ length: Math.ceil(BACKLOG / GROUP) }, (_, group) =>
    Array.from({ length: GROUP }, (_row, index) => createDelivery(group * GROUP + index)),
  );
  const overs = groups.flat().map(({ id }) => finished(id));
  const started = performance.now();
  for (const group of groups) await system.accept(group);
  const accepted = performance.now();
  await Promise.all(overs);
  const drained = performance.now();
  return {
    name: system.name,
    p50Ms: percentile(waits, 0.5),
    commits: (after.commits - before.commits) / SINGLE,
    walBytes: (after.wal - before.wal) / SINGLE,
    acceptedPerSecond: (overs.length / (accepted - started)) * 1_000,
    drainedPerSecond: (overs.length / (drained - started)) * 1_000,
  };
}

const results: Result[] = [];
for (const open of [openScheduler, () => openBoss('stately'), () => openBoss('key_strict_fifo')]) {
  const system = await open();
  const result = await measure(system);
  results.push(result);
  await system.stop();
  console.log(
    `${result.name}: ${result.commits.toFixed(1)} commits and ${(result.walBytes / 1_024).toFixed(1)} KiB of log a request, p50 ${result.p50Ms.toFixed(1)} ms; backlog accepted at ${result.acceptedPerSecond.toFixed(0)}/s, drained at ${result.drainedPerSecond.toFixed(0)}/s`,
  );
}
const [own] = results;
for (const result of results.slice(1))
  console.log(
    `${result.name}, as a multiple of the own scheduler: commits ${(result.commits / (own?.commits ?? 1)).toFixed(2)}, log ${(result.walBytes / (own?.walBytes ?? 1)).toFixed(2)}, p50 ${(result.p50Ms / (own?.p50Ms ?? 1)).toFixed(2)}, drained ${(result.drainedPerSecond / (own?.drainedPerSecond ?? 1)).toFixed(2)}`,
  );
await cleanup.end();
process.exit(0);
