/**
 * Measures what the queue of webhook requests costs PostgreSQL: when idle, with 100 and with 100,000 channels, and for each
 * request with one, two and three supervisors. Real supervisor processes with jailed children. Run
 * `sh deploy/node.sh bench/webhook-queue.ts [--channels 100000] [--requests 1200]`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Pool } from 'pg';
import { Agent, request } from 'undici';
import { insertChannel } from '../db/channels/channels.ts';
import { inTransaction } from '../db/postgres/pool.ts';
import { eventually } from '../test/runner/eventually.ts';
import { openStorageFixture } from '../test/supervisor/supervisor-fixture.ts';
import { startProcess } from '../test/supervisor/supervisor-process.ts';
import { openCleanup } from './fixtures/cleanup.ts';
import { startPostgres } from './fixtures/postgres.ts';
import { startWebhookIngress } from './fixtures/webhook-ingress.ts';
import { readPositiveNumber } from './options.ts';

const { values } = parseArgs({
  options: { channels: { type: 'string', default: '100000' }, requests: { type: 'string', default: '1200' } },
});
const REQUESTS = readPositiveNumber('--requests', values.requests);
const FEW_CHANNELS = 100;
const MANY_CHANNELS = readPositiveNumber('--channels', values.channels);
/** Accounts with a channel each that get requests. */
const ACCOUNTS = 12;
/** Requests a second: a load that leaves the queue empty most of the time, so that each request is woken for. */
const RATE = 60;
/** PostgreSQL's processes publish their counts at most this much later. Milliseconds. */
const COUNTS_MS = 11_000;
const IDLE_MS = 15_000;
/** Rows in one statement, which has a time limit. */
const FILL_BATCH = 5_000;
const GOALS = { idleRatio: 1.5, commitsRatio: 1.25 };
const CODE = `channel.receive = () => ({ messages: [{ conversationKey: 'k', from: 'vendor', text: 'x' }] });`;

interface Cost {
  readonly commits: number;
  /** Rows read from the product's tables. Autovacuum reads catalogs when it likes, and more of them beside a large table. */
  readonly rows: number;
  readonly seconds: number;
}

const cleanup = openCleanup();
await startPostgres(cleanup);
const storage = await openStorageFixture(cleanup);
const { pool } = storage;
const port = await startWebhookIngress(cleanup, pool, storage.dataDir);
const vendors = new Agent({ connections: 16 });

const addresses: string[] = [];
for (let index = 0; index < ACCOUNTS; index += 1) {
  const made = await storage.install({ account: `account-${index}`, slug: `vendor-${index}`, code: CODE });
  const channel = await inTransaction(pool, (tx) => insertChannel(tx, { ...made, name: 'inbox' }));
  addresses.push(`http://127.0.0.1:${port}/webhook/plugin/${channel.routingId}`);
}

/** Adds channels without deliveries, each of an installation and an account of its own. */
async function addIdleChannels(from: number, to: number): Promise<void> {
  for (let start = from; start < to; start += FILL_BATCH) await addIdleBatch(start, Math.min(to, start + FILL_BATCH));
  await pool.query('ANALYZE');
}

async function addIdleBatch(from: number, to: number): Promise<void> {
  const rows = `generate_series(${from}, ${to - 1}) AS n`;
  await pool.query(
    `INSERT INTO accounts (id, name, subject) SELECT 'idle-' || n, 'idle-' || n, 'idle-' || n FROM ${rows}`,
  );
  await pool.query(`INSERT INTO plugins (id, owner_id, slug, display_name)
    SELECT 'idle', id, 'idle', 'idle' FROM accounts WHERE id = 'idle-${from}' ON CONFLICT DO NOTHING`);
  await pool.query(
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, granted_capabilities, status, hook_order)
     SELECT 'idle-' || n, 'idle-' || n, 'idle', 'Latest', '{}', 'ready', 1 FROM ${rows}`,
  );
  await pool.query(
    `INSERT INTO channels (id, installation_id, account_id, name, routing_id)
     SELECT 'idle-' || n, 'idle-' || n, 'idle-' || n, 'idle', 'idle-' || n FROM ${rows}`,
  );
}

async function readCounts(db: Pool): Promise<Pick<Cost, 'commits' | 'rows'>> {
  await sleep(COUNTS_MS);
  const { rows } = await db.query<{ commits: number; rows: number }>(
    `SELECT xact_commit::int AS commits,
            (SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables)::float8 AS rows
       FROM pg_stat_database WHERE datname = current_database()`,
  );
  return rows[0] ?? { commits: 0, rows: 0 };
}

let counted: Pick<Cost, 'commits' | 'rows'> | null = null;

async function measure(work: () => Promise<unknown>): Promise<Cost> {
  counted ??= await readCounts(pool);
  const before = counted;
  const started = performance.now();
  await work();
  const after = await readCounts(pool);
  counted = after;
  const seconds = (performance.now() - started) / 1_000;
  return { commits: after.commits - before.commits, rows: after.rows - before.rows, seconds };
}

/** @returns a cost per second */
async function measureIdle(): Promise<Cost> {
  const { commits, rows, seconds } = await measure(() => sleep(IDLE_MS));
  return { commits: commits / seconds, rows: rows / seconds, seconds: 1 };
}

/** Sends requests at a steady rate, and waits until the plugins got them all. @returns commits per request */
async function measureRequests(requests: number, idle: Cost): Promise<number> {
  const { commits, seconds } = await measure(async () => {
    const started = performance.now();
    const answers: Promise<void>[] = [];
    for (let sent = 0; sent < requests; sent += 1) {
      answers.push(post(addresses[sent % ACCOUNTS] as string));
      await sleep(Math.max(0, started + ((sent + 1) * 1_000) / RATE - performance.now()));
    }
    await Promise.all(answers);
    await drained();
  });
  return (commits - idle.commits * seconds) / requests;
}

async function post(url: string): Promise<void> {
  const { statusCode, body } = await request(url, { method: 'POST', body: 'x', dispatcher: vendors });
  await body.dump();
  if (statusCode !== 200) throw new Error(`answered ${statusCode}`);
}

async function drained(): Promise<void> {
  await eventually(async () => {
    const { rows } = await pool.query<{ waiting: number }>(
      "SELECT count(*)::int AS waiting FROM deliveries WHERE state = 'pending'",
    );
    return rows[0]?.waiting === 0;
  }, 60_000);
}

async function addSupervisor(count: number): Promise<void> {
  await startProcess(cleanup, storage, { CHILDREN: '50', PATH: process.env.PATH ?? '' });
  await eventually(async () => {
    const { rows } = await pool.query('SELECT owner, count(*)::int AS n FROM shards GROUP BY owner');
    return rows.length === count && rows.every(({ owner, n }) => owner !== null && n > 30);
  }, 60_000);
  // The first request starts the child and creates the session.
  await Promise.all(addresses.map(post));
  await drained();
  counted = null;
}

await addIdleChannels(0, FEW_CHANNELS);
const perRequest: number[] = [];
for (const count of [1, 2, 3]) {
  await addSupervisor(count);
  const idle = await measureIdle();
  perRequest.push(await measureRequests(REQUESTS, idle));
  console.log(
    `${count} supervisors: ${perRequest.at(-1)?.toFixed(1)} commits a request; idle ${idle.commits.toFixed(1)} commits/s, ${idle.rows.toFixed(0)} rows/s`,
  );
}
// The statistics of a queue that has been used, as `addIdleChannels` leaves them for the second measurement.
await pool.query('ANALYZE');
const before = await measureIdle();
await addIdleChannels(FEW_CHANNELS, MANY_CHANNELS);
counted = null;
const after = await measureIdle();
for (const [channels, cost] of [
  [FEW_CHANNELS, before],
  [MANY_CHANNELS, after],
] as const)
  console.log(
    `${channels} channels, 3 supervisors, idle: ${cost.commits.toFixed(1)} commits/s, ${cost.rows.toFixed(0)} rows/s`,
  );
const idleRatio = after.rows / before.rows;
const commitsRatio = (perRequest[2] ?? 0) / (perRequest[0] ?? 1);
const idleCommitsRatio = after.commits / before.commits;
const met = idleRatio <= GOALS.idleRatio && idleCommitsRatio <= GOALS.idleRatio && commitsRatio <= GOALS.commitsRatio;
console.log(
  `webhook queue: with ${MANY_CHANNELS} channels, idle supervisors read ${idleRatio.toFixed(2)} of the rows of ${FEW_CHANNELS} and commit ${idleCommitsRatio.toFixed(2)} as often; commits a request with three supervisors ${commitsRatio.toFixed(2)} of one; goal ≤ ${GOALS.idleRatio} and ≤ ${GOALS.commitsRatio}: ${met ? 'met' : 'missed'}`,
);
if (!met) process.exitCode = 1;
await vendors.close();
await cleanup.end();
process.exit();
