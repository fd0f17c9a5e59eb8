/** A catalog of any size, made in PostgreSQL itself: names and prose out of a few thousand words, the first words more common. */
import type { Pool } from 'pg';
import { migrate } from '../../db/migrate.ts';
import { openPool } from '../../db/pool.ts';
import { command, withDatabase } from '../../test/server.ts';

export interface CatalogScale {
  readonly plugins: number;
  readonly installations: number;
}

/** Installations of one account: fewer than the small catalog has plugins. */
const PER_ACCOUNT = 50;
const PLUGINS_PER_AUTHOR = 10;
/** One in so many stays private. */
const PRIVATE_EVERY = 20;
/** The account the questions are asked as: an author and a user like all others. */
export const ASKER = 'account-1';

/** Words that stand in many names and texts, as a catalog of agents' plugins has them; made-up rare ones follow. */
const WORDS =
  'agent message weather calendar report invoice sales email search notes task reminder meeting translate summary ' +
  'github slack deploy metrics chart image audio travel recipe budget tax stock news music ticket customer review ' +
  'contract legal health fitness sleep map route flight hotel garden home light door camera sensor battery solar';

/** Makes a database that holds it; one half filled before goes. */
export async function fillCatalog(server: string, name: string, scale: CatalogScale): Promise<void> {
  await command(server, `DROP DATABASE IF EXISTS ${name}`);
  await command(server, `CREATE DATABASE ${name}`);
  const url = withDatabase(server, name);
  await migrate(url);
  const database = openPool(url, { name: 'bench-filling', connections: 1, onError: () => undefined });
  try {
    await database.pool.query('SET statement_timeout = 0');
    // Kept row by row, the indexes of words would take most of the time.
    const indexes = await wordIndexes(database.pool);
    for (const { name } of indexes) await database.pool.query(`DROP INDEX ${name}`);
    for (const statement of statementsFor(scale)) await database.pool.query(statement);
    for (const { definition } of indexes) await database.pool.query(definition);
    await database.pool.query('VACUUM ANALYZE');
  } finally {
    await database.close();
  }
}

async function wordIndexes(pool: Pool): Promise<{ name: string; definition: string }[]> {
  const found = await pool.query<{ name: string; definition: string }>(
    `SELECT indexname AS name, indexdef AS definition FROM pg_indexes WHERE tablename = 'plugins' AND indexdef LIKE '% USING gin %'`,
  );
  return found.rows;
}

function statementsFor({ plugins, installations }: CatalogScale): string[] {
  const accounts = Math.max(Math.ceil(installations / PER_ACCOUNT), Math.ceil(plugins / PLUGINS_PER_AUTHOR));
  return [
    `CREATE TABLE bench_words AS SELECT row_number() OVER () AS n, word FROM (
       SELECT unnest(string_to_array('${WORDS}', ' ')) AS word
       UNION ALL SELECT translate(to_hex(i * 7919), '0123456789', 'ghijklmnop') FROM generate_series(1, 4000) i) w`,
    'CREATE UNIQUE INDEX ON bench_words (n)',
    // The product of two chances prefers the first words, as language does.
    `CREATE FUNCTION bench_text(words int, seed int) RETURNS text LANGUAGE sql VOLATILE AS $$
       SELECT string_agg(w.word, ' ') FROM (
         SELECT 1 + floor(4049 * power(random(), 4))::bigint AS n FROM generate_series(1, words + seed * 0)) k
         JOIN bench_words w USING (n) $$`,
    `INSERT INTO accounts (id, name) SELECT 'account-' || i, 'account-' || i FROM generate_series(1, ${accounts}) i`,
    // Readmes are put together out of paragraphs: as many different words, a tenth of the time.
    `CREATE TABLE bench_prose AS SELECT i AS n, bench_text(50, i) AS prose FROM generate_series(1, 2000) i`,
    'CREATE UNIQUE INDEX ON bench_prose (n)',
    `CREATE TABLE bench_plugins AS
       WITH chosen AS MATERIALIZED (
         SELECT i, 1 + floor(4049 * power(random(), 4))::bigint AS first, 1 + floor(4049 * power(random(), 4))::bigint AS second
           FROM generate_series(1, ${plugins}) i)
       SELECT i, 'plugin-' || lpad(i::text, 7, '0') AS id, 'version-' || i AS version, a.word || ' ' || b.word AS name,
         left(p.prose, 70) AS about, p.prose || ' ' || q.prose || ' ' || r.prose AS readme
       FROM chosen JOIN bench_words a ON a.n = first JOIN bench_words b ON b.n = second
         JOIN bench_prose p ON p.n = 1 + i % 2000 JOIN bench_prose q ON q.n = 1 + i * 7 % 1999
         JOIN bench_prose r ON r.n = 1 + i / 50 % 2000`,
    // Once a row, when its readme is there.
    'ALTER TABLE plugins DISABLE TRIGGER plugin_words',
    `INSERT INTO plugins (id, owner_id, slug, display_name, description, visibility)
       SELECT id, 'account-' || (1 + (i - 1) / ${PLUGINS_PER_AUTHOR}), 'p' || i || '-' || replace(name, ' ', '-'), initcap(name), about,
         CASE WHEN i % ${PRIVATE_EVERY} = 0 THEN 'private' ELSE 'listed' END FROM bench_plugins`,
    `INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, manifest, readme,
         capabilities, added_capabilities, discovered, registrations)
       SELECT version, id, '1.0.0', 'published', repeat('a', 64), repeat('b', 64), 1000,
         jsonb_build_object('name', name, 'description', about, 'capabilities', '[]'::jsonb, 'settings', '{}'::jsonb,
           'secrets', '{}'::jsonb), readme,
         '{middleware.systemPrompt}', '{middleware.systemPrompt}',
         '{"commands":[],"skills":[],"middleware":["systemPrompt"],"lifecycle":[],"tools":[],"providers":[],"channel":null}',
         '{"hooks":["middleware.systemPrompt"],"events":[],"tools":{},"commands":{},"providers":{},"channel":{"receive":false,"send":false,"handshake":false,"handshakeOn":null}}'
       FROM bench_plugins`,
    'ALTER TABLE plugins ENABLE TRIGGER plugin_words',
    'UPDATE plugins p SET latest_version_id = b.version FROM bench_plugins b WHERE b.id = p.id',
    'ALTER TABLE installations DISABLE TRIGGER installation_counted',
    // Each account has neighbours in the list, most accounts near its beginning: some are far more installed than others.
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, current_version_id, granted_capabilities,
         status, hook_order)
       SELECT 'installation-' || lpad(n::text, 8, '0'), 'account-' || account, 'plugin-' || lpad(plugin::text, 7, '0'),
         'Latest', 'version-' || plugin, '{middleware.systemPrompt}', 'ready', 1 + n / ${accounts}
       FROM (SELECT n, account, 1 + (floor(${plugins} * power(start, 3))::bigint + 2 * (n / ${accounts})) % ${plugins} AS plugin
             FROM generate_series(0, ${installations} - 1) n
             CROSS JOIN LATERAL (SELECT 1 + n % ${accounts} AS account) a
             CROSS JOIN LATERAL (SELECT abs(hashint4(account::int) % 10000) / 10000.0 AS start) s) spread`,
    'ALTER TABLE installations ENABLE TRIGGER installation_counted',
    `INSERT INTO install_counts (plugin_id, installs) SELECT plugin_id, count(*) FROM installations GROUP BY plugin_id`,
    `UPDATE plugins p SET install_rank = -floor(log(2, c.installs + 1)) FROM install_counts c WHERE c.plugin_id = p.id`,
    'DROP TABLE bench_plugins, bench_prose, bench_words',
  ];
}
