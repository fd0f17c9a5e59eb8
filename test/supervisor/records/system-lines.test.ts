/** The plugin's own log has a `system` line for each action of the host on the plugin, with the reason. */
import t from 'tap';
import { eventually } from '../../runner/eventually.ts';
import { EXHAUST_MEMORY, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);

async function systemLines(fixture: SupervisorFixture, installationId: string, wanted: RegExp) {
  return eventually(async () => {
    await fixture.supervisor.logs.flush();
    const { rows } = await fixture.pool.query(
      "SELECT level, message, data, session_id FROM plugin_logs WHERE installation_id = $1 AND source = 'system' ORDER BY id",
      [installationId],
    );
    return rows.find(({ message }) => wanted.test(message));
  });
}

t.test('a denial names the call that is not granted', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'asks',
    capabilities: ['host.storage:read', 'host.session'],
    code: `tools.run = { description: 'd', parameters: {}, handler: async () => {
      globalThis.kept = host.session;
      return 'ok'; } };
      tools.use = { description: 'd', parameters: {}, handler: async () => globalThis.kept.post('x').then(() => 'done', (e) => e.message) };`,
  });
  const session = await fixture.session();
  await fixture.call('POST', `/sessions/${session}/tools/asks__run`, { arguments: {} });
  await fixture.pool.query(
    "UPDATE installations SET granted_capabilities = array_remove(granted_capabilities, 'host.session') WHERE id = $1",
    [made.installationId],
  );
  fixture.supervisor.pluginsCache.dropAll();
  const answer = await fixture.call('POST', `/sessions/${session}/tools/asks__use`, { arguments: {} });
  t.match(answer.body.content[0].text, /not granted/);
  const line = await systemLines(fixture, made.installationId, /^Denied/);
  t.match(line, { level: 'warn', message: /host\.session\.post is not granted/, session_id: session });
});

t.test('a timeout names the handler, its budget and its duration', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({ slug: 'slow', code: 'middleware.systemPrompt = () => new Promise(() => {});' });
  const session = await fixture.session();
  const context = { systemPrompt: 'a', model: 'm' };
  const answer = await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context });
  t.match(answer.body, { action: 'continue', trace: [{ outcome: 'skipped_timeout' }] });
  const line = await systemLines(fixture, made.installationId, /skipped_timeout/);
  t.match(line, {
    level: 'error',
    // What the start of its process took is not in the budget.
    message: /middleware\.systemPrompt took longer than its \d+ ms \(\d+ ms\)/,
    session_id: session,
  });
  t.match(line.data, { hook: 'middleware.systemPrompt', outcome: 'skipped_timeout' });
});

t.test('a crash reports how the process ended', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'hungry',
    code: `tools.eat = { description: 'd', parameters: {}, handler: () => { ${EXHAUST_MEMORY} } };`,
  });
  const session = await fixture.session();
  const answer = await fixture.call('POST', `/sessions/${session}/tools/hungry__eat`, { arguments: {} });
  t.not(answer.body.content?.[0]?.text, 'ok');
  const line = await systemLines(fixture, made.installationId, /process ended/);
  t.match(line, { level: 'error', message: /memory|signal|exit/i });
  t.match(await systemLines(fixture, made.installationId, /^tools\.eat/), { level: 'error', session_id: session });
});

t.test('a veto of a tool reports its reason', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'no',
    code: "tools.a = { description: 'd', parameters: {}, handler: (args, ctx) => ctx.cancel('not today') };",
  });
  const session = await fixture.session();
  const answer = await fixture.call('POST', `/sessions/${session}/tools/no__a`, { arguments: {} });
  t.match(answer.body, { isError: true, content: [{ text: 'not today' }] });
  t.match(await systemLines(fixture, made.installationId, /cancelled: not today/), { level: 'info' });
});
