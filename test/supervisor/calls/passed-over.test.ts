/** A plugin that a chain leaves out gets the reason in its log, but not with every model call. */
import t from 'tap';
import { changeBlock } from '../../../db/accounts/moderation.ts';
import { limits } from '../../../sdk/contract/limits.ts';
import { LogDeduplicator } from '../../../supervisor/records/log-deduplicator.ts';
import { collectGarbage } from '../../fixtures/collect-garbage.ts';
import { registerHooks } from '../../fixtures/registrations.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { type Installed, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);
const CODE = 'middleware.systemPrompt = (ctx) => ctx.systemPrompt + "!";';
const CALLS = 5;

async function ask(fixture: SupervisorFixture, session: string) {
  const context = { systemPrompt: 'a', model: 'm' };
  return (await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context })).body;
}

async function lines(fixture: SupervisorFixture, { installationId }: Installed) {
  await fixture.supervisor.logs.flush();
  const { rows } = await fixture.pool.query(
    `SELECT level, message, session_id AS session, data FROM plugin_logs
      WHERE installation_id = $1 AND source = 'system' AND message LIKE 'middleware.systemPrompt%' ORDER BY id`,
    [installationId],
  );
  return rows;
}

for (const [status, why] of Object.entries({
  paused: 'the installation is paused',
  needs_configuration: 'a setting or secret that it requires is missing',
}))
  t.test(`${status}: one line, and no place in the trace`, async (t) => {
    const fixture = shared.withNewAccount();
    const made = await fixture.install({ slug: `idle-${status.replace('_', '-')}`, code: CODE, status });
    const session = await fixture.session();
    for (let n = 0; n < CALLS; n += 1) t.match(await ask(fixture, session), { action: 'continue', trace: [] });
    t.equal(fixture.supervisor.fleet.getPid(made.installationId), null, 'no process');
    t.equal((await fixture.call('GET', `/sessions/${session}/tools`)).body.items.length, 0);
    const warning = { level: 'warn', message: `middleware.systemPrompt was not called: ${why}`, session };
    t.match(await lines(fixture, made), [{ ...warning, data: { hook: 'middleware.systemPrompt' } }]);
    await fixture.pool.query(`UPDATE installations SET status = 'ready', updated_at = clock_timestamp()`);
    await fixture.notify(made.installationId);
    await eventually(async () => (await ask(fixture, session)).context.systemPrompt === 'a!');
    t.equal((await lines(fixture, made)).length, 1, 'it runs, and nothing more is said');
  });

t.test('blocked: one line', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({ slug: 'spy', code: CODE });
  const session = await fixture.session();
  await changeBlock(fixture.pool, 'spy', 'it phones home');
  // A call that meets the block in the middle of a start is told by another line, and this one not at once after it.
  const { accountId } = made;
  const { pluginsCache } = fixture.supervisor;
  await eventually(
    async () => (await pluginsCache.get(accountId)).byHook.get('middleware.systemPrompt')?.[0]?.blockedReason,
  );
  t.match((await ask(fixture, session)).trace, [{ outcome: 'skipped_unavailable' }]);
  for (let n = 0; n < CALLS; n += 1) await ask(fixture, session);
  const message = /systemPrompt was not called: the operator blocked this plugin: it phones home/;
  const logged = await lines(fixture, made);
  t.equal(logged.length, 1);
  t.match(logged, [{ level: 'warn', message }]);
});

t.test('failed: at most one line per minute, for any text', async (t) => {
  const fixture = shared.withNewAccount();
  const registrations = registerHooks('middleware.systemPrompt');
  const made = await fixture.install({ slug: 'broken', code: 'throw new Error("not today");', registrations });
  const session = await fixture.session();
  for (let n = 0; n < CALLS; n += 1)
    t.match(await ask(fixture, session), { trace: [{ outcome: 'skipped_unavailable' }] });
  t.match(await lines(fixture, made), [
    { level: 'error', message: /skipped_unavailable/, session, data: { outcome: 'skipped_unavailable' } },
  ]);
});

soakTest(t, 'over its quota of calls at once: one line', async (t) => {
  const fixture = await startSupervisorFixture(t, { childBounds: { ...limits, callsInFlight: 1, callsWaiting: 0 } });
  const code = `tools.release = { description: 'd', parameters: {}, handler: () => 'x' };
    middleware.systemPrompt = () => new Promise(() => undefined);`;
  const made = await fixture.install({ slug: 'slow', code });
  const session = await fixture.session();
  await fixture.call('POST', `/sessions/${session}/tools/slow__release`, { arguments: {} });
  const answers = await Promise.all(Array.from({ length: CALLS }, () => ask(fixture, session)));
  const outcomes = answers.map(({ trace }) => trace[0].outcome).sort();
  t.same(outcomes, ['skipped_timeout', ...Array(CALLS - 1).fill('skipped_unavailable')].sort());
  const logged = (await lines(fixture, made)).filter(({ message }) => /too many calls wait/.test(message));
  t.match(logged, [{ level: 'error', message: /skipped_unavailable/ }]);
});

t.test('a suppressed line’s text is not kept', async (t) => {
  const deduplicator = new LogDeduplicator();
  const before = (await collectGarbage()).heapUsed;
  for (let n = 0; n < 200; n += 1)
    deduplicator.countRepeat(`topic ${n}`, Buffer.alloc(100_000, `${n} `).toString('latin1'), 0);
  const grownBytes = (await collectGarbage()).heapUsed - before;
  t.ok(grownBytes < 5_000_000, `${grownBytes} bytes are kept of 20 MB`);
});

t.test('again after an hour, or after a minute where it is another reason', async (t) => {
  const deduplicator = new LogDeduplicator();
  const at = (minutes: number, message: string, topic = 'one') =>
    deduplicator.countRepeat(topic, message, minutes * 60_000);
  t.equal(at(0, 'paused'), 0);
  t.equal(at(1, 'paused'), null);
  t.equal(at(0.5, 'blocked'), null, 'a reason that changes all the time is no way round');
  t.equal(at(0, 'paused', 'two'), 0, 'another topic is another matter');
  t.equal(at(1, 'blocked'), 2, 'two were left out');
  t.equal(at(60, 'blocked'), null);
  t.equal(at(61, 'blocked'), 1);
  for (let n = 0; n < 20_000; n += 1) at(61, 'x', `topic ${n}`);
  t.equal(at(61, 'blocked'), 0, 'what was said longest ago is forgotten');
});
