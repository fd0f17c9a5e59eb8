/** A change that was answered counts for the next call to the supervisor, although that learns of it by a notification. */
import t, { type Test } from 'tap';
import { AccountOwners } from '../../../api/cluster/account-owners.ts';
import { openListener } from '../../../db/postgres/listener.ts';
import { findValue } from '../../../db/postgres/rows.ts';
import { eventually } from '../../runner/eventually.ts';
import { startSupervisorFixture } from '../../supervisor/supervisor-fixture.ts';
import { startApiFixture } from '../api-fixture.ts';

const shared = await startSupervisorFixture(t);
const { pool, supervisor } = shared;
const api = await startApiFixture(t, { beside: shared });
const message = { id: 'm', from: 'bob', text: 'bad', attachments: [] };

/** The server sends the supervisor no notification until the returned function is called. */
async function stopNotifications(t: Test): Promise<() => void> {
  const held = await supervisor.listener.holdShared('stopped');
  const sql = `SELECT pid FROM pg_locks WHERE locktype = 'advisory'
    AND ((classid::bigint << 32) | objid::bigint) = hashtextextended('stopped', 0)`;
  const pid = Number(await findValue<number>(pool, sql));
  await held.close();
  const resume = () => void process.kill(pid, 'SIGCONT');
  process.kill(pid, 'SIGSTOP');
  t.teardown(resume);
  return resume;
}

async function openCase(code: string) {
  const fixture = shared.withNewAccount();
  const { installationId, accountId } = await fixture.install({ code });
  const user = await api.user(fixture.account);
  const session = await fixture.session();
  const send = async () =>
    (await fixture.call('POST', `/sessions/${session}/hooks/inboundMessage`, { context: { message } })).body.action;
  return { accountId, installationId, path: `/installations/${installationId}`, user, send };
}

t.test('a plugin is required by the next call', async (t) => {
  const { installationId, path, user, send } = await openCase(
    'middleware.inboundMessage = () => { throw new Error("no"); };',
  );
  t.equal(await send(), 'continue');
  const resume = await stopNotifications(t);
  let isAnswered = false;
  const changed = user.patch(path, { required: true }).finally(() => {
    isAnswered = true;
  });
  await eventually(() => findValue(pool, 'SELECT required FROM installations WHERE id = $1', [installationId]));
  t.equal(isAnswered, false, 'the answer waits until the supervisor knows of it');
  t.equal(await send(), 'continue', 'as it does not yet');
  resume();
  t.match(await changed, { status: 200, body: { required: true } });
  t.equal(await send(), 'cancel');
});

t.test('a supervisor that does not answer holds up no change for long', async (t) => {
  const { accountId } = await openCase('middleware.inboundMessage = () => undefined;');
  const listener = await openListener(pool, () => undefined);
  t.teardown(() => listener.close());
  const owners = await AccountOwners.open(pool, listener, 50);
  t.teardown(() => owners.close());
  const resume = await stopNotifications(t);
  await owners.catchUp(accountId);
  t.equal(owners.find(accountId)?.id, supervisor.ownership.id, 'the next one asks it again: it may only be slow');
  resume();
});

t.test('owners that could not be read are read again', async (t) => {
  const { accountId } = await openCase('middleware.inboundMessage = () => undefined;');
  const listener = await openListener(pool, () => undefined);
  t.teardown(() => listener.close());
  let failures = 1;
  const query = (...query: Parameters<typeof pool.query>) =>
    failures-- > 0 ? Promise.reject(new Error('a fault of the pooler')) : pool.query(...query);
  const owners = await AccountOwners.open({ query } as never, listener);
  t.teardown(() => owners.close());
  t.equal(owners.find(accountId), null);
  await eventually(() => owners.find(accountId));
  t.equal(owners.find(accountId)?.id, supervisor.ownership.id);
});
