/** The costs of plugins are summed from one reading of the stored minutes; a search reads those of the plugins it finds. */
import t from 'tap';
import { createEmptyHistogram } from '../../../db/records/duration-histogram.ts';
import { listPluginCosts } from '../../../db/records/operator-overview.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';

const PLUGINS = 100;
const MINUTES = 300;
const HOURS = 24;
const ROWS_MAX = 200;

const { pool } = await testDatabase(t);
await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'ann')`);
for (let n = 1; n <= PLUGINS; n += 1)
  await insertBareInstallation(pool, { accountId: 'a', pluginId: `plugin-${n}.`, installationId: `i${n}` });
await pool.query(
  `INSERT INTO call_minutes
   SELECT i.id, now() - make_interval(mins => m), 'tools', 'tool', 1, 0, 0, 0, 1, $2, now()
     FROM installations i, generate_series(1, $1::int) m`,
  [MINUTES, createEmptyHistogram().with(1, 1)],
);
await pool.query(`INSERT INTO usage_minutes SELECT installation_id, minute, 0, 0, 0, 0, 1, 2, 0 FROM call_minutes`);
await pool.query('VACUUM ANALYZE call_minutes, usage_minutes, plugins, installations');

for (const { search, found } of [
  { search: null, found: PLUGINS },
  { search: 'PLUGIN-7.', found: 1 },
  { search: 'Ann', found: PLUGINS },
  { search: 'none', found: 0 },
])
  t.test(search === null ? 'the costs of all plugins' : `the costs of plugins found by ${search}`, async (t) => {
    const explained = explainPool(pool);
    const costs = await listPluginCosts(explained.pool, HOURS, search, ROWS_MAX);
    t.equal(costs.length, found);
    for (const cost of costs)
      t.match(cost, {
        calls: MINUTES,
        failures: 0,
        p50Ms: 1.5,
        p95Ms: 1.95,
        restarts: MINUTES,
        processorMs: 2 * MINUTES,
      });
    for (const { rowsRead, temporaryBytes } of explained.costs) {
      for (const table of ['call_minutes', 'usage_minutes'])
        t.ok((rowsRead[table] ?? 0) <= found * MINUTES, `${table}: ${JSON.stringify(rowsRead)}`);
      t.equal(temporaryBytes, 0);
    }
  });
