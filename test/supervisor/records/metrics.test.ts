/** The metrics of plugins for operators and users: those of the process and each installation's rollups. */
import { randomUUID } from 'node:crypto';
import t from 'tap';
import { requestHandshake } from '../../../db/channels/handshakes.ts';
import { INTERRUPTIONS_MAX } from '../../../db/jobs/interruptions.ts';
import { notifyDeliveriesSql } from '../../../db/postgres/notifications.ts';
import { readHandlers, readPoints } from '../../../db/records/rollups.ts';
import { supervisorMetrics } from '../../../supervisor/records/metric-table.ts';
import { Rollups } from '../../../supervisor/records/rollups.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { connect, deliver, describeRequest, rowOf } from '../delivery/channels.ts';
import { runCommand, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const HOSTILE = 'a"} 1\nbulkhead_evil{x="';
const BUSY = `
  middleware.systemPrompt = (ctx) => {
    if (ctx.systemPrompt === 'fail') throw new Error('no');
    console.log('seen');
    return ctx.systemPrompt + '!';
  };
  commands.run = { description: 'd', handler: async () => {
    try { await host.storage.set('a', 1); } catch {}
    return '{}';
  } };
  tools.counter_of_my_own = { description: 'd', parameters: { type: 'object' }, handler: () => 'ok' };`;

const scrape = (fixture: SupervisorFixture): Promise<string> => fixture.supervisor.metrics.registry.metrics();

async function traffic(fixture: SupervisorFixture, slug: string): Promise<string> {
  const session = await fixture.session();
  // First: a hook whose plugin does not start within its budget would be called again, and counted twice.
  await runCommand(fixture, slug, {}, { session });
  for (const systemPrompt of ['one', 'two', 'fail']) {
    await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context: { systemPrompt, model: 'm' } });
  }
  await fixture.call('POST', `/sessions/${session}/tools/${slug}__counter_of_my_own`, {
    callId: randomUUID(),
    arguments: {},
  });
  return session;
}

const plain = await startSupervisorFixture(t);

t.test('after traffic every metric is there, with the figures of that traffic', async (t) => {
  const fixture = plain;
  await fixture.install({ code: BUSY, slug: 'busy', capabilities: ['host.storage'] });
  await traffic(fixture, 'busy');
  await fixture.supervisor.logs.flush();
  const text = await scrape(fixture);
  for (const [name, { type, help }] of Object.entries(supervisorMetrics)) {
    t.match(text, `# HELP ${name} ${help}`, name);
    t.match(text, `# TYPE ${name} ${type}`, name);
  }
  const hook = 'slug="busy",kind="hook",name="middleware.systemPrompt"';
  t.match(text, `bulkhead_invocations_total{${hook},outcome="ok"} 2`);
  t.match(text, `bulkhead_invocations_total{${hook},outcome="error"} 1`);
  t.match(text, `bulkhead_invocation_seconds_count{${hook}} 3`);
  t.match(text, 'bulkhead_invocations_total{slug="busy",kind="tools",name="any",outcome="ok"} 1');
  t.match(text, 'bulkhead_turn_hook_seconds_count{hook="middleware.systemPrompt"} 3');
  t.match(text, 'bulkhead_host_calls_total{member="storage.set",outcome="ok"} 1');
  t.match(text, 'bulkhead_children{state="running"} 1');
  t.match(text, /bulkhead_plugin_memory_bytes\{slug="busy"\} \d{7,}/);
  t.match(text, /bulkhead_log_lines_total\{fate="written"\} [34]/);
  t.match(text, 'bulkhead_queue_depth{queue="webhooks"} 0');
  t.match(text, 'bulkhead_dead_letters{queue="events"} 0');
  t.match(
    text,
    /bulkhead_session_request_seconds_count\{method="POST",route="\/sessions\/:sessionId\/hooks\/:hook",status="200"\} 3/,
  );
  t.match(text, /bulkhead_database_connections\{state="idle"\} \d+/);
  t.notMatch(text, 'counter_of_my_own', 'what an author named is no label');
});

t.test('a malformed result of a channel’s handler counts as an error', async (t) => {
  const fixture = plain;
  const made = await fixture.install({
    slug: 'desk',
    code: `channel.receive = () => ({ messages: 'none' });
      channel.handshakeOn = { header: 'x-hook' };
      channel.handshake = () => 'ok';`,
  });
  const channel = await connect(fixture, made);
  const [id = ''] = await deliver(fixture, made, channel, ['x']);
  await eventually(async () => (await rowOf(fixture, id)).last_error !== null);
  const { listener } = fixture.supervisor;
  t.equal(await requestHandshake({ pool: fixture.pool, listener }, describeRequest(made, channel, 'x')), null);
  const text = await scrape(fixture);
  const labels = 'slug="desk",kind="channel"';
  for (const name of ['receive', 'handshake']) {
    // The delivery is attempted again.
    t.match(text, new RegExp(`bulkhead_invocations_total\\{${labels},name="${name}",outcome="error"\\} [1-9]`));
    t.notMatch(text, `bulkhead_invocations_total{${labels},name="${name}",outcome="ok"}`);
  }
});

t.test('waiting work and dead letters are counted in PostgreSQL', async (t) => {
  const fixture = await startSupervisorFixture(t);
  const running = await fixture.install({ code: BUSY, slug: 'busy' });
  const paused = await fixture.install({ code: BUSY, slug: 'paused', status: 'paused' });
  const insertEvent = (id: string, { installationId, accountId, pluginId }: typeof running, times: string) =>
    fixture.pool.query(
      `INSERT INTO events (id, installation_id, account_id, plugin_id, type, data, state, next_attempt_at, occurred_at, last_error)
       VALUES ($1, $2, $3, $4, 'pluginUpdated', '{}', ${times}, 'it failed')`,
      [id, installationId, accountId, pluginId],
    );
  await insertEvent('dead', running, "'dead', now(), now()");
  await insertEvent('waiting', running, "'pending', now() + interval '10 min', now() - interval '90 s'");
  // Events of a paused installation: the supervisor would queue those of a running one at once.
  await insertEvent('held', paused, "'pending', 'infinity', now() - interval '9 h'");
  await insertEvent('held-behind', paused, "'pending', now(), now() - interval '9 h'");
  const suspended = await fixture.withNewAccount().install({ code: BUSY, slug: 'suspended' });
  const insertWebhooks = async (
    { installationId, accountId }: typeof running,
    nextAttempts: readonly string[],
    attempts = 0,
  ) => {
    const channel = randomUUID();
    await fixture.pool.query(
      "INSERT INTO channels (id, installation_id, account_id, name, routing_id) VALUES ($1, $2, $3, 'In', $1)",
      [channel, installationId, accountId],
    );
    await fixture.pool.query(
      `WITH made AS (
         INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, received_at, method, query,
           headers, body, next_attempt_at, attempts, interruptions)
         SELECT gen_random_uuid()::text, $1, $2, $3, $1, now() - interval '9 h', 'POST', '', '[]', '', at, $5::int, least($5::int, $6::int)
           FROM unnest($4::timestamptz[]) AS at RETURNING channel_id, account_id)
       ${notifyDeliveriesSql('SELECT channel_id, account_id FROM made')}`,
      [channel, installationId, accountId, nextAttempts, attempts, INTERRUPTIONS_MAX],
    );
  };
  const later = '2100-01-01T00:00:00Z';
  await fixture.pool.query("UPDATE accounts SET suspended_reason = 'x' WHERE id = $1", [suspended.accountId]);
  await insertWebhooks(suspended, [later, later, later]);
  // Its version receives no webhooks.
  await insertWebhooks(running, ['infinity', later, later]);
  t.match(await scrape(fixture), 'bulkhead_deliveries_dead_total{queue="webhooks"} 0');
  await insertWebhooks(running, ['now'], 100);
  await eventually(async () => /bulkhead_deliveries_dead_total\{queue="webhooks"\} 1/.test(await scrape(fixture)));
  const text = await scrape(fixture);
  t.match(text, 'bulkhead_queue_depth{queue="events"} 1', 'not the one that waits for its user');
  t.match(text, 'bulkhead_queue_depth{queue="webhooks"} 0', 'none that waits for the operator or for another version');
  t.match(text, 'bulkhead_queue_age_seconds{queue="webhooks"} 0');
  t.match(text, 'bulkhead_dead_letters{queue="events"} 1');
  t.match(text, /bulkhead_queue_age_seconds\{queue="events"\} (9\d|1\d\d)/);
});

t.test('no name from a user becomes a label, and the number of slugs is limited', async (t) => {
  const fixture = await startSupervisorFixture(t, { metricSlugs: 1 });
  await fixture.install({ code: BUSY, slug: 'first' });
  await fixture.install({ code: BUSY, slug: 'second' });
  const session = await traffic(fixture, 'first');
  await fixture.call('POST', `/sessions/${session}/hooks/${encodeURIComponent(HOSTILE)}`, { context: {} });
  await fixture.call('POST', `/sessions/${session}/tools/${encodeURIComponent(HOSTILE)}`, {
    callId: randomUUID(),
    arguments: {},
  });
  await fixture.call('GET', `/${encodeURIComponent(HOSTILE)}`);
  const { metrics } = fixture.supervisor;
  const stranger = { installationId: 'x', accountId: 'a', slug: 'third' };
  metrics.targetRan({ kind: 'tools', name: HOSTILE }, stranger, HOSTILE, 1);
  const text = await scrape(fixture);
  t.notMatch(text, 'evil');
  t.notMatch(text, 'slug="second"');
  t.notMatch(text, 'slug="third"');
  t.match(text, 'slug="first"');
  t.match(text, 'slug="other"');
});

soakTest(t, 'an account that calls many plugins leaves labels to those of others', async (t) => {
  const fixture = await startSupervisorFixture(t, { metricSlugs: 4 });
  const { metrics } = fixture.supervisor;
  const call = (accountId: string, slug: string) =>
    metrics.targetRan({ kind: 'commands', name: 'run' }, { installationId: slug, accountId, slug }, 'answered', 1);
  for (const slug of ['ann-1', 'ann-2', 'ann-3', 'ann-4', 'ann-5']) call('ann', slug);
  for (const slug of ['bob-1', 'bob-2', 'ann-1']) call('bob', slug);
  call('cid', 'cid-1');
  const text = await scrape(fixture);
  const counts = [...text.matchAll(/bulkhead_invocations_total\{slug="([^"]+)".*\} (\d+)/g)].map((match) =>
    match.slice(1),
  );
  t.same(counts.sort(), [
    ['ann-1', '2'],
    ['ann-2', '1'],
    ['bob-1', '1'],
    ['cid-1', '1'],
    ['other', '4'],
  ]);
});

/** Its sums are written when a test says so. The last test stops it. */
const manual = await startSupervisorFixture(t, { rollupsMs: 3_600_000 });

t.test('minutes are summed by handler in PostgreSQL, and summed again by a second flush', async (t) => {
  const fixture = manual.withNewAccount();
  const { installationId } = await fixture.install({ code: BUSY, slug: 'busy', capabilities: ['host.storage'] });
  for (const _ of [1, 2]) {
    await traffic(fixture, 'busy');
    await fixture.supervisor.rollups.flush();
  }
  const hour = { from: Date.now() - 3_600_000, to: Date.now() + 60_000 };
  const handlers = await readHandlers(fixture.pool, installationId, hour);
  t.match(handlers, [
    { kind: 'commands', name: 'run', calls: 2, errors: 0 },
    { kind: 'hook', name: 'middleware.systemPrompt', calls: 6, errors: 2, timeouts: 0 },
    { kind: 'tools', name: 'counter_of_my_own', calls: 2 },
  ]);
  for (const { p50Ms, p95Ms, lastAt } of handlers) {
    t.ok(p50Ms !== null && p95Ms !== null && p50Ms <= p95Ms);
    t.ok(Date.parse(lastAt) > hour.from);
  }
  const points = await readPoints(fixture.pool, installationId, { ...hour, stepMs: 3_600_000 });
  const sum = (pick: (point: (typeof points)[number]) => number) => points.reduce((all, point) => all + pick(point), 0);
  t.equal(
    sum(({ calls }) => calls),
    10,
  );
  t.equal(
    sum(({ errors }) => errors),
    2,
  );
  t.equal(
    sum(({ hostCalls }) => hostCalls),
    2,
  );
  t.equal(
    sum(({ logLines }) => logLines),
    4,
  );
});

soakTest(t, 'sums of a deleted installation are skipped without blocking others', async (t) => {
  const fixture = manual.withNewAccount();
  const installation = await fixture.install({ code: BUSY });
  const { installationId, accountId } = installation;
  const { rollups } = fixture.supervisor;
  const gone = { installationId: 'gone', accountId };
  rollups.called(gone, 'tools', 'x', 'ok', 1);
  rollups.called(installation, 'tools', 'x', 'ok', 1);
  rollups.used(gone, 'hostCalls');
  await rollups.flush();
  const { rows } = await fixture.pool.query(
    'SELECT installation_id, calls FROM call_minutes WHERE installation_id = ANY ($1)',
    [[installationId, 'gone']],
  );
  t.same(rows, [{ installation_id: installationId, calls: 1 }]);
});

soakTest(t, 'an installation has a limited number of rows in one minute, and every call is counted', async (t) => {
  const fixture = manual.withNewAccount();
  const installation = await fixture.install({ code: BUSY });
  let minute = 1;
  const now = () => Date.UTC(2000, 0, 1, 0, minute);
  const rollups = new Rollups(fixture.pool, { now, flushMs: 3_600_000, onError: (error) => t.error(error) });
  t.teardown(() => rollups.close());
  const callAll = async () => {
    for (let number = 0; number < 1_000; number += 1) rollups.called(installation, 'tools', `t${number}`, 'ok', 1);
    rollups.called(installation, 'commands', 'late', 'error', 1);
    await rollups.flush();
  };
  await callAll();
  await callAll();
  minute = 2;
  rollups.called(installation, 'commands', 'late', 'ok', 1);
  await rollups.flush();
  const { rows } = await fixture.pool.query(
    `SELECT extract(minute FROM minute)::int AS minute, kind, name, count(*) OVER (PARTITION BY minute)::int AS rows,
            calls, errors FROM call_minutes WHERE installation_id = $1 ORDER BY minute, name COLLATE "C", kind`,
    [installation.installationId],
  );
  const other = { minute: 1, name: '(other)', rows: 102 };
  t.match(rows.slice(0, 3), [
    { ...other, kind: 'commands', calls: 2, errors: 2 },
    { ...other, kind: 'tools', calls: 1_800 },
    { name: 't0', calls: 2 },
  ]);
  t.match(rows.at(-1), { minute: 2, kind: 'commands', name: 'late', rows: 1, calls: 1 });
});

t.test('a stopping supervisor writes its sums', async (t) => {
  const fixture = manual.withNewAccount();
  const { installationId } = await fixture.install({ code: BUSY, slug: 'last' });
  await traffic(fixture, 'last');
  await fixture.supervisor.stop();
  const isWritten = await eventually(async () => {
    const { rows } = await fixture.pool.query(
      'SELECT sum(calls)::int AS calls FROM call_minutes WHERE installation_id = $1',
      [installationId],
    );
    return rows[0]?.calls === 5;
  });
  t.ok(isWritten);
});
