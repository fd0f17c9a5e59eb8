/** Events reach their handlers: sessions, retries, holding back, uninstalling. */
import type { Pool } from 'pg';
import t from 'tap';
import { claimNextEvent, finishEvent, recordEvent } from '../../../db/installations/events.ts';
import { readStorageValue } from '../../../db/installations/plugin-storage.ts';
import { type Queues, startQueues } from '../../../db/jobs/queues.ts';
import { notifyInstallationChanged } from '../../../db/postgres/notifications.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { judgeAttempt, UNINSTALL_EVENT_MAX_MS } from '../../../supervisor/delivery/event-retry-policy.ts';
import { moveClocks } from '../../fixtures/moved-clocks.ts';
import { claimAccount } from '../../fixtures/shard-owner.ts';
import { eventually } from '../../runner/eventually.ts';
import { amount } from '../../runner/soak.ts';
import {
  type Installed,
  openStorageFixture,
  type SupervisorFixture,
  startSupervisorFixture,
} from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);
const seen = async (fixture: SupervisorFixture, made: Installed) =>
  JSON.parse((await readStorageValue(fixture.pool, made.installationId, 'seen')) ?? '[]');
const recorder = (types: readonly string[], body = '') =>
  `async function note(event) {
    await host.storage.set('seen', [...((await host.storage.get('seen')) ?? []), event]);
    ${body}
  }
  ${types.map((type) => `events.${type} = note;`).join('\n')}`;

async function installed(fixture: SupervisorFixture, made: Installed): Promise<string> {
  const { installationId, accountId, pluginId, versionId } = made;
  return recordEvent(fixture.pool, fixture.supervisor.queues, {
    installationId,
    accountId,
    pluginId,
    versionId,
    semVer: '1.0.0',
    type: 'pluginInstalled',
    data: { reason: 'install' },
  });
}

t.test('a session’s start, clear and deletion are delivered once and in order', async (t) => {
  const fixture = shared.withNewAccount();
  const types = ['sessionStarted', 'sessionCleared', 'sessionDeleted'];
  const made = await fixture.install({ slug: 'told', capabilities: ['host.storage'], code: recorder(types) });
  await fixture.install({ slug: 'deaf', code: 'middleware.systemPrompt = () => undefined;' });
  const session = await fixture.session();
  await fixture.call('POST', `/sessions/${session}/messages`, { messages: [{ role: 'user', text: 'x' }] });
  const cleared = await fixture.call('POST', `/sessions/${session}/clear`, { reason: 'fresh' });
  t.match(cleared, { status: 200, body: { id: session, clearedAt: /T/ } });
  t.same((await fixture.call('GET', `/sessions/${session}/messages`)).body.items, []);
  t.equal((await fixture.call('DELETE', `/sessions/${session}`)).status, 204);
  t.equal((await fixture.call('GET', `/sessions/${session}`)).status, 404);
  t.equal((await fixture.call('DELETE', `/sessions/${session}`)).status, 404);
  await eventually(async () => (await seen(fixture, made)).length === 3);
  t.match(await seen(fixture, made), [
    { type: 'sessionStarted', attempt: 1, data: { sessionId: session, agentId: 'agent-1', channelId: null } },
    { type: 'sessionCleared', data: { sessionId: session, messageCount: 1 } },
    { type: 'sessionDeleted', data: { sessionId: session } },
  ]);
  t.match((await seen(fixture, made))[0], {
    installationId: made.installationId,
    pluginId: made.pluginId,
    versionId: made.versionId,
    semVer: '1.0.0',
    occurredAt: /^\d{4}-.*Z$/,
  });
});

t.test('a veto keeps the session', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: 'keeper',
    code: 'middleware.sessionClear = (ctx) => ctx.cancel("keep it: " + ctx.messageCount);',
  });
  const session = await fixture.session();
  await fixture.call('POST', `/sessions/${session}/messages`, { messages: [{ role: 'user', text: 'x' }] });
  const refused = await fixture.call('POST', `/sessions/${session}/clear`, {});
  t.match(refused, { status: 409, body: { code: 'cancelled', detail: /keeper cancelled the operation: keep it: 1/ } });
  const { items } = (await fixture.call('GET', `/sessions/${session}/messages`)).body;
  t.match(items, [{ text: 'x' }, { role: 'notice' }]);
});

t.test('a failing handler is called again with the same id', async (t) => {
  const fixture = shared.withNewAccount();
  const code = recorder(['pluginInstalled'], 'if (event.attempt < 2) throw new Error("not yet");');
  const made = await fixture.install({ slug: 'slow', capabilities: ['host.storage'], code });
  const id = await installed(fixture, made);
  await eventually(async () => (await seen(fixture, made)).length === 2);
  t.match(await seen(fixture, made), [
    { id, attempt: 1 },
    { id, attempt: 2 },
  ]);
  await eventually(async () => {
    const { rows } = await fixture.pool.query('SELECT state FROM events WHERE id = $1', [id]);
    return rows[0].state === 'delivered';
  });
});

t.test('an event for a plugin that waits for configuration waits too', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'waiting',
    status: 'needs_configuration',
    capabilities: ['host.storage'],
    code: recorder(['pluginInstalled']),
  });
  const id = await installed(fixture, made);
  const row = async () => (await fixture.pool.query('SELECT * FROM events WHERE id = $1', [id])).rows[0];
  await eventually(async () => /not ready: set what it needs in its settings/.test((await row()).last_error ?? ''));
  t.match(await row(), { state: 'pending', attempts: 0 });
  await fixture.pool.query(`UPDATE installations SET status = 'ready', updated_at = now() WHERE id = $1`, [
    made.installationId,
  ]);
  await notifyInstallationChanged(fixture.pool, made.installationId);
  await eventually(async () => (await seen(fixture, made)).length === 1);
  t.match(await seen(fixture, made), [{ id, attempt: 1 }]);
});

t.test('a session’s events wait for plugins that are paused or lack configuration', async (t) => {
  const fixture = shared.withNewAccount();
  const listen = (slug: string, status: string) =>
    fixture.install({ slug, status, capabilities: ['host.storage'], code: recorder(['sessionStarted']) });
  const waiting = [await listen('resting', 'paused'), await listen('bare', 'needs_configuration')];
  const sessions = [await fixture.session(), await fixture.session()];
  for (const { installationId } of waiting) {
    await fixture.pool.query(
      `UPDATE installations SET status = 'ready', updated_at = clock_timestamp() WHERE id = $1`,
      [installationId],
    );
    await fixture.notify(installationId);
  }
  for (const made of waiting) {
    await eventually(async () => (await seen(fixture, made)).length === 2);
    const told = (await seen(fixture, made)).map(({ data }: { data: { sessionId: string } }) => data.sessionId);
    t.same(told, sessions, made.slug);
  }
});

const MANY = amount({ quick: 20, soak: 60 });
const sessionsStarted = (pool: Pool, queues: Queues, made: Installed, count: number) =>
  inTransaction(pool, async (tx) => {
    const { installationId, accountId, pluginId, versionId } = made;
    const shared = { installationId, accountId, pluginId, versionId, semVer: '1.0.0' };
    for (let index = 0; index < count; index += 1)
      await recordEvent(tx, queues, {
        ...shared,
        type: 'sessionStarted',
        data: { sessionId: `s${index}`, agentId: 'a', channelId: null },
      });
  });

t.test(`${MANY} events of one moment arrive in their order, and never two at once`, async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'orderly',
    capabilities: ['host.storage'],
    code: `const told = []; let running = 0;
      events.sessionStarted = async (event) => {
        running += 1;
        told.push(event.data.sessionId + (running > 1 ? ' overlaps' : ''));
        await host.storage.set('seen', told);
        running -= 1;
      };`,
  });
  await sessionsStarted(fixture.pool, fixture.supervisor.queues, made, MANY);
  await eventually(async () => (await seen(fixture, made)).length === MANY);
  t.same(
    await seen(fixture, made),
    Array.from({ length: MANY }, (_, index) => `s${index}`),
  );
});

t.test('an event that fails holds the later ones back once, and then lets them pass', async (t) => {
  const fixture = shared.withNewAccount();
  const code = recorder(['sessionStarted'], 'if (event.data.sessionId === "s0") throw new Error("not this one");');
  const made = await fixture.install({ slug: 'poisoned', capabilities: ['host.storage'], code });
  await sessionsStarted(fixture.pool, fixture.supervisor.queues, made, 2);
  const told = async () =>
    (await seen(fixture, made)).map(({ data }: { data: { sessionId: string } }) => data.sessionId).join();
  const [first] = (
    await fixture.pool.query('SELECT id FROM events WHERE installation_id = $1 ORDER BY id', [made.installationId])
  ).rows;
  const failures = async () =>
    (await fixture.pool.query('SELECT attempts FROM events WHERE id = $1 AND claimed_by IS NULL', [first.id])).rows[0]
      ?.attempts;
  await eventually(async () => (await failures()) === 1);
  const { pool } = fixture;
  t.equal(
    await claimNextEvent(pool, made.installationId, fixture.supervisor.ownership.fence(made.accountId)),
    null,
    'the second one waits',
  );
  await pool.query('UPDATE events SET next_attempt_at = now() WHERE id = $1', [first.id]);
  const { installationId } = made;
  await fixture.supervisor.queues.send(pool, 'events', { eventId: first.id, installationId });
  await eventually(async () => (await told()) === 's0,s0,s1');
});

t.test('a supervisor that owned an account before neither claims nor finishes its events', async (t) => {
  // Without a supervisor that runs: only this test claims the events.
  const { pool, install } = await openStorageFixture(t);
  const made = await install({ slug: 'shared', code: recorder(['sessionStarted']) });
  const queues = await startQueues({ pool, role: 'producer', onError: (error) => t.error(error) });
  await sessionsStarted(pool, queues, made, 2);
  await queues.stop();
  const owner = await claimAccount(pool, made.accountId);
  const former = { ...owner, epoch: owner.epoch - 1 };
  await t.rejects(claimNextEvent(pool, made.installationId, former), { code: 'BH409' });
  const claimed = await claimNextEvent(pool, made.installationId, owner);
  t.match(claimed, { data: { sessionId: 's0' } });
  const id = claimed?.id ?? '';
  await finishEvent(pool, id, former.epoch, 'dead', 'too late');
  t.match(await claimNextEvent(pool, made.installationId, owner), { id, interruptions: 1 }, 'still pending');
  await finishEvent(pool, id, owner.epoch, 'delivered');
  await finishEvent(pool, id, owner.epoch, 'dead', 'again');
  const { rows } = await pool.query('SELECT state FROM events WHERE id = $1', [id]);
  t.same(rows, [{ state: 'delivered' }], 'a finished event stays as it is');
  t.match(await claimNextEvent(pool, made.installationId, owner), { data: { sessionId: 's1' } });
});

t.test('an uninstall delivers pluginUninstalled, then removes everything, also where the clock is ahead', async (t) => {
  moveClocks(t).wallMs = 2 * UNINSTALL_EVENT_MAX_MS;
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'leaving',
    capabilities: ['host.storage'],
    secrets: { key: 'x' },
    code: `events.pluginUninstalled = async (event) => { host.log('bye ' + (await host.secrets.get('key')) + event.data.by); };`,
  });
  const { installationId, accountId, pluginId, versionId } = made;
  await fixture.pool.query(`UPDATE installations SET status = 'uninstalling', updated_at = now() WHERE id = $1`, [
    installationId,
  ]);
  const id = await recordEvent(fixture.pool, fixture.supervisor.queues, {
    installationId,
    accountId,
    pluginId,
    versionId,
    semVer: '1.0.0',
    type: 'pluginUninstalled',
    data: { by: 'user' },
  });
  await fixture.supervisor.queues.send(fixture.pool, 'uninstall', { installationId });
  await notifyInstallationChanged(fixture.pool, installationId);
  await eventually(async () => {
    const { rows } = await fixture.pool.query('SELECT 1 FROM installations WHERE id = $1', [installationId]);
    return rows.length === 0;
  });
  const { rows } = await fixture.pool.query('SELECT state FROM events WHERE id = $1', [id]);
  t.equal(rows[0].state, 'delivered');
  t.equal(fixture.supervisor.fleet.getPid(installationId), null);
  await fixture.supervisor.logs.flush();
  const lines = await fixture.pool.query('SELECT message, source FROM plugin_logs WHERE installation_id = $1', [
    installationId,
  ]);
  t.match(lines.rows, [{ message: 'bye xuser', source: 'events.pluginUninstalled' }]);
});

t.test('the waits double, jittered, and end', async (t) => {
  const failed = { kind: 'error', message: 'x' } as const;
  const tried = (attempt: number, interruptions = 0) => ({ attempt, interruptions });
  const waits = [1, 2, 3, 4, 5, 6, 7].map((attempt) => judgeAttempt('sessionStarted', tried(attempt), failed, 0.5));
  t.match(
    waits,
    [5, 10, 20, 40, 80, 160, 320].map((afterSeconds) => ({ kind: 'retry', afterSeconds })),
  );
  t.match(judgeAttempt('sessionStarted', tried(8), failed, 0.5), { kind: 'dead', error: 'x' });
  t.match(judgeAttempt('pluginUninstalled', tried(3), failed, 0.5), { kind: 'dead' });
  t.match(judgeAttempt('sessionStarted', tried(1), failed, 0), { afterSeconds: 4 });
  t.match(judgeAttempt('sessionStarted', tried(1), { kind: 'cancelled', reason: 'x' }, 0), { kind: 'delivered' });
});
