/** Names of the blobs in use are listed in pages, each of which reads no more than its own rows. */
import t from 'tap';
import { listUsedBlobs } from '../../../db/catalog/versions.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { explainPool } from '../../fixtures/explained-pool.ts';
import { testDatabase } from '../../runner/harness.ts';

const VERSIONS = 4_000;
const PAGE = 500;
/** Versions with the same file: more than a page. */
const SHARING = 600;
/** The uses of a blob: as file, bundle, source map and media. */
const USES = 4;

t.test('a page reads its own rows of each use', async (t) => {
  const { pool } = await testDatabase(t);
  await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
  await insertBareInstallation(pool, { accountId: 'a' });
  await pool.query(
    `INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, source_map_sha256, size_bytes,
       manifest, readme, capabilities, added_capabilities, discovered, registrations)
     SELECT 'v' || n, 'p', n || '.0.0', 'published', '', 'bundle' || n, 'map' || n, 1, '{}', '', '{}', '{}', '{}', '{}'
       FROM generate_series(1, $1::int) n`,
    [VERSIONS],
  );
  await pool.query(
    `INSERT INTO version_files (version_id, path, sha256, size_bytes)
     SELECT 'v' || n, 'index.js', CASE WHEN n <= $2 THEN 'file' ELSE 'file' || n END, 1 FROM generate_series(1, $1::int) n`,
    [VERSIONS, SHARING],
  );
  await pool.query(
    `INSERT INTO media (id, account_id, sha256, media_type, size_bytes)
     SELECT n, 'a', 'media' || n, 'text/plain', 1 FROM generate_series(1, $1::int) n`,
    [VERSIONS],
  );
  await pool.query('VACUUM ANALYZE versions, version_files, media');

  const explained = explainPool(pool);
  const listed: string[] = [];
  for (let names: string[] | undefined; names === undefined || names.length > 0; listed.push(...names))
    names = await listUsedBlobs(explained.pool, listed.at(-1) ?? '', PAGE);
  t.equal(listed.length, USES * VERSIONS - (SHARING - 1), 'every name');
  t.equal(new Set(listed).size, listed.length, 'once');
  for (const { rowsRead } of explained.costs) {
    const read = Object.values(rowsRead).reduce((sum, rows) => sum + rows, 0);
    t.ok(read <= USES * PAGE + SHARING, JSON.stringify(rowsRead));
  }
});
