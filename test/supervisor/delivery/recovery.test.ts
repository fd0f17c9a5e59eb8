/** The comparison of rows and queues that a supervisor makes every few seconds, and when notifications may have been lost. */
import t from 'tap';
import { subscribeToInstallations } from '../../../db/postgres/notifications.ts';
import { countWaiting } from '../../../db/postgres/pool.ts';
import { endListeners } from '../../fixtures/listeners.ts';
import { eventually } from '../../runner/eventually.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const LOSSES = 3;

t.test('comparisons of rows and queues do not overlap, and one follows for what came meanwhile', async (t) => {
  const { pool, supervisor } = await startSupervisorFixture(t);
  let reconnects = 0;
  await subscribeToInstallations(
    supervisor.listener,
    () => undefined,
    () => {
      reconnects += 1;
    },
  );
  const listWaiting = async () => {
    const { rows } = await pool.query<{ pid: number; begun: string }>(
      `SELECT pid, query_start::text AS begun FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%UPDATE installation_runtime SET%'`,
    );
    return rows;
  };
  const locker = await pool.connect();
  t.teardown(() => locker.release(true));
  const lock = () => locker.query('BEGIN; LOCK TABLE installation_runtime IN SHARE MODE');
  await lock();
  for (let loss = 1; loss <= LOSSES; loss += 1) {
    const before = reconnects;
    await endListeners(pool);
    // A busy machine may lose the connection once more.
    await eventually(async () => reconnects > before);
    await eventually(async () => (await listWaiting()).length > 0);
  }
  // All that the pool does waits for the lock, besides the connection that has it: so would a second comparison, which has begun by now.
  const [first, ...others] = await eventually(async () => {
    const waiting = await listWaiting();
    const busy = pool.totalCount - pool.idleCount + countWaiting(pool);
    return busy === waiting.length + 1 && waiting;
  });
  t.same(others, [], 'one comparison waits for the lock');
  const second = await pool.connect();
  t.teardown(() => second.release(true));
  // Waits behind the first comparison and before the next.
  const locked = second.query('BEGIN; LOCK TABLE installation_runtime IN SHARE MODE');
  await eventually(async () => {
    const { rows } = await pool.query(
      `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'BEGIN; LOCK TABLE%'`,
    );
    return rows.length === 1;
  });
  await locker.query('COMMIT');
  await locked;
  await eventually(async () => (await listWaiting()).some(({ begun }) => begun !== first?.begun));
  await second.query('COMMIT');
});

t.test('a comparison queues the introspection again whose job was fetched by a worker that is gone', async (t) => {
  const { pool } = await startSupervisorFixture(t);
  await pool.query(`INSERT INTO introspections (id, bundle_sha256, source_name) VALUES ('lost', $1, 'x')`, [
    '0'.repeat(64),
  ]);
  await pool.query(
    `INSERT INTO pgboss.job (name, data, state, started_on, heartbeat_on)
     VALUES ('introspect', '{"introspectionId":"lost","accountId":"a","hasFetch":false}', 'active',
       now() - interval '1 minute', now() - interval '1 minute')`,
  );
  await endListeners(pool);
  const answer = await eventually(async () => {
    const { rows } = await pool.query(`SELECT result FROM introspections WHERE id = 'lost'`);
    return rows[0].result;
  });
  t.match(answer, { ok: false }, 'the bundle does not exist');
});
