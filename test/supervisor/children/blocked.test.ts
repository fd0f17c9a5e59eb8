/** An operator blocks a running plugin: its child is killed, logs and chains say why, and unblocking starts it again. */
import t from 'tap';
import { changeBlock, changeSuspension } from '../../../db/accounts/moderation.ts';
import { listHookLinks } from '../../../supervisor/children/account-plugins-cache.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { connect, deliver, recorder, rowOf } from '../delivery/channels.ts';
import { isAlive, startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);
const suffix = (text: string) => `middleware.systemPrompt = (ctx) => ctx.systemPrompt + ${JSON.stringify(text)};`;
const context = { systemPrompt: 'a', model: 'm' };
const WHY = 'the operator blocked this plugin: it phones home';

t.test('a blocked plugin’s child ends at once in every account, and its chain link reports the reason', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const spy = await fixture.install({
    slug: 'spy',
    code: `${suffix(' spied')} tools.look = { description: 'd', parameters: {}, handler: () => 'x' };`,
  });
  await fixture.install({ slug: 'kind', code: suffix(' kind') });
  const run = async () => (await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context })).body;
  const toolCount = async () => (await fixture.call('GET', `/sessions/${session}/tools`)).body.items.length;
  t.equal((await run()).context.systemPrompt, 'a spied kind');
  t.equal(await toolCount(), 1);
  const pid = fixture.supervisor.fleet.getPid(spy.installationId) ?? 0;
  t.ok(await isAlive(pid));
  t.match(await changeBlock(fixture.pool, 'spy', 'it phones home'), { installations: 1 });
  await eventually(async () => !(await isAlive(pid)));
  t.equal(fixture.supervisor.fleet.getPid(spy.installationId), null, 'the block alone stopped the process');
  const blocked = await run();
  t.equal(blocked.context.systemPrompt, 'a kind');
  t.match(blocked.trace, [
    { slug: 'spy', ms: 0, outcome: 'skipped_unavailable', reason: WHY },
    { slug: 'kind', outcome: 'changed' },
  ]);
  t.equal(await toolCount(), 0);
  await fixture.supervisor.logs.flush();
  const { rows } = await fixture.pool.query('SELECT message FROM plugin_logs WHERE installation_id = $1', [
    spy.installationId,
  ]);
  t.ok(
    rows.some(({ message }) => message === `Stopped: ${WHY}`),
    'its log says so too',
  );
  t.ok(await changeBlock(fixture.pool, 'spy', null));
  await eventually(async () => (await run()).context.systemPrompt === 'a spied kind');
  t.not(fixture.supervisor.fleet.getPid(spy.installationId), pid);
  t.equal(await toolCount(), 1);
});

t.test('a suspended account’s children end at once; webhooks wait and arrive after the suspension', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const code = `${recorder()} tools.look = { description: 'd', parameters: {}, handler: () => 'x' };`;
  const made = await fixture.install({ slug: 'inbox', capabilities: ['host.storage'], code });
  await fixture.install({ slug: 'others', account: 'bob', owner: fixture.account, code });
  const otherSession = await fixture.session('bob');
  const readInstallation = (id: string, slug: string, account = fixture.account) =>
    fixture.call('POST', `/sessions/${id}/tools/${slug}__look`, { arguments: {} }, account);
  t.equal((await readInstallation(session, 'inbox')).status, 200);
  const channel = await connect(fixture, made);
  const pid = fixture.supervisor.fleet.getPid(made.installationId) ?? 0;
  t.ok(await changeSuspension(fixture.pool, fixture.account, 'it sends spam'));
  await eventually(async () => !(await isAlive(pid)));
  const refused = await readInstallation(session, 'inbox');
  t.match(refused, { status: 403, body: { code: 'account_suspended', detail: /: it sends spam$/ } });
  t.equal((await readInstallation(otherSession, 'others', 'bob')).status, 200, 'what it published runs for others');
  const [id = ''] = await deliver(fixture, made, channel, ['hello']);
  await eventually(async () => (await rowOf(fixture, id)).last_error === 'its account is suspended: it sends spam');
  t.equal((await rowOf(fixture, id)).state, 'pending');
  t.equal(fixture.supervisor.fleet.getPid(made.installationId), null);
  await fixture.supervisor.logs.flush();
  const logged = await fixture.pool.query('SELECT message FROM plugin_logs WHERE installation_id = $1', [
    made.installationId,
  ]);
  t.ok(logged.rows.some(({ message }) => message === 'Stopped: its account is suspended: it sends spam'));
  t.ok(await changeSuspension(fixture.pool, fixture.account, null));
  await eventually(async () => (await rowOf(fixture, id)).state === 'delivered');
  t.equal((await readInstallation(session, 'inbox')).status, 200);
});

soakTest(t, 'a handler that is running when its plugin is blocked is not waited for', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const code = `middleware.systemPrompt = async ({ systemPrompt }) => {
    if (systemPrompt !== 'wait') return;
    host.log('begun');
    await new Promise(() => undefined);
  };`;
  await fixture.install({ slug: 'slow-spy', code });
  const call = async (systemPrompt: string) =>
    (await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context: { ...context, systemPrompt } }))
      .body;
  // The start of its process counts against the budget too.
  t.match((await call('a')).trace, [{ slug: 'slow-spy', outcome: 'unchanged' }]);
  const running = call('wait');
  await eventually(async () => (await fixture.readLog('begun')).length > 0);
  await changeBlock(fixture.pool, 'slow-spy', 'it phones home');
  const body = await running;
  t.match(body.context, { ...context, systemPrompt: 'wait' });
  t.match(body.trace, [{ slug: 'slow-spy', outcome: /^skipped_(?!timeout)/ }], 'before its own deadline');
});

t.test('a blocked guard stops no command: it counts as not installed', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  await fixture.install({ slug: 'guard', code: 'middleware.sshCommand = (ctx) => ctx.cancel("no");' });
  const command = { host: { id: 'h', name: 'h' }, command: 'ls', cwd: null, env: {}, timeoutMs: 1000 };
  const run = async () =>
    (await fixture.call('POST', `/sessions/${session}/hooks/sshCommand`, { context: command })).body;
  t.equal((await run()).action, 'cancel');
  await changeBlock(fixture.pool, 'guard', 'it phones home');
  const after = await eventually(async () => {
    const answer = await run();
    return answer.action === 'continue' && answer;
  });
  t.match(after.trace, [{ slug: 'guard', outcome: 'skipped_unavailable', reason: WHY }]);
});

soakTest(t, 'the next summarizer takes the place of a blocked one', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  await fixture.install({ slug: 'first', code: 'compaction.summarize = () => "first";' });
  await fixture.install({ slug: 'second', code: 'compaction.summarize = () => "second";' });
  const summary = async () => (await fixture.call('POST', `/sessions/${session}/compaction`, {})).body.summary;
  t.equal(await summary(), 'first');
  await changeBlock(fixture.pool, 'first', 'it phones home');
  await eventually(async () => (await summary()) === 'second');
});

soakTest(t, 'a call that was on its way with old news does not leave a child behind', async (t) => {
  // This test counts all children, so the other tests' children must be gone.
  const fixture = await startSupervisorFixture(t);
  const spy = await fixture.install({ slug: 'late', code: suffix(' late') });
  const [stale] = listHookLinks(await fixture.supervisor.pluginsCache.get(spy.accountId), 'middleware.systemPrompt');
  if (!stale) throw new Error('the plugin is not loaded');
  await changeBlock(fixture.pool, 'late', 'it phones home');
  await fixture.supervisor.fleet.invoke(stale, {
    target: { kind: 'hook', name: 'middleware.systemPrompt' },
    invocationId: 'i',
    session: null,
    deadlineAt: Date.now() + 3_000,
    context: {},
  });
  await eventually(async () => fixture.supervisor.fleet.getPid(spy.installationId) === null);
  await eventually(async () => {
    const { spare: _, ...counts } = fixture.supervisor.fleet.countByState();
    return Object.keys(counts).length === 0;
  });
  t.pass('no child, no slot');
});

t.test('a blocked plugin receives no session event; after the unblock it receives the next one', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({ slug: 'told', code: 'events.sessionStarted = () => host.log("heard");' });
  await changeBlock(fixture.pool, 'told', 'it phones home');
  await eventually(async () => (await fixture.supervisor.pluginsCache.get(made.accountId)).plugins.length === 0);
  await fixture.session();
  const readEvents = async () => {
    await fixture.supervisor.logs.flush();
    const found = await fixture.pool.query(
      `SELECT 1 FROM plugin_logs WHERE installation_id = $1 AND message = 'heard'`,
      [made.installationId],
    );
    return found.rows.length;
  };
  await changeBlock(fixture.pool, 'told', null);
  await eventually(async () => (await fixture.supervisor.pluginsCache.get(made.accountId)).plugins.length === 1);
  t.equal(await readEvents(), 0, 'a session that began meanwhile was not its business');
  await fixture.session();
  await eventually(readEvents);
  t.equal(await readEvents(), 1);
});
