/** `host.storage` behaves the same on every database, and in the kit for tests of plugins. */
import t from 'tap';
import { listStorageKeys, writeStorageValue } from '../../../db/installations/plugin-storage.ts';
import { ScriptedStorage } from '../../../pack/testing/scripted-storage.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { testDatabase } from '../../runner/harness.ts';

t.test('keys are listed by their bytes, also by a database that sorts by the rules of a language', async (t) => {
  const { pool } = await testDatabase(t);
  await pool.query(`INSERT INTO accounts (id, name) VALUES ('a', 'a')`);
  await insertBareInstallation(pool, { accountId: 'a' });
  await pool.query('ALTER TABLE installation_storage ALTER COLUMN key TYPE text COLLATE "en-x-icu"');
  const sorted = ['A', 'B-2', 'B1', 'a', 'b', 'ä', '！', '😀'];
  const kit = new ScriptedStorage();
  for (const key of sorted.toReversed()) {
    t.equal(await writeStorageValue(pool, 'i', { key, value: '1' }, 1_000), null);
    kit.set(key, 1);
  }
  const byLanguage = await pool.query('SELECT key FROM installation_storage ORDER BY key');
  t.notSame(
    byLanguage.rows.map(({ key }) => key),
    sorted,
  );
  t.same(await listStorageKeys(pool, 'i', ''), sorted);
  t.same(kit.list(''), sorted);
});
