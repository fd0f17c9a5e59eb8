/**
 * Measures the time from the 200 of a webhook request to `channel.receive` on an idle system, over HTTP and with a
 * running jailed child. The child reports the time of its call in whole milliseconds, so a single delay is off by up to half
 * of one. A request that reaches the plugin before its vendor has read the response counts as 0. Vendor, webhook address and supervisor share this process. The floor, interleaved, is one
 * committed INSERT: the delivery is claimed and judged in between. Run `sh deploy/node.sh bench/webhook-latency.ts [requests]`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'undici';
import { insertChannel } from '../db/channels/channels.ts';
import { inTransaction } from '../db/postgres/pool.ts';
import { eventually } from '../test/runner/eventually.ts';
import { startSupervisorFixture } from '../test/supervisor/supervisor-fixture.ts';
import { openCleanup } from './fixtures/cleanup.ts';
import { startPostgres } from './fixtures/postgres.ts';
import { startWebhookIngress } from './fixtures/webhook-ingress.ts';
import { computeDelay } from './fixtures/whole-milliseconds.ts';
import { readPositiveNumber } from './options.ts';
import { percentile } from './percentiles.ts';

const REQUESTS = readPositiveNumber('requests', process.argv[2] ?? '400');
const WARM_UP = 20;
/** Pause between requests, so that the system is idle again. Milliseconds. */
const PAUSE_MS = 25;
const GOALS = { p50Ms: 10, p99Ms: 100 };
const BODY = Buffer.alloc(2_048, 'x');
const CODE = `channel.receive = () => ({
  messages: [{ conversationKey: 'k', from: 'vendor', text: String(Date.now()) }],
});`;

const cleanup = openCleanup();

await startPostgres(cleanup);
const fixture = await startSupervisorFixture(cleanup);
const { pool } = fixture;
const port = await startWebhookIngress(cleanup, pool, fixture.dataDir);
const { installationId, accountId } = await fixture.install({ code: CODE });
const channel = await inTransaction(pool, (tx) => insertChannel(tx, { installationId, accountId, name: 'inbox' }));
const vendor = new Client(`http://127.0.0.1:${port}`);

/**
 * Sends requests one after another and waits until the plugin got them all.
 *
 * @returns the delay of each, milliseconds
 */
async function measure(requests: number): Promise<number[]> {
  const answeredAt: number[] = [];
  for (let sent = 0; sent < requests; sent += 1) {
    const answer = await vendor.request({ method: 'POST', path: `/webhook/plugin/${channel.routingId}`, body: BODY });
    answeredAt.push(performance.timeOrigin + performance.now());
    await answer.body.dump();
    if (answer.statusCode !== 200) throw new Error(`answered ${answer.statusCode}`);
    await sleep(PAUSE_MS);
    const insertedAt = performance.now();
    await pool.query('INSERT INTO floor (body) VALUES ($1)', [BODY]);
    inserts.push(performance.now() - insertedAt);
  }
  const calledAt = await eventually(async () => {
    const { rows } = await pool.query<{ text: string }>(
      `SELECT m.text FROM session_messages m JOIN conversations k ON k.session_id = m.session_id
        WHERE k.channel_id = $1 ORDER BY m.position OFFSET $2`,
      [channel.id, seen],
    );
    return rows.length === requests && rows.map(({ text }) => Number(text));
  }, 60_000);
  seen += requests;
  return calledAt.map((at, index) => computeDelay(answeredAt[index] ?? 0, at));
}

await pool.query('CREATE TABLE floor (body bytea)');
const inserts: number[] = [];
let seen = 0;
// The first request starts the child.
await measure(WARM_UP);
inserts.length = 0;
const waits = await measure(REQUESTS);
const floor = percentile(inserts, 0.5);
const [p50, p99] = [percentile(waits, 0.5), percentile(waits, 0.99)];
const met = p50 <= GOALS.p50Ms && p99 <= GOALS.p99Ms;
console.log(
  `accept to receive: p50 ${p50.toFixed(1)} ms, ${(p50 / floor).toFixed(1)}× an INSERT of ${floor.toFixed(2)} ms   p99 ${p99.toFixed(1)} ms; goal ≤ ${GOALS.p50Ms} and ≤ ${GOALS.p99Ms} ms: ${met ? 'met' : 'missed'}`,
);
if (!met) process.exitCode = 1;
await vendor.close();
await cleanup.end();
process.exit();
