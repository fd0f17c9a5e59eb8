/** Saving the states of children while their installations are deleted. */
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { type Runtime, saveRuntimes } from '../../../db/installations/installation-runtimes.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { testDatabase } from '../../runner/harness.ts';
import { eventually } from '../../supervisor/supervisor-fixture.ts';

t.test('an installation deleted while its state is written does not lose the states of the others', async (t) => {
  const { pool } = await testDatabase(t);
  const account = await findOrCreateAccount(pool, 'ann');
  for (const id of ['deleted', 'kept']) {
    await insertBareInstallation(pool, { accountId: account.id, pluginId: id, installationId: id });
  }
  const runtimes = ['deleted', 'kept'].map(
    (installationId): Runtime => ({
      installationId,
      state: 'running',
      restarts: 0,
      lastExit: null,
      startedAt: null,
      rssBytes: null,
      inspected: false,
    }),
  );
  const remover = await pool.connect();
  try {
    await remover.query('BEGIN');
    await remover.query(`DELETE FROM installations WHERE id = 'deleted'`);
    const saving = saveRuntimes(pool, runtimes, 1);
    await eventually(async () => {
      const { rowCount } = await pool.query(
        `SELECT 1 FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'INSERT INTO installation_runtime%'`,
      );
      return rowCount === 1;
    });
    await remover.query('COMMIT');
    await saving;
  } finally {
    remover.release();
  }
  const { rows } = await pool.query('SELECT installation_id, state FROM installation_runtime');
  t.same(rows, [{ installation_id: 'kept', state: 'running' }]);
});
