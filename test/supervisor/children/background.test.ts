/** Work that continues after a handler's answer keeps the installation's scope and loses the session's. */
import t from 'tap';
import { eventually } from '../../runner/eventually.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);

const code = `tools.run = { description: 'd', parameters: {}, handler: async (args, ctx) => {
  const tried = async (name, work) => host.storage.set(name, await work().then(() => 'done', (error) => error.message));
  await tried('during', () => host.session.post('while it runs'));
  setTimeout(async () => {
    await tried('stored', () => host.storage.set('later', ctx.callId));
    await tried('posted', () => host.session.post('too late'));
    await tried('read', () => host.session.messages());
    await tried('secret', () => host.secrets.get('key'));
    host.log('all done');
  }, 1);
  return 'answered';
} };`;

t.test('after its answer a handler keeps its storage and its secrets, and has no session any more', async (t) => {
  const fixture = shared.withNewAccount();
  const plugin = await fixture.install({
    slug: 'later',
    capabilities: ['host.storage', 'host.session'],
    secrets: { key: 'x' },
    code,
  });
  const session = await fixture.session();
  const call = { callId: 'c7', arguments: {} };
  const answer = await fixture.call('POST', `/sessions/${session}/tools/later__run`, call);
  t.match(answer.body, { content: [{ text: 'answered' }] });
  const line = await eventually(async () => {
    await fixture.supervisor.logs.flush();
    const { rows } = await fixture.pool.query("SELECT * FROM plugin_logs WHERE message = 'all done'");
    return rows[0];
  });
  t.match(line, {
    source: 'background',
    session_id: null,
    invocation_id: null,
    installation_id: plugin.installationId,
  });
  const { rows } = await fixture.pool.query('SELECT key, value FROM installation_storage WHERE installation_id = $1', [
    plugin.installationId,
  ]);
  const kept = Object.fromEntries(rows.map(({ key, value }) => [key, JSON.parse(value)]));
  t.match(kept, { during: 'done', stored: 'done', later: 'c7', secret: 'done' });
  t.match(kept.posted, /session/);
  t.match(kept.read, /session/);
  const transcript = await fixture.call('GET', `/sessions/${session}/messages`);
  t.strictSame(
    transcript.body.items.map(({ text }: { text: string }) => text),
    ['while it runs'],
  );
});

t.test('code outside a handler cannot use the session of a handler', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: 'mix',
    capabilities: ['host.session', 'host.storage'],
    code: `let first = null;
      tools.run = { description: 'd', parameters: {}, handler: async (args, ctx) => {
        if (args.keep) { first = () => host.session.post('by the first'); return 'kept'; }
        await first();
        return 'ok';
      } };`,
  });
  const [one, two] = [await fixture.session(), await fixture.session()];
  await fixture.call('POST', `/sessions/${one}/tools/mix__run`, { arguments: { keep: true } });
  await fixture.call('POST', `/sessions/${two}/tools/mix__run`, { arguments: {} });
  t.same((await fixture.call('GET', `/sessions/${one}/messages`)).body.items, [], 'a call belongs to who makes it');
  t.equal((await fixture.call('GET', `/sessions/${two}/messages`)).body.items.length, 1);
});
