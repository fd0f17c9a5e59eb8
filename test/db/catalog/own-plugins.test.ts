/** The cost of a catalog search is bounded, also for an account with more plugins than it may create. */
import type { Pool } from 'pg';
import t from 'tap';
import { searchCatalog } from '../../../db/catalog/search.ts';
import { openPool } from '../../../db/postgres/pool.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';

const PLUGINS = 20_000;
/** Of its own plugins in each of four tiers, which a search repeats with spelling suggestions. */
const READ_MAX = 2 * 4 * 2_000 + 100;

const { pool, url } = await testDatabase(t);
await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
await pool.query(
  `INSERT INTO plugins (id, owner_id, slug, display_name)
   SELECT 'p' || n, 'a', 'plugin-' || lpad(n::text, 6, '0'), CASE n WHEN 7 THEN 'needle' ELSE 'hay' END
     FROM generate_series(1, $1::int) n`,
  [PLUGINS],
);
await pool.query('VACUUM ANALYZE plugins');
// As in the transaction of a search, whose statements are explained one by one here.
await pool.query(
  `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET enable_seqscan = off', current_database()); END $$`,
);
const search = openPool(url, { name: 'search', connections: 2, onError: () => undefined });
t.teardown(() => search.close());

for (const [text, count] of [
  ['needle', 1],
  ['hay', 100],
  ['unknown', 0],
] as const)
  t.test(`a search that finds ${count} reads a bounded number of plugins`, async (t) => {
    const explained = explainPool(search.pool);
    const query = (sql: string, values: unknown[]) =>
      /^(BEGIN|COMMIT)$/.test(sql) ? Promise.resolve({ rows: [] }) : explained.pool.query(sql, values);
    const connect = async () => ({ query, release: () => undefined });
    const found = await searchCatalog({ connect } as unknown as Pool, 'a', text, { limit: 100 });
    t.equal(found.items.length, count);
    const rows = explained.costs.reduce((sum, { rowsRead }) => sum + (rowsRead.plugins ?? 0), 0);
    t.ok(rows <= READ_MAX, `${rows} plugins are read`);
  });
