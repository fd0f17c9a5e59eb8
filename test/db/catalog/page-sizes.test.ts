/** Plugins and versions with many capabilities end pages of the catalog early, and no page skips or repeats a plugin. */
import type { Pool } from 'pg';
import t from 'tap';
import { showSummary } from '../../../api/catalog/catalog-resource.ts';
import { countFittingVersions, pageCatalog } from '../../../db/catalog/catalog.ts';
import type { Plugin } from '../../../db/catalog/plugins.ts';
import { searchCatalog } from '../../../db/catalog/search.ts';
import { listPublishedVersions } from '../../../db/catalog/versions.ts';
import { pageInstallations } from '../../../db/installations/installations.ts';
import type { Page } from '../../../db/postgres/cursors.ts';
import type { PageQuery } from '../../../db/postgres/rows.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { testDatabase } from '../../runner/harness.ts';

/** Of each of four groups of plugins, which a search for `needle` finds in different tiers. */
const GROUP = 10;
const CAPABILITIES = Array.from({ length: 480 }, (_, n) => `tools.${String(n).padStart(3, '0')}${'t'.repeat(60)}`);
const PAGE_MAX_BYTES = 1.2 * MIB;
const LIMIT = 1_000;

const { pool } = await testDatabase(t);
await pool.query(`INSERT INTO accounts (id, name) VALUES ('ann', 'ann'), ('ben', 'ben')`);

interface Group {
  readonly slug: string;
  readonly name: string;
  readonly description: string;
  readonly readme: string;
  readonly visibility: 'listed' | 'private';
}
async function insertGroup({ slug, name, description, readme, visibility }: Group): Promise<void> {
  for (let n = 0; n < GROUP; n += 1) {
    const id = `${slug}-${n}`;
    await pool.query(
      `INSERT INTO plugins (id, owner_id, slug, display_name, description, visibility) VALUES ($1, 'ann', $1, $2, $3, $4)`,
      [id, name, description, visibility],
    );
    await insertVersion(id, id, readme);
    await pool.query('UPDATE plugins SET latest_version_id = $1 WHERE id = $1', [id]);
  }
}
async function insertVersion(id: string, pluginId: string, readme: string): Promise<void> {
  await pool.query(
    `INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, stored_bytes, manifest,
       readme, capabilities, added_capabilities, discovered, registrations)
     VALUES ($1, $2, $1, 'published', '', '', 0, 0, '{}', $3, $4, '{}', '{}', '{}')`,
    [id, pluginId, readme, CAPABILITIES],
  );
}
await insertGroup({ slug: 'a', name: 'hay', description: 'needle', readme: '', visibility: 'listed' });
await insertGroup({ slug: 'b', name: 'needle', description: '', readme: '', visibility: 'listed' });
await insertGroup({ slug: 'c', name: 'hay', description: '', readme: 'needle', visibility: 'private' });
await insertGroup({ slug: 'd', name: 'the needle', description: '', readme: '', visibility: 'private' });

const listSlugs = (...groups: string[]) =>
  groups.flatMap((group) => Array.from({ length: GROUP }, (_, n) => `${group}-${n}`));
const measure = ({ items }: Page<Plugin>) =>
  JSON.stringify(
    items.map((plugin) => {
      const latest = { id: plugin.id, semVer: '1.0.0', capabilities: CAPABILITIES, createdAt: plugin.createdAt };
      return showSummary({ plugin, latest, installationId: null, installCount: 0 });
    }),
  ).length;

/** Reads all pages. @returns the slugs of each, and the sizes of the answers */
async function readAll(read: (query: PageQuery) => Promise<Page<Plugin>>, limit: number) {
  const pages: string[][] = [];
  const sizes: number[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page: Page<Plugin> = await read({ limit, cursor });
    pages.push(page.items.map(({ slug }) => slug));
    sizes.push(measure(page));
    cursor = page.nextCursor;
  }
  return { pages, sizes };
}

for (const limit of [LIMIT, 3]) {
  t.test(`the list ends pages early, and has every plugin once: ${limit} at a time`, async (t) => {
    const { pages, sizes } = await readAll((query) => pageCatalog(pool, 'ann', query), limit);
    t.same(pages.flat(), listSlugs('a', 'b', 'c', 'd'));
    t.ok(pages.length > 4 && Math.max(...sizes) < PAGE_MAX_BYTES, sizes.join());
  });

  t.test(`a search ends pages early, and has every plugin once: ${limit} at a time`, async (t) => {
    const { pages, sizes } = await readAll((query) => searchCatalog(pool, 'ann', 'needle', query), limit);
    t.same(pages.flat(), listSlugs('b', 'd', 'a', 'c'), 'by tier and slug');
    t.ok(pages.length > 4 && Math.max(...sizes) < PAGE_MAX_BYTES, sizes.join());
  });
}

t.test('spelling suggestions have one page, as large as others', async (t) => {
  const page = await searchCatalog(pool, 'ann', 'needel', { limit: LIMIT });
  t.equal(page.nextCursor, null);
  t.ok(page.items.length > 1 && measure(page) < PAGE_MAX_BYTES, `${page.items.length}`);
});

t.test('ordinary plugins fill a page', async (t) => {
  await pool.query(
    `INSERT INTO plugins (id, owner_id, slug, display_name, description)
     SELECT 'plain-' || n, 'ben', 'plain-' || n, 'plain', $1 FROM generate_series(1, $2::int) n`,
    ['d'.repeat(300), LIMIT],
  );
  await pool.query(`UPDATE plugins SET visibility = 'private' WHERE owner_id = 'ann'`);
  t.equal((await pageCatalog(pool, 'ben', { limit: LIMIT })).items.length, LIMIT);
});

t.test('an entry has as many versions as fit into an answer', async (t) => {
  for (let n = 0; n < 20; n += 1) await insertVersion(`v-${String(n).padStart(2, '0')}`, 'a-0', '');
  const count = await countFittingVersions(pool, 'a-0', 100);
  t.ok(count > 4 && count < 12, `${count}`);
  t.equal((await listPublishedVersions(pool, 'a-0', count))[0]?.id, 'v-19', 'the newest');
  t.equal(await countFittingVersions(pool, 'a-0', 2), 2);
  t.equal(await countFittingVersions(pool, 'a-1', 100), 1);
  t.equal(await countFittingVersions(pool, 'plain-1', 100), 0);
});

t.test('lists of installations with many capabilities', async (t) => {
  const INSTALLATIONS = 40;
  for (let n = 0; n < INSTALLATIONS; n += 1) {
    const id = `installed-${String(n).padStart(2, '0')}`;
    await insertBareInstallation(pool, { accountId: 'ben', pluginId: id, installationId: id });
  }
  await pool.query('UPDATE installations SET granted_capabilities = $1', [CAPABILITIES]);
  const ids: string[] = [];
  const sizes: number[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await pageInstallations(pool, 'ben', { limit: LIMIT, cursor });
    ids.push(...page.items.map(({ id }) => id));
    sizes.push(page.items.length);
    cursor = page.nextCursor;
  }
  t.equal(ids.length, INSTALLATIONS);
  t.equal(new Set(ids).size, INSTALLATIONS);
  t.ok(sizes.length > 2, sizes.join());
});

t.test('a query that normalization makes longer is cut', async (t) => {
  const sent: unknown[] = [];
  const connect = async () => ({
    query: async (_: string, values: unknown[] = []) => {
      sent.push(...values.flat());
      return { rows: [] };
    },
    release: () => undefined,
  });
  await searchCatalog({ connect } as unknown as Pool, 'ann', '\u2167'.repeat(200), { limit: 1 });
  const longest = Math.max(...sent.map((value) => String(value).length));
  t.equal(longest, 200 + ':*'.length);
});
