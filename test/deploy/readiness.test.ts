/** `/readyz` of both processes: each reason why one cannot serve, brought about for real. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import t from 'tap';
import { startQueues } from '../../db/jobs/queues.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { buildOperations } from '../../service/lifecycle/operations.ts';
import { openSandbox } from '../../supervisor/jail/sandbox.ts';
import { buildHealth } from '../../supervisor/records/operations.ts';
import { childProgram } from '../runner/child-program.ts';
import { type Teardown, temporaryFolder, testDatabase } from '../runner/harness.ts';

const metrics = { registry: new Registry() };

interface Process {
  readonly name: string;
  readonly app: FastifyInstance;
}
async function readiness({ app }: Process) {
  const answer = await app.inject('/readyz');
  return { code: answer.statusCode, ...answer.json<{ reason?: string; checks: Record<string, string | null> }>() };
}

async function makeJail(t: Teardown) {
  const directory = join(await temporaryFolder(t), 'sandbox');
  return { directory, sandbox: await openSandbox({ mode: 'auto', directory, program: await childProgram() }) };
}

async function makeProcesses(t: Teardown) {
  const { pool } = await testDatabase(t);
  const queues = await startQueues({ pool, role: 'producer', onError: () => undefined });
  t.teardown(() => queues.stop());
  const { directory, sandbox } = await makeJail(t);
  const state = { stopping: false, listening: true };
  const isStopping = () => state.stopping;
  const listener = { isConnected: () => state.listening };
  const api = { name: 'API', app: buildOperations({ pool, metrics, isStopping }) };
  const supervisor = { name: 'supervisor', app: buildHealth({ pool, metrics, listener, sandbox, isStopping }) };
  return { pool, directory, sandbox, state, api, supervisor, both: [api, supervisor] };
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

t.test('a missing queue is not ready', async (t) => {
  const { both, pool } = await makeProcesses(t);
  await pool.query('ALTER TABLE pgboss.queue RENAME TO gone');
  for (const process of both) t.match(await readiness(process), { code: 503, reason: 'the queue is unavailable' });
  await pool.query('ALTER TABLE pgboss.gone RENAME TO queue');
});

t.test('an unavailable database is not ready', async (t) => {
  // Nobody listens there.
  const lost = openPool('postgres://user@127.0.0.1:1/database', { name: 'test', onError: () => undefined });
  t.teardown(() => lost.close());
  const app = buildOperations({ pool: lost.pool, metrics, isStopping: () => false });
  t.match(await readiness({ name: 'API', app }), { code: 503, reason: 'the database is unavailable' });
});

t.test('a jail that cannot be built any more', async (t) => {
  const { supervisor, directory } = await makeProcesses(t);
  await rm(directory, { recursive: true });
  const answer = await readiness(supervisor);
  t.match(answer, { code: 503, reason: 'no jail can be built now: no plugin process starts' });
  t.equal(answer.checks.database, null, 'the other checks are told all the same');
});
