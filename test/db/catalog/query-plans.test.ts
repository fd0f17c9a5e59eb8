/**
 * Every query of the catalog's readers uses an index: the real requests are sent to a database with enough rows, and each
 * statement they made is explained.
 */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import t from 'tap';
import { refillPluginWords, sweepCatalogWords } from '../../../db/catalog/catalog-words.ts';
import { findUsedBlobs } from '../../../db/catalog/versions.ts';
import type { Statement } from '../../../db/postgres/rows.ts';
import { startApiFixture } from '../../api/api-fixture.ts';
import { explainStatement } from '../../fixtures/explained-pool.ts';
import { amount } from '../../runner/soak.ts';

/** Tables that grow with the service. */
const BIG = ['plugins', 'catalog_words', 'versions', 'version_files', 'installations', 'install_counts', 'accounts'];
const PLUGINS = amount({ quick: 5_000, soak: 20_000 });
const INSTALLATIONS = 2 * PLUGINS;

/** On a busy machine, with the rows of a soak run. Milliseconds. */
const LOADING_MS = 300_000;

const api = await startApiFixture(t, { introspect: () => Promise.reject(new Error('nothing is published here')) });
const loading = await api.pool.connect();
await loading.query('SET statement_timeout = 0');
for (const statement of [
  `INSERT INTO accounts (id, name) SELECT 'account-' || i, 'account-' || i FROM generate_series(1, 4000) i`,
  // Loaded in bulk: once a row is enough.
  'ALTER TABLE plugins DISABLE TRIGGER plugin_words',
  'ALTER TABLE installations DISABLE TRIGGER installation_counted',
  `INSERT INTO plugins (id, owner_id, slug, display_name, description, visibility)
     SELECT 'plugin-' || i, 'account-' || (1 + i % 4000), 'p' || i || '-' || md5(i::text), 'Name ' || md5((i % 5000)::text),
       'Text ' || md5((i % 700)::text), CASE WHEN i % 50 = 0 THEN 'private' ELSE 'listed' END
     FROM generate_series(1, ${PLUGINS}) i`,
  `INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, manifest, readme,
       capabilities, added_capabilities, discovered, registrations)
     SELECT 'version-' || i, 'plugin-' || i, '1.0.0', 'published', repeat('a', 64), repeat(md5(i::text), 2), 1,
       '{"name":"n","description":"d","capabilities":[],"settings":{},"secrets":{}}', 'Readme ' || md5((i % 300)::text),
       '{}', '{}', '{"commands":[],"skills":[],"middleware":[],"lifecycle":[],"tools":[],"providers":[],"channel":null}', '{}'
     FROM generate_series(1, ${PLUGINS}) i`,
  'ALTER TABLE plugins ENABLE TRIGGER plugin_words',
  `UPDATE plugins SET latest_version_id = replace(id, 'plugin', 'version')`,
  `INSERT INTO installations (id, account_id, plugin_id, version_policy, current_version_id, granted_capabilities,
       status, hook_order)
     SELECT 'installation-' || i, 'account-' || (1 + i % 4000), 'plugin-' || (1 + (i * 7 + i / 4000) % ${PLUGINS}), 'Latest',
       'version-' || (1 + (i * 7 + i / 4000) % ${PLUGINS}), '{}', 'ready', i FROM generate_series(1, ${INSTALLATIONS}) i`,
  `INSERT INTO install_counts SELECT plugin_id, count(*) FROM installations GROUP BY plugin_id`,
  `INSERT INTO version_files (version_id, path, sha256, size_bytes)
     SELECT id, 'file-' || i, repeat(md5(id || i), 2), 1 FROM versions, generate_series(1, 4) i`,
  'VACUUM ANALYZE',
]) {
  const query = { text: statement, query_timeout: LOADING_MS };
  await loading.query(query);
}
loading.release(true);
const user = await api.user('account-7');
await user.get('/me');

/** The statements that requests make, from every connection. */
const statements: { readonly statement: Statement; readonly values: unknown[] }[] = [];
const query = pg.Client.prototype.query as (...args: unknown[]) => unknown;
pg.Client.prototype.query = function record(this: pg.Client, ...args: unknown[]) {
  const [statement, values] = args as [Statement, unknown];
  if (typeof statement === 'string' || statement.name !== undefined)
    statements.push({ statement, values: Array.isArray(values) ? values : [] });
  return query.apply(this, args);
} as typeof pg.Client.prototype.query;
t.teardown(() => {
  pg.Client.prototype.query = query as typeof pg.Client.prototype.query;
});

interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly Plans?: readonly Plan[];
}
const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];

/** The query plans of a GET: the tables that it reads whole, and the indexes that it uses. */
function explain(path: string): Promise<{ whole: string[]; indexes: string[] }> {
  return explainAll(async () => {
    const answer = await user.get(path);
    if (answer.status !== 200) throw new Error(`${path}: ${JSON.stringify(answer.body)}`);
  });
}

async function explainAll(work: () => Promise<unknown>): Promise<{ whole: string[]; indexes: string[] }> {
  statements.length = 0;
  await work();
  const nodes: Plan[] = [];
  const client = await api.pool.connect();
  for (const { statement, values } of [...statements]) {
    const text = typeof statement === 'string' ? statement : statement.text;
    // A search's transaction has settings of its own; everything else is planned as PostgreSQL likes.
    if (/^(BEGIN|COMMIT|SELECT set_config)/.test(text)) await client.query(text, values);
    if (!/^\s*(SELECT|WITH)\b.*\bFROM\b/is.test(text)) continue;
    nodes.push(...nodesOf(await explainStatement<Plan>(client, '', statement, values)));
  }
  client.release();
  if (nodes.length === 0) throw new Error('nothing was asked');
  const read = nodes.filter((node) => node['Node Type'] === 'Seq Scan').map((node) => node['Relation Name'] ?? '');
  return {
    whole: [...new Set(read.filter((table) => BIG.includes(table)))],
    indexes: [...new Set(nodes.flatMap((node) => node['Index Name'] ?? []))],
  };
}

const { rows } = await api.pool.query(
  `SELECT id, slug, display_name AS name FROM plugins WHERE visibility = 'listed' AND owner_id = 'account-7' LIMIT 1`,
);
const { id, slug, name } = rows[0];
const { nextCursor: cursor } = (await user.get('/marketplace?limit=1')).body;
const md5 = (name as string).split(' ')[1] ?? '';
const requests: [path: string, index: RegExp][] = [
  ['/marketplace', /catalog_slug/],
  [`/marketplace?cursor=${cursor}`, /catalog_slug/],
  [`/marketplace?q=${slug}`, /catalog_name|catalog_slug/],
  [`/marketplace?q=${md5}`, /catalog_title_words/],
  [`/marketplace?q=${md5.slice(0, 5)}&limit=20`, /catalog_title_words/],
  [`/marketplace?q=${encodeURIComponent('天気予報')}`, /catalog_title_words/],
  ['/marketplace?q=readme&limit=20', /catalog_rank/],
  ['/marketplace?q=text&limit=20', /catalog_rank/],
  [`/marketplace?q=x${md5.slice(0, 12)}x${md5.slice(13)}`, /catalog_words_trigrams/],
  [`/marketplace/${slug}`, /plugins_slug_key/],
  ['/installations', /installations_live/],
  ['/installations/installation-6', /installations_(pkey|live)/],
  [`/plugins/${id}`, /versions_plugin_id_semver_key/],
  ['/plugins', /plugins_owner/],
];
for (const [path, index] of requests)
  t.test(`GET ${path.replace(cursor, '{cursor}').replaceAll(slug, '{slug}').replace(id, '{id}')}`, async (t) => {
    const { whole, indexes } = await explain(path);
    t.same(whole, [], 'reads no big table whole');
    t.ok(
      indexes.some((used) => index.test(used)),
      `uses ${index}: ${indexes.join(', ')}`,
    );
  });

t.test('the sweep of blobs', async (t) => {
  const names = Array.from({ length: 100 }, () => randomBytes(32).toString('hex'));
  const { whole, indexes } = await explainAll(() => findUsedBlobs(api.pool, names));
  t.same(whole, [], 'reads no big table whole');
  for (const index of ['version_files_blob', 'versions_bundle', 'versions_source_map'])
    t.ok(indexes.includes(index), `uses ${index}: ${indexes.join(', ')}`);
});

t.test('the sweep of words', async (t) => {
  const { whole, indexes } = await explainAll(() => sweepCatalogWords(api.pool));
  t.same(whole, [], 'reads no big table whole');
  t.ok(indexes.includes('catalog_title_words'), indexes.join(', '));
});

t.test('the refill of words', async (t) => {
  const { whole } = await explainAll(() => refillPluginWords(api.pool));
  t.same(whole, [], 'reads no big table whole');
});
