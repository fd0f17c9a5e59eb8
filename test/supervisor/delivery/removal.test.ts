/** An uninstall calls the plugin's `pluginUninstalled`, then removes everything, wherever `kill -9` interrupts it. */
import type { ClientBase } from 'pg';
import t, { type Test } from 'tap';
import { beginUninstall } from '../../../api/installations/installation-lifecycle.ts';
import { deletePlugin } from '../../../db/catalog/plugins.ts';
import { lockInstallation } from '../../../db/installations/installations.ts';
import { startQueues } from '../../../db/jobs/queues.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { maintainLogs } from '../../../db/records/logs.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { storeKey } from '../held-handlers.ts';
import { type Installed, openStorageFixture } from '../supervisor-fixture.ts';
import { type SupervisorProcess, startProcess } from '../supervisor-process.ts';

const storage = await openStorageFixture(t);
await maintainLogs(storage.pool);

/** Records that its handler has begun. With the setting `waits`, the first attempt ends only after `releaseHandler`. */
const LEAVING = `
events.pluginUninstalled = async (event) => {
  await host.storage.set('heard', event.attempt);
  host.log('bye ' + event.id);
  const waits = event.attempt === 1 && host.settings.waits === 'yes';
  while (waits && (await host.storage.get('let go')) === null) await new Promise((resolve) => setTimeout(resolve, 50));
};
`;

async function installAndUninstall(waits: 'yes' | 'no'): Promise<Installed> {
  const made = await storage.install({
    code: LEAVING,
    capabilities: ['host.storage'],
    secrets: { key: 'x' },
    settings: { waits },
  });
  await storeKey(storage.pool, made, 'old');
  const queues = await startQueues({ pool: storage.pool, role: 'producer', onError: () => undefined });
  await inTransaction(storage.pool, async (tx) => {
    const installation = await lockInstallation(tx, made.accountId, made.installationId);
    if (installation) await beginUninstall(tx, queues, installation, 'user');
  });
  await queues.stop();
  return made;
}

const releaseHandler = (of: Installed) => storeKey(storage.pool, of, 'let go');

const findUninstallEvent = async ({ installationId }: Installed) =>
  (await storage.pool.query('SELECT * FROM events WHERE installation_id = $1', [installationId])).rows[0];
const hasHandlerBegun = async ({ installationId }: Installed) =>
  (
    await storage.pool.query(`SELECT 1 FROM installation_storage WHERE installation_id = $1 AND key = 'heard'`, [
      installationId,
    ])
  ).rows.length > 0;
/** Whether some statement of another connection waits for a row of ours. */
const isWaiting = async (statement: string) =>
  (
    await storage.pool.query(
      `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ILIKE $1`,
      [`%${statement}%`],
    )
  ).rows.length > 0;

/** Keeps rows locked while `work` runs, so that the supervisor waits at that statement. */
async function withLockedRows(of: Installed, lock: string, work: (holder: ClientBase) => Promise<void>): Promise<void> {
  const holder = await storage.pool.connect();
  try {
    await holder.query('BEGIN');
    await holder.query(lock, [of.installationId]);
    await work(holder);
  } finally {
    await holder.query('ROLLBACK');
    holder.release();
  }
}

/** Waits until the installation is removed, and checks what is left. */
async function expectRemoved(t: Test, of: Installed, attempts: number): Promise<void> {
  const { pool } = storage;
  const rows = async (table: string, column = 'installation_id') =>
    (await pool.query(`SELECT * FROM ${table} WHERE ${column} = $1`, [of.installationId])).rows;
  await eventually(async () => (await rows('installations', 'id')).length === 0);
  for (const table of ['installation_secrets', 'installation_storage', 'installation_runtime']) {
    t.same(await rows(table), [], table);
  }
  t.match(await findUninstallEvent(of), { type: 'pluginUninstalled', state: 'delivered', attempts });
  // Log and audit are written in batches, a moment later, and stay until they expire.
  const lines = await eventually(async () => {
    const found = (await rows('plugin_logs')).filter(({ message }) => message.startsWith('bye '));
    return found.length > 0 && found;
  });
  const { id } = await findUninstallEvent(of);
  t.same(new Set(lines.map(({ message }) => message)), new Set([`bye ${id}`]), 'its log stays until it expires');
  await eventually(() => hasRows('audit', of));
}

/** Whether an installation has records. */
const hasRows = async (table: 'audit' | 'plugin_logs', { installationId }: Installed) =>
  (await storage.pool.query(`SELECT 1 FROM ${table} WHERE installation_id = $1`, [installationId])).rows.length > 0;

/** Waits until its log and audit are written: a kill loses the last batch. */
async function waitForRecords(of: Installed): Promise<void> {
  await eventually(() => hasRows('audit', of));
  await eventually(() => hasRows('plugin_logs', of));
}

// The supervisor that the previous test has started.
let running: SupervisorProcess;

/** Starts a supervisor that ends with the file. */
async function startSupervisor(): Promise<void> {
  running = await startProcess(t, storage);
}

t.test('killed before anything was done, beside an account whose rows cannot be swept', async (t) => {
  const { pool } = storage;
  await pool.query(
    `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, method, query, headers, body, received_at)
     VALUES ('stuck', 'disconnected', 'i', 'a', 'r', 'POST', '', '[]', '', now())`,
  );
  await pool.query(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''too many''; END'`);
  await pool.query(
    `CREATE TRIGGER fails BEFORE UPDATE ON deliveries FOR EACH ROW WHEN (OLD.id = 'stuck') EXECUTE FUNCTION fail()`,
  );
  const of = await installAndUninstall('no');
  // Without its job, too, the row alone says that the removal has begun.
  await pool.query('DELETE FROM pgboss.job');
  await startSupervisor();
  await expectRemoved(t, of, 1);
  await pool.query('DROP TRIGGER fails ON deliveries');
});

// crash.test.ts kills a supervisor there in every run.
soakTest(
  t,
  'killed while the plugin handles pluginUninstalled, and right after the removal of another one',
  async (t) => {
    const of = await installAndUninstall('yes');
    await eventually(() => hasHandlerBegun(of));
    const removed = await installAndUninstall('no');
    await eventually(() => hasRows('audit', removed));
    await expectRemoved(t, removed, 1);
    await running.kill();
    t.match(await findUninstallEvent(of), { state: 'pending', attempts: 1 });
    await startSupervisor();
    t.equal((await fetch(`${running.opsUrl}/readyz`)).status, 200, 'the next one starts as usual');
    await expectRemoved(t, of, 2);
    await expectRemoved(t, removed, 1);
  },
);

soakTest(t, 'killed after pluginUninstalled, before it is recorded', async (t) => {
  const of = await installAndUninstall('yes');
  await eventually(() => hasHandlerBegun(of));
  await withLockedRows(of, 'SELECT 1 FROM events WHERE installation_id = $1 FOR UPDATE', async () => {
    await releaseHandler(of);
    await eventually(() => isWaiting('UPDATE events SET state'));
    await waitForRecords(of);
    await running.kill();
  });
  await startSupervisor();
  await eventually(async () => (await findUninstallEvent(of)).state === 'delivered');
  const { attempts } = await findUninstallEvent(of);
  t.ok(attempts <= 2, 'recorded after all, or attempted again');
  await expectRemoved(t, of, attempts);
});

soakTest(t, 'killed after pluginUninstalled is recorded, before the removal', async (t) => {
  const of = await installAndUninstall('yes');
  await eventually(() => hasHandlerBegun(of));
  await withLockedRows(of, 'SELECT 1 FROM installations WHERE id = $1 FOR KEY SHARE', async () => {
    await releaseHandler(of);
    await eventually(() => isWaiting('%FROM installations%FOR UPDATE%'));
    await waitForRecords(of);
    await running.kill();
  });
  const left = await storage.pool.query('SELECT status FROM installations');
  t.same(left.rows, [{ status: 'uninstalling' }], 'the transaction of the killed process was rolled back');
  await startSupervisor();
  await expectRemoved(t, of, 1);
});

t.test('the row of a deleted plugin is removed with its last installation', async (t) => {
  const of = await installAndUninstall('yes');
  await inTransaction(storage.pool, (tx) => deletePlugin(tx, of.pluginId));
  await releaseHandler(of);
  await expectRemoved(t, of, 1);
  const rows = async () =>
    (
      await storage.pool.query(
        'SELECT id FROM plugins WHERE id = $1 UNION ALL SELECT id FROM versions WHERE plugin_id = $1',
        [of.pluginId],
      )
    ).rows;
  t.same(await rows(), [], 'and its versions with it');
});
