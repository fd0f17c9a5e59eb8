/** The metrics of an installation take one connection, and read a bounded number of the sums that it has stored. */
import type { Pool } from 'pg';
import t from 'tap';
import { readInstallationMetrics } from '../../../api/installations/installation-metrics.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';

const SUMS_MAX = 300_000;
const HANDLERS = 200;
const MINUTES = 1_600;
const MINUTE_MS = 60_000;

const { pool } = await testDatabase(t);
await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
await insertBareInstallation(pool, { accountId: 'a' });
const to = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
await pool.query(
  `INSERT INTO call_minutes
   SELECT 'i', to_timestamp($1::float8) - make_interval(mins => m), 'tools', 'tool' || h, 1, 0, 0, 0, 1, '{1}', now()
     FROM generate_series(1, $2::int) m, generate_series(1, $3::int) h`,
  [to / 1000, MINUTES, HANDLERS],
);
await pool.query('VACUUM ANALYZE call_minutes');

/** Reads the newest stored minutes, by default all, in one point a minute. */
const readMinutes = (from: Pool, minutes = MINUTES) =>
  readInstallationMetrics(from, 'i', { from: to - minutes * MINUTE_MS, to, stepMs: MINUTE_MS });

t.test('a request sums the newest of what is stored', async (t) => {
  const explained = explainPool(pool);
  const { points, handlers } = await readMinutes(explained.pool);
  t.equal(
    points.reduce((sum, { calls }) => sum + calls, 0),
    SUMS_MAX,
  );
  t.match(points.at(-1), { calls: HANDLERS });
  t.match(points[0], { calls: 0 });
  t.equal(handlers.length, HANDLERS);
  t.match(handlers[0], { calls: SUMS_MAX / HANDLERS, p50Ms: Number, lastAt: String });
  // The calls, and their durations.
  for (const { rowsRead } of explained.costs)
    t.ok((rowsRead.call_minutes ?? 0) <= 2 * SUMS_MAX, JSON.stringify(rowsRead));
});

t.test('a request reads with one connection', async (t) => {
  let active = 0;
  let mostActive = 0;
  const query = async (text: string, values: unknown[]) => {
    active += 1;
    mostActive = Math.max(mostActive, active);
    return pool.query(text, values).finally(() => {
      active -= 1;
    });
  };
  await readMinutes({ query } as unknown as Pool, 10);
  t.equal(mostActive, 1);
});
