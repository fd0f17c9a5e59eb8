/** The sweep of events that no job waits for: what it sends does not depend on how many events one account has. */
import type { Pool } from 'pg';
import t from 'tap';
import { releaseHeldEvents, requeueStrandedEvents } from '../../../db/installations/events.ts';
import { startQueues } from '../../../db/jobs/queues.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { type Teardown, testDatabase } from '../../runner/harness.ts';

/** More than one sweep sends. */
const MANY = 10_001;

async function setUp(test: Teardown) {
  const { pool } = await testDatabase(test);
  const queues = await startQueues({ pool, role: 'producer', onError: () => undefined });
  test.teardown(() => queues.stop());
  const sweep = (delivering: readonly string[] = []) =>
    requeueStrandedEvents(pool, queues, { shards: null, delivering: new Set(delivering) });
  return { pool, queues, sweep };
}

interface EventRow {
  /** Failed attempts. */
  readonly attempts?: number;
  /** Seconds until the next attempt, or `infinity`. */
  readonly wait?: string;
}
/** Inserts events of an installation in their order, as a kill leaves them behind: without jobs. */
async function strand(pool: Pool, installationId: string, rows: readonly EventRow[]): Promise<void> {
  await pool.query(
    `INSERT INTO events (id, installation_id, account_id, plugin_id, type, data, attempts, next_attempt_at, last_error)
     SELECT $1 || '-' || lpad(n::text, 5, '0'), $1, $1, 'p', 'sessionStarted', '{}', attempts,
            CASE wait WHEN 'infinity' THEN 'infinity' ELSE now() + wait::interval END,
            CASE WHEN attempts > 0 THEN 'it failed' END
       FROM unnest($2::int[], $3::text[]) WITH ORDINALITY AS e(attempts, wait, n)`,
    [installationId, rows.map(({ attempts = 0 }) => attempts), rows.map(({ wait = '0' }) => wait)],
  );
}

async function listJobs(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query(
    `SELECT data ->> 'eventId' AS id, group_id, group_tier FROM pgboss.job WHERE name = 'events' ORDER BY id`,
  );
  for (const { id, group_id, group_tier } of rows) {
    t.equal(group_id, id.split('-')[0]);
    t.equal(group_tier, id.split('-')[0]);
  }
  return rows.map(({ id }) => id);
}

t.test('events behind one that is held are not queued again, and delay no others', async (t) => {
  const { pool, sweep } = await setUp(t);
  await strand(pool, 'a', [{ wait: 'infinity' }, ...Array.from({ length: MANY }, () => ({}))]);
  await strand(pool, 'b', [{}]);
  await sweep();
  t.same(await listJobs(pool), ['b-00001']);
});

t.test('an installation gets one job for all its events, once', async (t) => {
  const { pool, sweep } = await setUp(t);
  for (const installationId of ['a', 'b', 'c']) await strand(pool, installationId, [{}, {}, {}]);
  t.equal(await sweep(['c']), 2);
  t.equal(await sweep(['c']), 0);
  t.same(await listJobs(pool), ['a-00001', 'b-00001']);
});

t.test('an event is stranded only when the claim would deliver it now', async (t) => {
  const { pool, queues, sweep } = await setUp(t);
  await strand(pool, 'retried', [{ attempts: 1, wait: '60' }, {}]);
  await strand(pool, 'passed', [{ attempts: 2, wait: '60' }, {}]);
  const group = { id: 'passed', accountId: 'passed' };
  const payload = { eventId: 'passed-00001', installationId: 'passed' };
  await queues.send(pool, 'events', payload, { delaySeconds: 60, group });
  await sweep();
  t.same(await listJobs(pool), ['passed-00001', 'passed-00002'], 'the job of a later attempt delivers too late');
});

t.test('held events of an installation that can run again get one job', async (t) => {
  const { pool, queues } = await setUp(t);
  await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
  await insertBareInstallation(pool, { accountId: 'a', installationId: 'a' });
  await strand(pool, 'a', [{ wait: 'infinity' }, { attempts: 2, wait: 'infinity' }, {}]);
  t.equal(await releaseHeldEvents(pool, queues, null), 2);
  t.equal((await listJobs(pool)).length, 1);
  const { rows } = await pool.query('SELECT 1 FROM events WHERE next_attempt_at <= now()');
  t.equal(rows.length, 3);
});
