/**
 * Measures how long deliveries wait after `kill -9` of a supervisor with many plugin processes, each with a running or
 * waiting delivery. The next supervisor starts after the delay of `npm start`. Counts the time from the kill to the
 * plugin's next call, as reported by the plugins. Run `sh deploy/node.sh bench/recovery.ts [plugins]`.
 */
import { randomUUIDv7 } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Channel, insertChannel } from '../db/channels/channels.ts';
import { insertDeliveries } from '../db/channels/deliveries.ts';
import { inTransaction } from '../db/postgres/pool.ts';
import { computeBackoff } from '../deploy/backoff.ts';
import { type ForkedProcess, forkProcess } from '../test/fixtures/forked-process.ts';
import { freePort } from '../test/fixtures/free-port.ts';
import { eventually } from '../test/runner/eventually.ts';
import { temporaryFolder } from '../test/runner/harness.ts';
import { Ledger } from '../test/storm/ledger.ts';
import { CAPABILITIES, REPORTING, startRecorder } from '../test/storm/recorder.ts';
import { openStorageFixture } from '../test/supervisor/supervisor-fixture.ts';
import { openCleanup } from './fixtures/cleanup.ts';
import { startPostgres } from './fixtures/postgres.ts';
import { readPositiveNumber } from './options.ts';
import { percentile } from './percentiles.ts';

const PLUGINS = readPositiveNumber('plugins', process.argv[2] ?? '100');
const GOAL_P99_MS = 10_000;
const MAIN = fileURLToPath(new URL('../supervisor/main.ts', import.meta.url));
/** Time limit for each step. Milliseconds. */
const PATIENCE_MS = 240_000;
/** When no delivery has started for this long, as many are running as one supervisor allows. Milliseconds. */
const SETTLED_MS = 1_500;

const cleanup = openCleanup();

await startPostgres(cleanup);
const storage = await openStorageFixture(cleanup);
const ledger = new Ledger(await temporaryFolder(cleanup));
const holding = Promise.withResolvers<void>();
let held: Promise<void> | null = null;
const MODELS_FILE = await startRecorder(cleanup, ledger, () => held);
const channels: Channel[] = [];
for (let index = 0; index < PLUGINS; index += 1) {
  const { installationId, accountId } = await storage.install({
    slug: `plugin-${index}`,
    code: REPORTING,
    capabilities: CAPABILITIES,
  });
  const own = { installationId, accountId, name: 'c' };
  channels.push(await inTransaction(storage.pool, (tx) => insertChannel(tx, own)));
}
const { rows } = await storage.pool.query<{ accountId: string }>(`SELECT id AS "accountId" FROM accounts LIMIT 1`);
const accountId = rows[0]?.accountId ?? '';

/** Sends one delivery to each plugin. @returns their ids */
async function deliverAll(): Promise<string[]> {
  const group = channels.map(({ id: channelId, installationId, routingId }, place) => ({
    id: randomUUIDv7(),
    channelId,
    installationId,
    accountId,
    routingId,
    receivedAt: Date.now(),
    method: 'POST',
    query: '',
    headers: [],
    body: Buffer.from(`- ${place}`),
  }));
  await insertDeliveries(storage.pool, group);
  return group.map(({ id }) => id);
}

async function start(): Promise<ForkedProcess> {
  const ports = { SUPERVISOR_PORT: String(await freePort()), SUPERVISOR_OPS_PORT: String(await freePort()) };
  const places = { DATABASE_URL: storage.url, DATA_DIR: storage.dataDir, LOG_LEVEL: 'error', MODELS_FILE };
  const env = { ...ports, ...places, CHILDREN: String(PLUGINS + 1), PATH: process.env.PATH ?? '' };
  return forkProcess(cleanup, MAIN, env, 'SIGKILL');
}

/** Returns when each delivery first arrived after a time, milliseconds since 1970. */
function arrivals(ids: readonly string[], after: number): number[] {
  const first = new Map<string, number>();
  for (const { id, at } of ledger.arrivals()) if (at > after && !first.has(id)) first.set(id, at);
  return ids.flatMap((id) => first.get(id) ?? []);
}

const before = await start();
const warm = await deliverAll();
await eventually(async () => arrivals(warm, 0).length === PLUGINS, PATIENCE_MS);
held = holding.promise;
const due = await deliverAll();
for (let begun = -1; begun !== arrivals(due, 0).length; await sleep(SETTLED_MS)) begun = arrivals(due, 0).length;
const underWay = due.filter((id) => arrivals([id], 0).length > 0);
const killedAt = Date.now();
await before.end('SIGKILL');
held = null;
holding.resolve();
await sleep(computeBackoff(1));
const after = await start();
const servesMs = Date.now() - killedAt;
await eventually(async () => arrivals(due, killedAt).length === PLUGINS, PATIENCE_MS);
for (const [name, ids] of Object.entries({ 'under way': underWay, 'all that were due': due })) {
  const waits = arrivals(ids, killedAt).map((at) => at - killedAt);
  const [p50, p99] = [percentile(waits, 0.5), percentile(waits, 0.99)];
  const met = p99 <= GOAL_P99_MS;
  console.log(
    `${name} (${waits.length}): p50 ${p50} ms   p99 ${p99} ms; goal p99 ≤ ${GOAL_P99_MS} ms: ${met ? 'met' : 'missed'}`,
  );
  if (!met) process.exitCode = 1;
}
console.log(`${PLUGINS} plugin processes; the next supervisor served after ${servesMs} ms`);
await after.end('SIGTERM');
await cleanup.end();
process.exit();
