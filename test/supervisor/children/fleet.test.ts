/** The fleet: changes reach running children, updates move traffic, idle ones stop, failing ones rest. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { announceInstallation } from '../../../db/postgres/notices.ts';
import { eventually, isAlive, startWorld, type World } from '../world.ts';

t.setTimeout(120_000);
const suffix = (text: string) => `middleware.systemPrompt = (ctx) => ctx.systemPrompt + ${JSON.stringify(text)};`;
const context = { systemPrompt: 'a', model: 'm' };

async function prompt(world: World, session: string): Promise<string> {
  const answer = await world.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context });
  return answer.body.context.systemPrompt;
}
const outcomeOf = async (world: World, session: string) =>
  (await world.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context })).body.trace[0];

t.test('settings, order, pause and removal are seen by the next call', async (t) => {
  const world = await startWorld(t);
  const session = await world.session();
  const code = 'middleware.systemPrompt = (ctx) => ctx.systemPrompt + ctx.settings.word + host.settings.word;';
  const made = await world.install({ slug: 'word', code, settings: { word: '1' } });
  const other = await world.install({ slug: 'other', code: suffix('x') });
  t.equal(await prompt(world, session), 'a11x');
  const pid = world.supervisor.fleet.pidOf(made.installationId) ?? 0;
  const change = async (sql: string) => {
    await world.pool.query(`UPDATE installations SET ${sql}, updated_at = clock_timestamp() WHERE id = $1`, [
      made.installationId,
    ]);
    await announceInstallation(world.pool, made.installationId);
    await new Promise((resolve) => setTimeout(resolve, 50));
  };
  await change(`settings = '{"word": "2"}'`);
  t.equal(await prompt(world, session), 'a22x');
  t.equal(world.supervisor.fleet.pidOf(made.installationId), pid, 'without a restart');
  await change('hook_order = 99');
  t.equal(await prompt(world, session), 'ax22');
  await change(`status = 'paused'`);
  t.equal(await prompt(world, session), 'ax');
  await eventually(async () => !(await isAlive(pid)));
  t.pass('a paused one has no process');
  await change(`status = 'ready'`);
  t.equal(await prompt(world, session), 'ax22');
  t.not(world.supervisor.fleet.pidOf(other.installationId), null);
});

t.test('another account’s plugins are not in the chain', async (t) => {
  const world = await startWorld(t);
  await world.install({ slug: 'bobs', account: 'bob', code: suffix(' bob') });
  await world.install({ slug: 'anns', account: 'ann', code: suffix(' ann') });
  t.equal(await prompt(world, await world.session('ann')), 'a ann');
});

t.test('an update serves when it is ready; one that does not start leaves the old one serving', async (t) => {
  const world = await startWorld(t);
  const session = await world.session();
  const made = await world.install({ slug: 'moving', code: suffix(' one') });
  t.equal(await prompt(world, session), 'a one');
  const old = world.supervisor.fleet.pidOf(made.installationId) ?? 0;
  await world.update(made, { semVer: '2.0.0', code: suffix(' two') });
  const seen = new Set<string>();
  await eventually(async () => {
    const now = await prompt(world, session);
    seen.add(now);
    return now === 'a two';
  });
  t.strictSame(
    [...seen].filter((text) => text !== 'a one' && text !== 'a two'),
    [],
    'no call went nowhere',
  );
  await eventually(async () => !(await isAlive(old)));
  const registrations = (await world.supervisor.rosters.get(made.accountId)).entries[0]?.registrations;
  await world.update(made, { semVer: '3.0.0', code: 'throw new Error("broken start");', registrations });
  await eventually(async () => {
    await world.supervisor.logs.flush();
    const { rows } = await world.pool.query(`SELECT message FROM plugin_logs WHERE installation_id = $1`, [
      made.installationId,
    ]);
    return rows.some((row) => /3\.0\.0 does not start, 2\.0\.0 goes on: .*broken start/.test(row.message));
  });
  t.equal(await prompt(world, session), 'a two', 'the old version goes on');
});

t.test('a flipped bit in storage starts nowhere', async (t) => {
  const world = await startWorld(t);
  const made = await world.install({ slug: 'flipped', code: suffix(' x') });
  const { rows } = await world.pool.query('SELECT bundle_sha256 AS sha FROM versions WHERE id = $1', [made.versionId]);
  const { sha } = rows[0];
  await writeFile(join(world.dataDir, 'blobs', sha.slice(0, 2), sha.slice(2)), suffix(' y'));
  const step = await outcomeOf(world, await world.session());
  t.equal(step.outcome, 'skipped_unavailable');
  await world.supervisor.logs.flush();
  const lines = await world.pool.query(`SELECT message FROM plugin_logs WHERE installation_id = $1`, [
    made.installationId,
  ]);
  t.match(lines.rows.map((row) => row.message).join(), /its stored bundle is damaged/);
});

t.test('idle children stop and wake; over the cap the longest unused gives way', async (t) => {
  const world = await startWorld(t, { childrenMax: 2 });
  const session = await world.session();
  const made = [];
  for (const name of ['one', 'two', 'three']) made.push(await world.install({ slug: name, code: suffix(` ${name}`) }));
  t.equal(await prompt(world, session), 'a one two three');
  const running = made.filter(({ installationId }) => world.supervisor.fleet.pidOf(installationId) !== null);
  t.ok(running.length <= 2, `${running.length} run`);
  t.equal(await prompt(world, session), 'a one two three', 'and wake again');
});

t.test('who crashes again and again is failed, with the reason, until something changes', async (t) => {
  const world = await startWorld(t);
  const session = await world.session();
  const made = await world.install({
    slug: 'crasher',
    code: 'middleware.systemPrompt = (ctx) => { const all = []; for (;;) all.push(new Array(1e6).fill(all.length)); };',
  });
  const row = async () =>
    (
      await world.pool.query(
        `SELECT i.status, i.status_reason, r.state, r.restarts, r.last_exit FROM installations i
           LEFT JOIN installation_runtime r ON r.installation_id = i.id WHERE i.id = $1`,
        [made.installationId],
      )
    ).rows[0];
  const first = await outcomeOf(world, session);
  t.match(first.outcome, /skipped_(error|timeout)/);
  await eventually(async () => {
    await outcomeOf(world, session);
    return (await row()).status === 'failed';
  }, 90_000);
  t.match(await row(), { status: 'failed', status_reason: /memory|ended|took longer/ });
  const refused = performance.now();
  t.equal((await outcomeOf(world, session)).outcome, 'skipped_unavailable');
  t.ok(performance.now() - refused < 1_000, 'at once');
  await world.supervisor.logs.flush();
  const told = "SELECT data FROM plugin_logs WHERE installation_id = $1 AND level = 'error' AND message ~ $2";
  t.equal((await world.pool.query(told, [made.installationId, '^It failed too often and is stopped: '])).rowCount, 1);
  // As configure and resume do it.
  await world.pool.query('UPDATE installations SET updated_at = clock_timestamp() WHERE id = $1', [
    made.installationId,
  ]);
  await announceInstallation(world.pool, made.installationId);
  await eventually(async () => (await outcomeOf(world, session)).outcome !== 'skipped_unavailable');
  await eventually(async () => (await row()).status === 'ready');
  await world.update(made, { semVer: '2.0.0', code: suffix(' well') });
  await eventually(async () => (await prompt(world, session)) === 'a well');
  await eventually(async () => (await row()).status === 'ready');
});

t.test('without the sandbox other people’s plugins do not start', async (t) => {
  const world = await startWorld(t);
  const degraded = await startWorld(t, {
    sandbox: { ...world.sandbox, state: 'degraded', missing: 'Install bubblewrap.' },
  });
  await degraded.install({ slug: 'theirs', owner: 'bob', code: suffix(' theirs') });
  await degraded.install({ slug: 'mine', code: suffix(' mine') });
  const answer = await degraded.call('POST', `/sessions/${await degraded.session()}/hooks/systemPrompt`, { context });
  t.equal(answer.body.context.systemPrompt, 'a mine');
  t.match(answer.body.trace[0], { slug: 'theirs', outcome: 'skipped_unavailable' });
});
