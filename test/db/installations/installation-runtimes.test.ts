/** Saving the states of children while their installations are deleted. */
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { type OwnedRuntime, saveRuntimes } from '../../../db/installations/installation-runtimes.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { claimAccount } from '../../fixtures/shard-owner.ts';
import { testDatabase } from '../../runner/harness.ts';
import { eventually } from '../../supervisor/supervisor-fixture.ts';

t.test('an installation deleted while its state is written does not lose the states of the others', async (t) => {
  const { pool } = await testDatabase(t);
  const account = await findOrCreateAccount(pool, 'ann');
  for (const id of ['deleted', 'kept']) {
    await insertBareInstallation(pool, { accountId: account.id, pluginId: id, installationId: id });
  }
  const { epoch } = await claimAccount(pool, account.id);
  const runtimes = ['deleted', 'kept'].map(
    (installationId): OwnedRuntime => ({
      installationId,
      state: 'running',
      restarts: 0,
      lastExit: null,
      startedAt: null,
      rssBytes: null,
      inspected: false,
      epoch,
    }),
  );
  const remover = await pool.connect();
  try {
    await remover.query('BEGIN');
    await remover.query(`DELETE FROM installations WHERE id = 'deleted'`);
    const saving = saveRuntimes(pool, runtimes);
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
  const late = runtimes.map((runtime): OwnedRuntime => ({ ...runtime, state: 'failed', epoch: epoch - 1 }));
  await saveRuntimes(pool, late);
  t.same((await pool.query('SELECT state FROM installation_runtime')).rows, [{ state: 'running' }], 'no former owner');
});
