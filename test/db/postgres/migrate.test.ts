import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { migrate } from '../../../db/postgres/migrate.ts';
import { openPool } from '../../../db/postgres/pool.ts';
import { temporaryFolder, testDatabase } from '../../runner/harness.ts';

const { url } = await testDatabase(t);
const folder = await temporaryFolder(t);

/** A second schema history in the same database would clash with the real one: these tests have an empty database. */
const empty = new URL(url);
empty.pathname = `${empty.pathname}_empty`;
const admin = openPool(url, { name: 'admin', connections: 1, onError: () => undefined });
await admin.pool.query(`CREATE DATABASE ${empty.pathname.slice(1)}`);
t.teardown(async () => {
  await admin.pool.query(`DROP DATABASE ${empty.pathname.slice(1)} WITH (FORCE)`);
  await admin.close();
});

t.test('the real ones are all applied in the template', async (t) => {
  t.same(await migrate(url), []);
});

t.test('many processes starting at once apply each migration once', async (t) => {
  const directory = join(folder, 'first');
  await mkdir(directory);
  await writeFile(join(directory, '0001_one.sql'), '-- Up Migration\nCREATE TABLE one (n int);\nSELECT pg_sleep(0.3);');
  await writeFile(join(directory, '0002_two.sql'), '-- Up Migration\nINSERT INTO one VALUES (1);');
  const applied = await Promise.all(Array.from({ length: 6 }, () => migrate(empty.href, directory)));
  t.same(applied.flat(), ['0001_one', '0002_two']);
});

t.test('a failing migration rolls back all migrations of the call', async (t) => {
  const directory = join(folder, 'first');
  await writeFile(join(directory, '0003_three.sql'), '-- Up Migration\nCREATE TABLE three (n int);');
  await writeFile(join(directory, '0004_four.sql'), '-- Up Migration\nSELECT nonsense;');
  await t.rejects(migrate(empty.href, directory));
  await writeFile(join(directory, '0004_four.sql'), '-- Up Migration\nCREATE TABLE four (n int);');
  t.same(await migrate(empty.href, directory), ['0003_three', '0004_four']);
});
