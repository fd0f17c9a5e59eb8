/**
 * Measures how many webhook requests per second are committed, as a share of single-row INSERTs per second over the
 * same pool. 2 KB bodies over HTTP; the vendors run in another process. Then measures the response time at half that
 * load. Run `sh deploy/node.sh bench/webhook-intake.ts [--seconds 4]`.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Pool } from 'pg';
import { findOrCreateAccount } from '../db/accounts/accounts.ts';
import { insertChannel } from '../db/channels/channels.ts';
import { inTransaction, openPool } from '../db/postgres/pool.ts';
import { insertBareInstallation } from '../test/fixtures/bare-installation.ts';
import { TEMPLATE, withDatabase } from '../test/runner/server.ts';
import { openCleanup, openFolder } from './fixtures/cleanup.ts';
import { startBenchServer } from './fixtures/postgres.ts';
import { startWebhookIngress } from './fixtures/webhook-ingress.ts';
import { readPositiveNumber } from './options.ts';
import { percentile } from './percentiles.ts';

const CONNECTIONS = 20;
const BODY = randomBytes(2_048);
const ROUNDS = 3;
const GOALS = { share: 0.7, p99Ms: 50 };
const VENDORS = fileURLToPath(new URL('fixtures/webhook-vendors.ts', import.meta.url));

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '4' } } });
const seconds = readPositiveNumber('--seconds', values.seconds);

export interface Load {
  readonly port: number;
  readonly path: string;
  readonly connections: number;
  readonly seconds: number;
  /** Requests per second in all; null: as many as get responses. */
  readonly rate: number | null;
  readonly bodyBytes: number;
}
export interface LoadResult {
  readonly accepted: number;
  readonly refused: number;
  /** How long each accepted request took. A refusal may be faster. */
  readonly ms: readonly number[];
}

/** Single-row INSERTs of the same row, one per statement, on all connections of the pool. */
async function rawInserts(pool: Pool): Promise<number> {
  const until = performance.now() + seconds * 1_000;
  let count = 0;
  const worker = async () => {
    while (performance.now() < until) {
      await pool.query({
        name: 'raw',
        text: `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, received_at, method, query,
                 headers, body) VALUES ($1, 'raw', 'raw', 'raw', 'raw', now(), 'POST', '', '[]', $2)`,
        values: [randomUUIDv7(), BODY],
      });
      count += 1;
    }
  };
  const started = performance.now();
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
  return (count / (performance.now() - started)) * 1_000;
}

async function load(vendors: ChildProcess, load: Load): Promise<LoadResult> {
  vendors.send(load);
  const [result] = (await once(vendors, 'message')) as [LoadResult];
  return result;
}

const cleanup = openCleanup();
const directory = openFolder(cleanup);
const server = await startBenchServer(cleanup);
const database = openPool(withDatabase(server.url, TEMPLATE), {
  name: 'bulkhead-bench',
  connections: CONNECTIONS,
  onError: () => undefined,
});
cleanup.teardown(() => database.close());
const { pool } = database;
const account = await findOrCreateAccount(pool, 'ann');
await insertBareInstallation(pool, { accountId: account.id });
const channel = await inTransaction(pool, (tx) =>
  insertChannel(tx, { installationId: 'i', accountId: account.id, name: 'inbox' }),
);
const port = await startWebhookIngress(cleanup, pool, directory);
const vendors = fork(VENDORS);
cleanup.teardown(() => vendors.kill());
const aim = {
  port,
  path: `/webhook/plugin/${channel.routingId}`,
  seconds,
  connections: 64,
  bodyBytes: BODY.byteLength,
};

await load(vendors, { ...aim, rate: null, seconds: 1 });
const shares: number[] = [];
let accepted = 0;
for (let round = 0; round < ROUNDS; round += 1) {
  const raw = await rawInserts(pool);
  const result = await load(vendors, { ...aim, rate: null });
  accepted = result.accepted / seconds;
  shares.push(accepted / raw);
  console.log(
    `raw INSERT ${raw.toFixed(0)}/s   accepted ${accepted.toFixed(0)}/s   share ${(accepted / raw).toFixed(2)}   refused ${result.refused}`,
  );
}
const share = percentile(shares, 0.5);
const half = await load(vendors, { ...aim, rate: accepted / 2 });
const [p50, p99] = [percentile(half.ms, 0.5), percentile(half.ms, 0.99)];
console.log(
  `at half that load (${(accepted / 2).toFixed(0)}/s): p50 ${p50.toFixed(1)} ms   p99 ${p99.toFixed(1)} ms   refused ${half.refused}`,
);
const met = share >= GOALS.share && p99 <= GOALS.p99Ms && half.refused === 0;
console.log(
  `webhook intake: ${share.toFixed(2)} of raw INSERTs, p99 ${p99.toFixed(1)} ms; goal ≥ ${GOALS.share} and ≤ ${GOALS.p99Ms} ms, none refused at half the load: ${met ? 'met' : 'missed'}`,
);
if (!met) process.exitCode = 1;
await cleanup.end();
process.exit();
