/** The cost of a page does not grow with the rows that its filter leaves out, and following the cursors finds every row. */
import type { Pool } from 'pg';
import t from 'tap';
import { pageDeliveries } from '../../../db/channels/delivery-history.ts';
import { pageEvents } from '../../../db/installations/event-history.ts';
import { createIdAt } from '../../../db/postgres/ordered-id.ts';
import type { PageQuery } from '../../../db/postgres/rows.ts';
import { insertLogs, type LogLine, maintainLogs, pageLogs } from '../../../db/records/logs.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { createLogLine } from '../../fixtures/log-line.ts';
import { testDatabase } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';

const ROWS = amount({ quick: 12_000, soak: 20_000 });
/** The row that filters find. */
const FOUND = 7;
/** Twice what one page looks through: PostgreSQL may rather sort the last rows. And one row more of each partition of the log. */
const READ_MAX = 2 * 2_000 + 100;
const LIMIT = 100;

const { pool } = await testDatabase(t);
await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
await insertBareInstallation(pool, { accountId: 'a' });
await insertBareInstallation(pool, { accountId: 'a', pluginId: 'other', installationId: 'other' });
await pool.query(
  `INSERT INTO channels (id, installation_id, account_id, name, routing_id)
   VALUES ('busy', 'i', 'a', 'busy', 'r1'), ('rare', 'i', 'a', 'rare', 'r2')`,
);
await pool.query(
  `INSERT INTO events (id, installation_id, account_id, plugin_id, type, data, state, finished_at)
   SELECT 'e' || lpad(n::text, 6, '0'), 'i', 'a', 'p', 'sessionStarted', '{}'::jsonb,
          CASE n WHEN $2::int THEN 'dead' ELSE 'delivered' END, now() FROM generate_series(1, $1::int) n
   UNION ALL SELECT 'e' || lpad(n::text, 6, '0') || 'x', 'other', 'a', 'other', 'sessionStarted', '{}'::jsonb, 'dead', now() FROM generate_series(1, $1::int) n`,
  [ROWS, FOUND],
);
await pool.query(
  `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body, received_at,
     state, finished_at)
   SELECT 'd' || lpad(n::text, 6, '0'), CASE n WHEN $2::int THEN 'rare' ELSE 'busy' END, 'i', 'a', 'r', 'POST', '', '[]'::json, ''::bytea,
          now(), CASE n WHEN $2::int THEN 'dead' ELSE 'delivered' END, now() FROM generate_series(1, $1::int) n
   UNION ALL SELECT 'd' || lpad(n::text, 6, '0') || 'x', 'busy', 'other', 'a', 'r', 'POST', '', '[]'::json, ''::bytea, now(), 'dead', now()
     FROM generate_series(1, $1::int) n`,
  [ROWS, FOUND],
);
const HOUR_MS = 3_600_000;
const expiredAt = Date.now() - 24 * HOUR_MS - 1_000;
await maintainLogs(pool);
// Last: it creates the partitions of the expired lines, which the run above would drop.
await maintainLogs(pool, expiredAt);
const insertLines = (installationId: string, from: number, wanted: { n: number; more: Partial<LogLine> }) =>
  insertLogs(
    pool,
    Array.from({ length: ROWS }, (_, n) =>
      createLogLine({
        id: createIdAt(from + n),
        at: new Date(from).toISOString(),
        message: `m${n}`,
        installationId,
        ...(n === wanted.n ? wanted.more : {}),
      }),
    ),
  );
await insertLines('i', Date.now() - ROWS, { n: FOUND, more: { level: 'error', sessionId: 's' } });
await insertLines('expired', expiredAt - ROWS, { n: ROWS - 1, more: { at: new Date().toISOString() } });
await pool.query('VACUUM ANALYZE events, deliveries, plugin_logs');

interface ReadPages {
  readonly items: readonly Readonly<Record<string, unknown>>[];
  readonly mostRows: number;
}

/** Follows the cursors to the end, and counts the rows that the page with the most rows reads. */
async function readAll<Query extends PageQuery, Item>(
  page: (pool: Pool, query: Query) => Promise<{ items: Item[]; nextCursor: string | null }>,
  query: Query,
): Promise<ReadPages> {
  const explained = explainPool(pool);
  const items: Item[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const found = await page(explained.pool, { ...query, cursor });
    items.push(...found.items);
    cursor = found.nextCursor;
  }
  const rows = explained.costs.map(({ rowsRead }) => Object.values(rowsRead).reduce((sum, read) => sum + read, 0));
  return { items: items as ReadPages['items'], mostRows: Math.max(...rows) };
}

const of = { installationId: 'i', limit: LIMIT };
const lists = [
  ['log lines by level', () => readAll(pageLogs, { ...of, levels: ['error'] }), 'message', `m${FOUND}`],
  ['log lines by session', () => readAll(pageLogs, { ...of, sessionId: 's' }), 'message', `m${FOUND}`],
  ['deliveries by state', () => readAll(pageDeliveries, { ...of, state: 'dead' }), 'id', 'd000007'],
  ['deliveries by channel', () => readAll(pageDeliveries, { ...of, channelId: 'rare' }), 'id', 'd000007'],
  ['events by state', () => readAll(pageEvents, { ...of, state: 'dead' }), 'id', 'e000007'],
] as const;

for (const [name, read, column, value] of lists)
  t.test(`a page of ${name} reads a bounded number of rows`, async (t) => {
    const { items, mostRows } = await read();
    t.same(
      items.map((item) => item[column]),
      [value],
    );
    t.ok(mostRows <= READ_MAX, `one page reads ${mostRows} rows`);
  });

t.test('a filter that finds nothing ends', async (t) => {
  const { items, mostRows } = await readAll(pageEvents, { ...of, state: 'skipped' });
  t.same(items, []);
  t.ok(mostRows <= READ_MAX, `one page reads ${mostRows} rows`);
});

for (const limit of [LIMIT, 1_000])
  t.test(`pages of ${limit} without a filter have each row once`, async (t) => {
    const { items, mostRows } = await readAll(pageEvents, { ...of, limit });
    t.equal(items.length, ROWS);
    t.equal(new Set(items.map(({ id }) => id)).size, ROWS);
    t.ok(mostRows <= READ_MAX, `one page reads ${mostRows} rows`);
  });

t.test('expired lines that are not dropped yet end the list', async (t) => {
  const explained = explainPool(pool);
  const page = await pageLogs(explained.pool, { ...of, installationId: 'expired' });
  t.match(page, { items: [{ message: `m${ROWS - 1}` }], nextCursor: null });
  t.equal(page.items.length, 1);
  const rows = Object.values(explained.costs[0]?.rowsRead ?? {}).reduce((sum, read) => sum + read, 0);
  t.ok(rows <= READ_MAX, `${rows} rows are read`);
});
