/** The metrics of an installation take one connection, and read a bounded number of the sums that it has stored. */
import type { Pool } from 'pg';
import t from 'tap';
import { readInstallationMetrics } from '../../../api/installations/installation-metrics.ts';
import { createEmptyHistogram } from '../../../db/records/duration-histogram.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';

const SUMS_MAX = 3_000;
const HANDLERS = 20;
const MINUTES = 1_600;
const MINUTE_MS = 60_000;

const { pool } = await testDatabase(t);
await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
await insertBareInstallation(pool, { accountId: 'a' });
const to = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
await pool.query(
  `INSERT INTO call_minutes
   SELECT 'i', to_timestamp($1::float8) - make_interval(mins => m), 'tools', 'tool' || h, 1, 0, 0, 0, 1, $4, now()
     FROM generate_series(1, $2::int) m, generate_series(1, $3::int) h`,
  [to / 1000, MINUTES, HANDLERS, createEmptyHistogram().with(1, 1)],
);
await pool.query('VACUUM ANALYZE call_minutes');

/** Reads the newest stored minutes, by default all, in one point a minute. */
const readMinutes = (from: Pool, minutes = MINUTES) =>
  readInstallationMetrics(from, 'i', { from: to - minutes * MINUTE_MS, to, stepMs: MINUTE_MS, sumsMax: SUMS_MAX });

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
  for (const { rowsRead, temporaryBytes } of explained.costs) {
    t.ok((rowsRead.call_minutes ?? 0) <= SUMS_MAX, JSON.stringify(rowsRead));
    t.equal(temporaryBytes, 0);
  }
});

t.test('a step that divides no day has points, too', async (t) => {
  for (const minutes of [7, 13, 168, 2 * 24 * 60]) {
    const stepMs = minutes * MINUTE_MS;
    const from = (Math.floor(to / stepMs) - 1) * stepMs;
    const { points } = await readInstallationMetrics(pool, 'i', { from, to: from + 2 * stepMs, stepMs });
    t.ok(
      points.some(({ calls }) => calls > 0),
      `${minutes} min`,
    );
  }
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

t.test('sums with fewer buckets count', async (t) => {
  await insertBareInstallation(pool, { accountId: 'a', pluginId: 'q', installationId: 'j' });
  await pool.query(
    `INSERT INTO call_minutes
     SELECT 'j', to_timestamp($1::float8) - make_interval(mins => m), 'tools', name, 1, 0, 0, 0, 1, buckets::int[], now()
       FROM (VALUES (1, 'tool', $2), (2, 'tool', '{0,1}'), (3, 'none', '{}')) sums (m, name, buckets)`,
    [to / 1000, `{${createEmptyHistogram().with(1, 1)}}`],
  );
  const { points, handlers } = await readInstallationMetrics(pool, 'j', {
    from: to - 3 * MINUTE_MS,
    to,
    stepMs: MINUTE_MS,
  });
  const percentiles = { p50Ms: 1.5, p95Ms: 1.95 };
  t.match(points, [
    { calls: 1, p50Ms: null },
    { calls: 1, ...percentiles },
    { calls: 1, ...percentiles },
  ]);
  t.match(handlers, [
    { name: 'none', calls: 1, p50Ms: null, p95Ms: null },
    { name: 'tool', calls: 2, ...percentiles },
  ]);
});
