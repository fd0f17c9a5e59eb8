/** The fleet: changes reach running children, updates move traffic, idle children stop, and failing ones back off. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { changeOperator } from '../../../db/accounts/moderation.ts';
import { registerHooks } from '../../fixtures/registrations.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { isAlive, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

/** Longer than the pauses between the first five starts, which still count together. */
const AFTER_BACKOFF_MS = 10_000;
let passedMs = 0;
/** Not null: the clock stands still at this time. */
let stoppedAt: number | null = null;
const now = (): number => stoppedAt ?? Date.now() + passedMs;
const shared = await startSupervisorFixture(t, { now });
const suffix = (text: string) => `middleware.systemPrompt = (ctx) => ctx.systemPrompt + ${JSON.stringify(text)};`;
const context = { systemPrompt: 'a', model: 'm' };

async function prompt(fixture: SupervisorFixture, session: string): Promise<string> {
  const answer = await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context });
  return answer.body.context.systemPrompt;
}
const outcomeOf = async (fixture: SupervisorFixture, session: string) =>
  (await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context })).body.trace[0];

t.test('settings, order, pause and removal are seen by the next call', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const code = 'middleware.systemPrompt = (ctx) => ctx.systemPrompt + ctx.settings.word + host.settings.word;';
  const made = await fixture.install({ slug: 'word', code, settings: { word: '1' } });
  const other = await fixture.install({ slug: 'other', code: suffix('x') });
  t.equal(await prompt(fixture, session), 'a11x');
  const pid = fixture.supervisor.fleet.getPid(made.installationId) ?? 0;
  await fixture.change(made, `settings = '{"word": "2"}'`);
  t.equal(await prompt(fixture, session), 'a22x');
  t.equal(fixture.supervisor.fleet.getPid(made.installationId), pid, 'without a restart');
  await fixture.change(made, 'hook_order = 99');
  t.equal(await prompt(fixture, session), 'ax22');
  await fixture.change(made, `status = 'paused'`);
  t.equal(await prompt(fixture, session), 'ax');
  await eventually(async () => !(await isAlive(pid)));
  t.pass('a paused one has no process');
  await fixture.change(made, `status = 'ready'`);
  t.equal(await prompt(fixture, session), 'ax22');
  t.not(fixture.supervisor.fleet.getPid(other.installationId), null);
});

t.test('another account’s plugins are not in the chain', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: 'bobs', account: 'bob', code: suffix(' bob') });
  await fixture.install({ slug: 'anns', code: suffix(' ann') });
  t.equal(await prompt(fixture, await fixture.session()), 'a ann');
});

t.test('an update serves when it is ready; one that does not start leaves the old one serving', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const made = await fixture.install({ slug: 'moving', code: suffix(' one') });
  t.equal(await prompt(fixture, session), 'a one');
  const old = fixture.supervisor.fleet.getPid(made.installationId) ?? 0;
  await fixture.update(made, { semVer: '2.0.0', code: suffix(' two') });
  const seen = new Set<string>();
  await eventually(async () => {
    const now = await prompt(fixture, session);
    seen.add(now);
    return now === 'a two';
  });
  t.strictSame(
    [...seen].filter((text) => text !== 'a one' && text !== 'a two'),
    [],
    'no call went nowhere',
  );
  await eventually(async () => !(await isAlive(old)));
  const registrations = (await fixture.supervisor.pluginsCache.get(made.accountId)).plugins[0]?.registrations;
  await fixture.update(made, { semVer: '3.0.0', code: 'throw new Error("broken start");', registrations });
  await eventually(async () => {
    await fixture.supervisor.logs.flush();
    const { rows } = await fixture.pool.query(`SELECT message FROM plugin_logs WHERE installation_id = $1`, [
      made.installationId,
    ]);
    return rows.some((row) => /3\.0\.0 does not start, 2\.0\.0 keeps running: .*broken start/.test(row.message));
  });
  t.equal(await prompt(fixture, session), 'a two', 'the old version goes on');
});

t.test('a flipped bit in storage starts nowhere', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({ slug: 'flipped', code: suffix(' x') });
  const { rows } = await fixture.pool.query('SELECT bundle_sha256 AS sha FROM versions WHERE id = $1', [
    made.versionId,
  ]);
  const { sha } = rows[0];
  await writeFile(join(fixture.dataDir, 'blobs', sha.slice(0, 2), sha.slice(2)), suffix(' y'));
  const step = await outcomeOf(fixture, await fixture.session());
  t.equal(step.outcome, 'skipped_unavailable');
  await fixture.supervisor.logs.flush();
  const lines = await fixture.pool.query(`SELECT message FROM plugin_logs WHERE installation_id = $1`, [
    made.installationId,
  ]);
  t.match(lines.rows.map((row) => row.message).join(), /its stored bundle is damaged/);
});

t.test('idle children stop and wake; over the cap the longest unused gives way', async (t) => {
  const fixture = await startSupervisorFixture(t, { childrenMax: 2 });
  const session = await fixture.session();
  const made = [];
  for (const name of ['one', 'two', 'three'])
    made.push(await fixture.install({ slug: name, code: suffix(` ${name}`) }));
  t.equal(await prompt(fixture, session), 'a one two three');
  const running = made.filter(({ installationId }) => fixture.supervisor.fleet.getPid(installationId) !== null);
  t.ok(running.length <= 2, `${running.length} run`);
  t.equal(await prompt(fixture, session), 'a one two three', 'and wake again');
});

soakTest(t, 'over the cap a process that an update started gives way to one in use', async (t) => {
  const fixture = await startSupervisorFixture(t, { childrenMax: 2 });
  const [user, follower, next] = [fixture, fixture.withNewAccount(), fixture.withNewAccount()];
  const used = await user.install({ slug: 'used', code: suffix(' used') });
  await prompt(user, await user.session());
  const followed = await follower.install({ slug: 'followed', code: suffix('') });
  await follower.beginUpdate(followed, { semVer: '2.0.0', code: suffix(' new') }, fixture.supervisor.queues);
  const pidOf = ({ installationId }: { installationId: string }) => fixture.supervisor.fleet.getPid(installationId);
  await eventually(() => pidOf(followed));
  await next.install({ slug: 'next', code: suffix(' next') });
  t.equal(await prompt(next, await next.session()), 'a next');
  t.same([pidOf(used) === null, pidOf(followed) === null], [false, true]);
});

soakTest(
  t,
  'over the cap an account keeps its few children, and gives up its own only when it has its share',
  async (t) => {
    const childrenMax = 10;
    const fixture = await startSupervisorFixture(t, { childrenMax });
    const other = fixture.withNewAccount();
    const installAll = (owner: SupervisorFixture, names: readonly string[]) =>
      Promise.all(names.map((name) => owner.install({ slug: name, code: suffix('') })));
    const isRunning = ({ installationId }: { installationId: string }): boolean =>
      fixture.supervisor.fleet.getPid(installationId) !== null;
    const theirs = await installAll(other, ['a', 'b', 'c']);
    await prompt(other, await other.session());
    const session = await fixture.session();
    const own = await installAll(fixture, ['d', 'e', 'f', 'g', 'h', 'i', 'j', 'k']);
    await prompt(fixture, session);
    t.ok(own.every(isRunning), 'one of the other account, used longer ago, gave way');
    t.equal(theirs.filter(isRunning).length, childrenMax - own.length);
    own.push(...(await installAll(fixture, ['l', 'm'])));
    await prompt(fixture, session);
    t.equal(theirs.filter(isRunning).length, 2, 'with its share, it takes no other one');
  },
);

// test/api/installations/crash-loop.test.ts (in a soak run; restart-policy.test.ts in every run) tests a child that crashes repeatedly while it runs.
t.test(
  'a plugin that fails to start again and again is failed, with the reason, until something changes',
  async (t) => {
    const fixture = shared.withNewAccount();
    const registrations = registerHooks('middleware.systemPrompt');
    const session = await fixture.session();
    const made = await fixture.install({
      slug: 'crasher',
      code: 'throw new Error("broken start");',
      registrations,
    });
    const row = async () =>
      (
        await fixture.pool.query(
          `SELECT i.status, i.status_reason, r.state, r.restarts, r.last_exit FROM installations i
           LEFT JOIN installation_runtime r ON r.installation_id = i.id WHERE i.id = $1`,
          [made.installationId],
        )
      ).rows[0];
    // The first backoff may be over before it is seen.
    stoppedAt = now();
    const first = await outcomeOf(fixture, session);
    const refusal = 'its code does not load; its own log says why';
    t.match(first, { outcome: 'skipped_unavailable', reason: refusal }, 'without the plugin’s own text');
    await eventually(async () => (await row()).state === 'backoff');
    stoppedAt = null;
    passedMs += AFTER_BACKOFF_MS;
    await eventually(async () => (await row()).state === 'stopped');
    t.equal((await row()).restarts, 1, 'the end of the backoff is shown without a further call');
    const untilFailed = () =>
      eventually(async () => {
        const { reason } = await outcomeOf(fixture, session);
        if (/it crashed; the first call after/.test(reason)) passedMs += AFTER_BACKOFF_MS;
        return (await row()).status === 'failed';
      });
    await untilFailed();
    t.match(await row(), { status: 'failed', status_reason: /broken start/ });
    const scrape = () => fixture.supervisor.metrics.registry.metrics();
    t.match(await scrape(), 'bulkhead_plugin_recent_exits{slug="crasher"} 5', 'also in a first scrape');
    t.match(
      await outcomeOf(fixture, session),
      { outcome: 'skipped_unavailable', reason: `it failed too often: ${refusal}` },
      'without another start',
    );
    await fixture.supervisor.logs.flush();
    const query = "SELECT data FROM plugin_logs WHERE installation_id = $1 AND level = 'error' AND message ~ $2";
    t.equal(
      (await fixture.pool.query(query, [made.installationId, '^It failed too often and is stopped: '])).rowCount,
      1,
    );
    // Configure and resume use this statement, too.
    await fixture.pool.query(
      `UPDATE installations SET status = 'ready', status_reason = NULL, updated_at = clock_timestamp() WHERE id = $1`,
      [made.installationId],
    );
    await fixture.notify(made.installationId);
    await eventually(async () => !/failed too often/.test((await outcomeOf(fixture, session)).reason));
    await untilFailed();
    t.match(await row(), { status: 'failed', status_reason: /broken start/ }, 'it is shown again that it fails');
    await fixture.update(made, { semVer: '2.0.0', code: suffix(' well') });
    await eventually(async () => (await prompt(fixture, session)) === 'a well');
    await eventually(async () => (await row()).status === 'ready');
    t.notMatch(await scrape(), 'bulkhead_plugin_recent_exits{slug="crasher"}', 'a new version starts at none');
  },
);

t.test(
  'without the sandbox only operators’ own plugins run, and not those of an operator who was demoted',
  async (t) => {
    const degraded = await startSupervisorFixture(t, {
      sandbox: { ...shared.sandbox, state: 'degraded', admits: 'operators', missing: 'Install bubblewrap.' },
    });
    await degraded.install({ slug: 'theirs', owner: 'bob', code: suffix(' theirs') });
    const mine = await degraded.install({ slug: 'mine', code: suffix(' mine') });
    const session = await degraded.session();
    const run = async () =>
      (await degraded.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context })).body.context.systemPrompt;
    t.equal(await run(), 'a', 'no operator yet');
    await changeOperator(degraded.pool, 'ann', true);
    await eventually(async () => (await run()) === 'a mine');
    const pid = degraded.supervisor.fleet.getPid(mine.installationId) ?? 0;
    t.ok(await isAlive(pid));
    await changeOperator(degraded.pool, 'ann', false);
    await eventually(async () => !(await isAlive(pid)));
    t.equal(await run(), 'a');
  },
);
