/** Saving the states and sums of installations while some are removed. */
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { type OwnedRuntime, resetRuntimes, saveRuntimes } from '../../../db/installations/installation-runtimes.ts';
import { addCallSums, addUsageSums } from '../../../db/records/rollups.ts';
import { insertBareInstallation } from '../../fixtures/bare-installation.ts';
import { during } from '../../fixtures/lock-waits.ts';
import { claimAccount } from '../../fixtures/shard-owner.ts';
import { testDatabase } from '../../runner/harness.ts';

const CALLS = {
  kind: 'hook',
  name: 'systemPrompt',
  calls: 1,
  errors: 0,
  timeouts: 0,
  cancels: 0,
  durationMs: 1,
  buckets: [1],
};
const USE = {
  hostCalls: 1,
  denials: 0,
  logLines: 0,
  droppedLines: 0,
  restarts: 0,
  processorMs: 1,
  memoryMax: 1,
};

const runtimeOf = (installationId: string, epoch: number): OwnedRuntime => ({
  installationId,
  state: 'running',
  restarts: 0,
  lastExit: null,
  startedAt: null,
  rssBytes: null,
  inspected: false,
  epoch,
});

t.test('states are saved while others lock several installations or states', async (t) => {
  const { pool } = await testDatabase(t);
  const account = await findOrCreateAccount(pool, 'ann');
  const { epoch } = await claimAccount(pool, account.id);
  // In another order than that of their ids.
  for (const id of ['b', 'a']) {
    await insertBareInstallation(pool, { accountId: account.id, pluginId: id, installationId: id });
    await pool.query(`INSERT INTO installation_runtime (installation_id, state, restarts) VALUES ($1, 'running', 0)`, [
      id,
    ]);
  }
  const lock = 'SELECT 1 FROM installations ORDER BY id FOR UPDATE';
  const save = () =>
    saveRuntimes(
      pool,
      ['b', 'a'].map((id) => runtimeOf(id, epoch)),
    );
  await during(
    pool,
    (tx) => tx.query(`SELECT 1 FROM installations WHERE id = 'a' FOR UPDATE`),
    () => pool.query(lock),
    save,
  );
  await pool.query('UPDATE installation_runtime SET lease = NULL');
  await during(
    pool,
    (tx) => tx.query(`SELECT 1 FROM installation_runtime WHERE installation_id = 'a' FOR UPDATE`),
    save,
    () => resetRuntimes(pool),
  );
  const { rows } = await pool.query('SELECT state FROM installation_runtime');
  t.same(rows, [{ state: 'running' }, { state: 'running' }]);
});

t.test('states, calls and resource use of other installations do not wait for a removal', async (t) => {
  const { pool } = await testDatabase(t);
  const account = await findOrCreateAccount(pool, 'ann');
  for (const id of ['deleted', 'kept']) {
    await insertBareInstallation(pool, { accountId: account.id, pluginId: id, installationId: id });
  }
  const { epoch } = await claimAccount(pool, account.id);
  const runtimes = ['deleted', 'kept'].map((id) => runtimeOf(id, epoch));
  await pool.query(`UPDATE installations SET status = 'uninstalling' WHERE id = 'deleted'`);
  const minute = new Date(0).toISOString();
  const remover = await pool.connect();
  try {
    await remover.query('BEGIN');
    await remover.query(`DELETE FROM installations WHERE id = 'deleted'`);
    await saveRuntimes(pool, runtimes);
    await addCallSums(
      pool,
      runtimes.map(({ installationId }) => ({ ...CALLS, installationId, minute, lastAt: minute })),
    );
    await addUsageSums(
      pool,
      runtimes.map(({ installationId }) => ({ ...USE, installationId, minute })),
    );
    await remover.query('COMMIT');
  } finally {
    remover.release();
  }
  for (const table of ['call_minutes', 'usage_minutes'])
    t.same((await pool.query(`SELECT installation_id FROM ${table}`)).rows, [{ installation_id: 'kept' }], table);
  const { rows } = await pool.query('SELECT installation_id, state FROM installation_runtime');
  t.same(rows, [{ installation_id: 'kept', state: 'running' }]);
  const late = runtimes.map((runtime): OwnedRuntime => ({ ...runtime, state: 'failed', epoch: epoch - 1 }));
  await saveRuntimes(pool, late);
  t.same((await pool.query('SELECT state FROM installation_runtime')).rows, [{ state: 'running' }], 'no former owner');
});
