/** A host call under way ends when its grant goes, though nothing else of the child does. */
import t, { type Test } from 'tap';
import { notifyInstallationChanged } from '../../../db/postgres/notifications.ts';
import { eventually } from '../../runner/eventually.ts';
import { type Installed, type SupervisorFixture, startSupervisorFixture, withOwnSlugs } from '../supervisor-fixture.ts';

const LISTING = `tools.run = { description: 'd', parameters: { type: 'object' }, handler: () =>
  host.storage.list().then(() => 'listed', (error) => error.code + ': ' + error.message) };`;

const shared = await startSupervisorFixture(t);

/** Whether the call's statement waits for the lock. The removal of what an earlier test uninstalled may wait for it as well. */
const isCallWaiting = async ({ pool }: SupervisorFixture): Promise<boolean> => {
  const { rows } = await pool.query(
    `SELECT 1 FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND starts_with(query, $1)`,
    ['SELECT key FROM installation_storage'],
  );
  return rows.length > 0;
};

interface Stuck extends Installed {
  readonly fixture: SupervisorFixture;
  /** The answer that the plugin received. */
  readonly result: Promise<string>;
}

/** A plugin of a new account whose call waits for a table that this test has locked. */
async function stuckCall(t: Test): Promise<Stuck> {
  const fixture = withOwnSlugs(shared.withNewAccount());
  const made = await fixture.install({ slug: 'stuck', capabilities: ['host.storage'], code: LISTING });
  const session = await fixture.session();
  const holder = await fixture.pool.connect();
  t.teardown(async () => {
    await holder.query('ROLLBACK');
    holder.release();
  });
  await holder.query('BEGIN');
  await holder.query('LOCK TABLE installation_storage IN ACCESS EXCLUSIVE MODE');
  const result = fixture
    .call('POST', `/sessions/${session}/tools/${made.slug}__run`, { arguments: {} })
    .then(({ body }) => body.content?.[0]?.text ?? JSON.stringify(body));
  await eventually(() => isCallWaiting(fixture));
  return { ...made, fixture, result };
}

async function change({ fixture, installationId }: Stuck, what: string): Promise<void> {
  await fixture.pool.query(`UPDATE installations SET ${what}, updated_at = clock_timestamp() WHERE id = $1`, [
    installationId,
  ]);
  await notifyInstallationChanged(fixture.pool, installationId);
}

async function checkRefusal(t: Test, { fixture, installationId, result }: Stuck): Promise<void> {
  t.equal(await result, 'denied: host.storage.list is not granted any more');
  await fixture.supervisor.audit.flush();
  const { rows } = await fixture.pool.query('SELECT member, outcome FROM audit WHERE installation_id = $1', [
    installationId,
  ]);
  t.same(rows, [{ member: 'storage.list', outcome: 'denied' }]);
}

const changes = {
  'a pause': `status = 'paused'`,
  'an uninstall': `status = 'uninstalling'`,
};

for (const [name, what] of Object.entries(changes))
  t.test(`${name} ends it`, async (t) => {
    const stuck = await stuckCall(t);
    await change(stuck, what);
    await checkRefusal(t, stuck);
  });

t.test('fewer grants end it, and a change that keeps the grant does not', async (t) => {
  const stuck = await stuckCall(t);
  await change(stuck, `granted_capabilities = '{host.llm,host.storage:read,tools.run}'`);
  await eventually(async () => {
    const [plugin] = (await stuck.fixture.supervisor.pluginsCache.get(stuck.accountId)).plugins;
    return plugin?.granted.includes('host.llm');
  });
  // No refusal is in the audit yet: the second change alone ends the call.
  await stuck.fixture.supervisor.audit.flush();
  t.same(
    (await stuck.fixture.pool.query('SELECT FROM audit WHERE installation_id = $1', [stuck.installationId])).rows,
    [],
  );
  await change(stuck, `granted_capabilities = '{host.llm,tools.run}'`);
  await checkRefusal(t, stuck);
});
