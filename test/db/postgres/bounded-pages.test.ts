/** Pages of large rows end early, so that reading one takes little memory and time. */
import type { Pool } from 'pg';
import t from 'tap';
import { pageEvents } from '../../../db/installations/event-history.ts';
import { pageInstallations } from '../../../db/installations/installations.ts';
import type { Page } from '../../../db/postgres/cursors.ts';
import { insertLogs, maintainLogs, pageLogs } from '../../../db/records/logs.ts';
import { pageTodos } from '../../../db/sessions/todos.ts';
import { KIB, MIB } from '../../../sdk/contract/limits.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { createLogLine } from '../../fixtures/log-line.ts';
import { soakTest } from '../../runner/soak.ts';
import { openStorageFixture } from '../../supervisor/supervisor-fixture.ts';

/** Rows of one test, together about twice what a page has. */
const ROWS = 200;
const TEXT = 'x'.repeat(45_000);
/** What a page has at most, and its last row. */
const LIST_MAX_BYTES = 4 * MIB + 50_000;
const PAGE_MAX_BYTES = MIB + 50_000;

const fixture = await openStorageFixture(t);
const { accountId, installationId } = await fixture.install({ code: 'middleware.systemPrompt = () => undefined;' });

/** Reads all pages. @returns their sizes and the number of rows */
async function readAll<Row>(read: (cursor: object) => Promise<Page<Row>>) {
  const sizes: number[] = [];
  let count = 0;
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await read(cursor === undefined ? {} : { cursor });
    sizes.push(JSON.stringify(page.items).length);
    count += page.items.length;
    cursor = page.nextCursor;
  }
  return { sizes, count };
}

t.test('lists of to-dos', async (t) => {
  await fixture.pool.query(
    `INSERT INTO todos (account_id, id, digest, title, notes, created_by)
     SELECT $1, n::text, '', 'Buy flour', $2, 'baker' FROM generate_series(1, $3) n`,
    [accountId, TEXT, ROWS],
  );
  const { sizes, count } = await readAll((cursor) => pageTodos(fixture.pool, { accountId, limit: 1_000, ...cursor }));
  t.equal(count, ROWS);
  t.ok(sizes.length > 1 && Math.max(...sizes) < LIST_MAX_BYTES, sizes.join());
});

t.test('lists that have a filter count what it wants', async (t) => {
  await maintainLogs(fixture.pool);
  const lines = Array.from({ length: ROWS }, (_, n) =>
    createLogLine({
      id: String(n).padStart(6, '0'),
      installationId,
      message: TEXT,
      level: n % 2 === 0 ? 'info' : 'error',
    }),
  );
  await insertLogs(fixture.pool, lines);
  const all = await readAll((cursor) => pageLogs(fixture.pool, { installationId, limit: 1_000, ...cursor }));
  t.equal(all.count, ROWS);
  t.ok(all.sizes.length > 1 && Math.max(...all.sizes) < PAGE_MAX_BYTES, all.sizes.join());
  const levels = ['error'] as const;
  const some = await readAll((cursor) => pageLogs(fixture.pool, { installationId, levels, limit: 1_000, ...cursor }));
  t.equal(some.count, ROWS / 2);
  t.ok(some.sizes.length < all.sizes.length, some.sizes.join());
});

t.test('lists of log lines whose data has many small values', async (t) => {
  const lines = Array.from({ length: 170 }, (_, n) =>
    createLogLine({
      id: `dense-${String(n).padStart(6, '0')}`,
      installationId: 'dense',
      message: 'x',
      data: `[${Array.from({ length: 8_000 }, () => 0).join()}]`,
    }),
  );
  await insertLogs(fixture.pool, lines);
  const query = { installationId: 'dense', limit: 1_000 };
  const { sizes, count } = await readAll((cursor) => pageLogs(fixture.pool, { ...query, ...cursor }));
  t.equal(count, lines.length);
  t.ok(sizes.length > 10 && Math.max(...sizes) < MIB / 4, sizes.join());
});

await soakTest(t, 'lists of ordinary log lines and events have as many as asked for', async (t) => {
  const text = (chars: number) => 'x'.repeat(chars - '{"key": ""}'.length);
  const data = JSON.stringify({ key: text(300) });
  const lines = Array.from({ length: 1_000 }, (_, n) =>
    createLogLine({ id: `plain-${n}`, installationId: 'plain', message: 'm'.repeat(100), data }),
  );
  await insertLogs(fixture.pool, lines);
  const query = { installationId: 'plain', limit: 1_000 };
  const logs = await pageLogs(fixture.pool, query);
  t.equal(logs.items.length, 1_000);
  t.equal(logs.nextCursor, null);
  await fixture.pool.query(
    `INSERT INTO events (id, installation_id, plugin_id, account_id, type, state, data)
     SELECT 'plain-' || n, $1, 'p', $2, 'pluginInstalled', 'delivered', $3 FROM generate_series(1, 1000) n`,
    [installationId, accountId, data],
  );
  t.equal((await pageEvents(fixture.pool, { installationId, limit: 1_000 })).items.length, 1_000);
});

await soakTest(
  t,
  'lists of installations with the longest frontmatter have as many as the default limit',
  async (t) => {
    await fixture.pool.query(`INSERT INTO accounts (id, name) VALUES ('long', 'long')`);
    const manifest = { capabilities: [], secrets: {}, settings: { tone: { default: 'x'.repeat(16 * KIB) } } };
    for (let n = 0; n < 100; n += 1) {
      const id = `long-${n}`;
      await insertBareInstallation(fixture.pool, { accountId: 'long', pluginId: id, installationId: id });
      await fixture.pool.query(
        `WITH version AS (
         INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, stored_bytes, manifest,
           readme, capabilities, added_capabilities, discovered, registrations)
         VALUES ($1, $1, '1.0.0', 'published', '', '', 0, 0, $2, '', '{}', '{}', '{}', '{}') RETURNING id)
       UPDATE installations SET current_version_id = version.id FROM version WHERE installations.id = $1`,
        [id, JSON.stringify(manifest)],
      );
    }
    const { items, nextCursor } = await pageInstallations(fixture.pool, 'long', { limit: 100 });
    t.equal(items.length, 100);
    t.equal(nextCursor, null);
  },
);

await soakTest(t, 'lists of installations with many channels', async (t) => {
  const CHANNELS = 200;
  const INSTALLATIONS = 40;
  await fixture.pool.query(`INSERT INTO accounts (id, name) VALUES ('busy', 'busy')`);
  for (let n = 0; n < INSTALLATIONS; n += 1) {
    const id = `busy-${String(n).padStart(3, '0')}`;
    await insertBareInstallation(fixture.pool, { accountId: 'busy', pluginId: id, installationId: id });
    await fixture.pool.query(
      `INSERT INTO channels (id, installation_id, account_id, name, routing_id)
       SELECT $1 || n, $1, 'busy', $2, $1 || n FROM generate_series(1, $3) n`,
      [id, 'n'.repeat(100), CHANNELS],
    );
  }
  const ids = new Set<string>();
  const { sizes, count } = await readAll(async (cursor) => {
    const page = await pageInstallations(fixture.pool, 'busy', { limit: 1_000, ...cursor });
    for (const { id, channels } of page.items) if (channels.length === CHANNELS) ids.add(id);
    return page;
  });
  t.equal(count, INSTALLATIONS);
  t.equal(ids.size, INSTALLATIONS);
  t.ok(sizes.length > 1 && Math.max(...sizes) < 2 * MIB, sizes.join());
});

t.test('a page of installations that are uninstalled while it is read leads to the next page', async (t) => {
  await fixture.pool.query(`INSERT INTO accounts (id, name) VALUES ('leaving', 'leaving')`);
  for (const installationId of ['leaving-1', 'leaving-2'])
    await insertBareInstallation(fixture.pool, { accountId: 'leaving', pluginId: installationId, installationId });
  const query = async (text: string, values: unknown[]) => {
    const found = await fixture.pool.query(text, values);
    await fixture.pool.query(`UPDATE installations SET status = 'uninstalling' WHERE id = 'leaving-1'`);
    return found;
  };
  const { items, nextCursor } = await pageInstallations({ query } as unknown as Pool, 'leaving', { limit: 1 });
  t.same(items, []);
  const next = await pageInstallations(fixture.pool, 'leaving', { limit: 1, cursor: nextCursor ?? '' });
  t.match(next, { items: [{ id: 'leaving-2' }], nextCursor: null });
});
