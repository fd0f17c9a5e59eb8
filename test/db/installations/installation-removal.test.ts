/** The removal of an installation is made of small transactions, however many rows belong to it. */
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { removeInstallation } from '../../../db/installations/installation-removal.ts';
import type { Queues } from '../../../db/jobs/queues.ts';
import { listValues, SWEEP_BATCH } from '../../../db/postgres/rows.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { testDatabase } from '../../runner/harness.ts';

const queues = { send: async () => undefined, sendToGroups: async () => undefined } as unknown as Queues;

t.test('the sums of calls of an installation are deleted in batches', async (t) => {
  const { pool } = await testDatabase(t);
  const { id: accountId } = await findOrCreateAccount(pool, 'ann');
  for (const id of ['gone', 'kept'])
    await insertBareInstallation(pool, { accountId, pluginId: `p-${id}`, installationId: id });
  await pool.query(`
    INSERT INTO call_minutes SELECT id, now() - make_interval(mins => minute), 'tools', 'tool' || name, 1, 0, 0, 0, 1, '{1}', now()
      FROM installations, generate_series(1, 50) minute, generate_series(1, 100) name;
    INSERT INTO usage_minutes SELECT id, now() - make_interval(mins => minute), 1, 0, 0, 0, 0, 1, 1
      FROM installations, generate_series(1, 2500) minute;
    CREATE TABLE deleted_rows (transaction xid8, rows bigint);
    CREATE FUNCTION count_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN INSERT INTO deleted_rows SELECT pg_current_xact_id(), count(*) FROM removed; RETURN NULL; END $$;
    CREATE TRIGGER counted AFTER DELETE ON call_minutes REFERENCING OLD TABLE AS removed
      FOR EACH STATEMENT EXECUTE FUNCTION count_deleted();
    CREATE TRIGGER counted AFTER DELETE ON usage_minutes REFERENCING OLD TABLE AS removed
      FOR EACH STATEMENT EXECUTE FUNCTION count_deleted();
    UPDATE installations SET status = 'uninstalling' WHERE id = 'gone'`);
  await removeInstallation(pool, queues, 'gone');
  t.same(await listValues(pool, 'SELECT id FROM installations'), ['kept']);
  const rows = await listValues<number>(
    pool,
    'SELECT sum(rows)::int FROM deleted_rows GROUP BY transaction HAVING sum(rows) > 0 ORDER BY transaction',
  );
  t.same(rows, [SWEEP_BATCH, SWEEP_BATCH, 1_000, SWEEP_BATCH, 500]);
});
