/** A host call under way ends when its grant goes, though nothing else of the child does. */
import t, { type Test } from 'tap';
import { notifyInstallationChanged } from '../../../db/postgres/notifications.ts';
import { untilLockIsAwaited } from '../../fixtures/lock-waits.ts';
import { eventually } from '../../runner/eventually.ts';
import { type Installed, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const LISTING = `tools.run = { description: 'd', parameters: { type: 'object' }, handler: () =>
  host.storage.list().then(() => 'listed', (error) => error.code + ': ' + error.message) };`;

interface Stuck extends Installed {
  readonly fixture: SupervisorFixture;
  /** The answer that the plugin received. */
  readonly result: Promise<string>;
}

/** A plugin whose call waits for a table that this test has locked. */
async function stuckCall(t: Test): Promise<Stuck> {
  const fixture = await startSupervisorFixture(t);
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
    .call('POST', `/sessions/${session}/tools/stuck__run`, { arguments: {} })
    .then(({ body }) => body.content?.[0]?.text ?? JSON.stringify(body));
  await untilLockIsAwaited(fixture.pool);
  return { ...made, fixture, result };
}

async function change({ fixture, installationId }: Stuck, what: string): Promise<void> {
  await fixture.pool.query(`UPDATE installations SET ${what}, updated_at = clock_timestamp() WHERE id = $1`, [
    installationId,
  ]);
  await notifyInstallationChanged(fixture.pool, installationId);
}

const changes = {
  'fewer grants': `granted_capabilities = '{tools.run}'`,
  'a pause': `status = 'paused'`,
  'an uninstall': `status = 'uninstalling'`,
};

for (const [name, what] of Object.entries(changes))
  t.test(`${name} ends it`, async (t) => {
    const stuck = await stuckCall(t);
    await change(stuck, what);
    t.equal(await stuck.result, 'denied: host.storage.list is not granted any more');
    await stuck.fixture.supervisor.audit.flush();
    const { rows } = await stuck.fixture.pool.query('SELECT member, outcome FROM audit WHERE installation_id = $1', [
      stuck.installationId,
    ]);
    t.same(rows, [{ member: 'storage.list', outcome: 'denied' }]);
  });

t.test('a change that keeps the grant does not end the call', async (t) => {
  const stuck = await stuckCall(t);
  await change(stuck, `granted_capabilities = '{host.llm,host.storage:read,tools.run}'`);
  const reached = eventually(async () => {
    const [plugin] = (await stuck.fixture.supervisor.pluginsCache.get(stuck.accountId)).plugins;
    return plugin?.granted.includes('host.llm');
  });
  await reached;
  await change(stuck, `granted_capabilities = '{host.llm,tools.run}'`);
  t.match(await stuck.result, /not granted any more/, 'only the change that took it did');
});
