/** `/readyz` of both processes: each reason why one cannot serve, brought about for real. */
import { readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import t from 'tap';
import { startQueues } from '../../db/jobs/queues.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { buildOperations } from '../../service/lifecycle/operations.ts';
import { type Checks, readyMetrics, setReady } from '../../service/lifecycle/readiness.ts';
import { openMeters } from '../../service/telemetry/meters.ts';
import { openSandbox } from '../../supervisor/jail/sandbox.ts';
import { buildHealth } from '../../supervisor/records/operations.ts';
import { forkProcess } from '../fixtures/forked-process.ts';
import { freePort } from '../fixtures/free-port.ts';
import { mountSmallDisk, NO_DISK } from '../fixtures/small-disk.ts';
import { childPrograms } from '../runner/child-program.ts';
import { eventually } from '../runner/eventually.ts';
import { type Teardown, temporaryFolder, testDatabase } from '../runner/harness.ts';
import { soakTest } from '../runner/soak.ts';

const API = fileURLToPath(new URL('../../api/main.ts', import.meta.url));
const registry = new Registry();
const { bulkhead_ready: gauge } = openMeters(registry, readyMetrics, {});
const metrics = { registry, readyChecked: (checks: Checks) => setReady(gauge, checks) };

interface Process {
  readonly name: string;
  readonly app: FastifyInstance;
}
/** A busy machine may exceed the time of a check: then it is asked again. */
const readiness = ({ app }: Process) =>
  eventually(async () => {
    const answer = await app.inject('/readyz');
    const { checks, ...found } = answer.json<{ reason?: string; checks: Record<string, string | null> }>();
    const isLate = Object.values(checks).some((failure) => failure?.endsWith('did not answer in time'));
    return !isLate && { code: answer.statusCode, checks, ...found };
  });

async function makeJail(t: Teardown) {
  const directory = join(await temporaryFolder(t), 'sandbox');
  return { directory, sandbox: await openSandbox({ mode: 'auto', directory, ...(await childPrograms()) }) };
}

async function makeProcesses(t: Teardown) {
  const { pool } = await testDatabase(t);
  const queues = await startQueues({ pool, role: 'producer', onError: () => undefined });
  t.teardown(() => queues.stop());
  const { directory, sandbox } = await makeJail(t);
  const state = { stopping: false, listening: true };
  const isStopping = () => state.stopping;
  const listener = { isConnected: () => state.listening };
  const dataDir = { path: directory, minFreeMegabytes: 1 };
  const api = { name: 'API', app: buildOperations({ pool, dataDir, metrics, isStopping }) };
  const health = { pool, dataDir, metrics, listener, sandbox, isStopping };
  const supervisor = { name: 'supervisor', app: buildHealth(health) };
  return { pool, directory, sandbox, state, api, supervisor, health, both: [api, supervisor] };
}

t.test('API and supervisor are ready and alive, and report their versions', async (t) => {
  const { both, supervisor } = await makeProcesses(t);
  for (const process of both) {
    t.match(await readiness(process), { code: 200 }, process.name);
    const { version } = (await process.app.inject('/healthz')).json();
    t.match(version, /^\d+\.\d+\.\d+/);
  }
  t.match((await supervisor.app.inject('/healthz')).json(), { sandbox: { state: /full|degraded/ } });
  t.same((await readiness(supervisor)).checks, {
    process: null,
    listener: null,
    database: null,
    migrations: null,
    queue: null,
    write: null,
    dataDir: null,
    jail: null,
  });
});

t.test('a process that stops, and one without a listening connection', async (t) => {
  const { both, supervisor, state } = await makeProcesses(t);
  state.listening = false;
  t.match(await readiness(supervisor), { code: 503, reason: 'the listening connection to the database is lost' });
  state.stopping = true;
  for (const process of both) t.match(await readiness(process), { code: 503, reason: 'stopping' }, process.name);
});

t.test('migrations that are missing are named', async (t) => {
  const { both, pool } = await makeProcesses(t);
  await pool.query("DELETE FROM migrations WHERE name = '0014_metrics'");
  for (const process of both) {
    const reason = 'migrations are missing: 0014_metrics; npm start applies them';
    t.match(await readiness(process), { code: 503, reason }, process.name);
  }
});

soakTest(t, 'a process starts before the migration of revoked keys, and names it', async (t) => {
  const { pool, url } = await testDatabase(t);
  await pool.query('DROP TABLE revoked_keys');
  await pool.query("DELETE FROM migrations WHERE name = '0086_revoked_keys'");
  const opsPort = String(await freePort());
  const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t), LOG_LEVEL: 'error' };
  await forkProcess(t, API, { ...env, PORT: String(await freePort()), API_OPS_PORT: opsPort }, 'SIGTERM');
  const answer = await fetch(`http://127.0.0.1:${opsPort}/readyz`);
  t.equal(answer.status, 503);
  t.match(await answer.json(), { reason: 'migrations are missing: 0086_revoked_keys; npm start applies them' });
});

t.test('a missing queue is not ready', async (t) => {
  const { both, pool } = await makeProcesses(t);
  await pool.query('ALTER TABLE pgboss.queue RENAME TO gone');
  for (const process of both)
    t.match(await readiness(process), {
      code: 503,
      reason: 'the queue is unavailable: relation "pgboss.queue" does not exist',
    });
  await pool.query('ALTER TABLE pgboss.gone RENAME TO queue');
});

t.test('an unavailable database is not ready', async (t) => {
  // No server listens on port 1.
  const lost = openPool('postgres://user@127.0.0.1:1/database', { name: 'test', onError: () => undefined });
  t.teardown(() => lost.close());
  const dataDir = { path: tmpdir(), minFreeMegabytes: 0 };
  const app = buildOperations({ pool: lost.pool, dataDir, metrics, isStopping: () => false });
  t.match(await readiness({ name: 'API', app }), {
    code: 503,
    reason: 'the database is unavailable: connect ECONNREFUSED 127.0.0.1:1',
  });
  const { body } = await app.inject('/metrics');
  t.match(body, 'bulkhead_ready{check="database"} 0');
  t.match(body, 'bulkhead_ready{check="dataDir"} 1');
  t.notMatch(body, 'check="write"', 'what cannot be checked has no value');
});

t.test('a database that accepts no writes is not ready', async (t) => {
  const { pool, url } = await testDatabase(t);
  const isReady = async () => {
    const { pool, close } = openPool(url, { name: 'test', connections: 3, onError: () => undefined });
    const dataDir = { path: tmpdir(), minFreeMegabytes: 0 };
    const answer = await readiness({
      name: 'API',
      app: buildOperations({ pool, dataDir, metrics, isStopping: () => false }),
    });
    await close();
    return answer;
  };
  t.match(await isReady(), { code: 200 });
  const name = new URL(url).pathname.slice(1);
  await pool.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
  const reason = 'the database accepts no writes: cannot execute INSERT in a read-only transaction';
  t.match(await isReady(), { code: 503, reason });
});

const disk = await mountSmallDisk(t, 8);
t.test('a DATA_DIR that is almost full, full, or gone is not ready', { skip: disk === null && NO_DISK }, async (t) => {
  if (disk === null) return;
  const { pool } = await testDatabase(t);
  const isReady = (minFreeMegabytes: number, path = disk.folder) => {
    const app = buildOperations({ pool, dataDir: { path, minFreeMegabytes }, metrics, isStopping: () => false });
    return readiness({ name: 'API', app });
  };
  t.match(await isReady(4), { code: 200 });
  t.match(await isReady(9), {
    code: 503,
    reason: `DATA_DIR ${disk.folder} has 8 MB of free space, less than MIN_FREE_MEGABYTES (9)`,
  });
  await disk.fill();
  t.match(await isReady(4), { code: 503, reason: /has 0 MB of free space/ });
  t.match(await isReady(0), { code: 503, reason: `DATA_DIR ${disk.folder} accepts no writes (ENOSPC)` });
  await disk.empty();
  t.match(await isReady(4), { code: 200 });
  t.same(await readdir(disk.folder), ['filler'], 'the checks leave no file');
  t.match(await isReady(0, join(disk.folder, 'gone')), {
    code: 503,
    reason: /^DATA_DIR .*gone is unavailable: ENOENT/,
  });
});

t.test('a jail that cannot be built any more', async (t) => {
  const { supervisor, directory } = await makeProcesses(t);
  await rm(directory, { recursive: true });
  const answer = await readiness(supervisor);
  t.match(answer, { code: 503, reason: 'no jail can be built now: no plugin process starts' });
  t.equal(answer.checks.database, null, 'the other checks are reported all the same');
});

t.test('a jail that a child has just proved is not tried out again', async (t) => {
  const { health, directory } = await makeProcesses(t);
  await rm(directory, { recursive: true });
  const proven = { name: 'supervisor', app: buildHealth({ ...health, isJailProven: true }) };
  t.equal((await readiness(proven)).checks.jail, null);
});
