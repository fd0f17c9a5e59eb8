/** Webhook requests reach `channel.receive`: exactly, in order, again where it failed, and held where it cannot run. */
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { readStorageValue } from '../../../db/installations/plugin-storage.ts';
import { notifyInstallationChanged } from '../../../db/postgres/notifications.ts';
import { judgeDelivery } from '../../../supervisor/delivery/webhook-retry-policy.ts';
import { eventually, type Installed, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';
import { connect, deliver, recorder, rowOf } from './channels.ts';

t.setTimeout(120_000);
const shared = await startSupervisorFixture(t);
const seen = async (
  fixture: SupervisorFixture,
  made: Installed,
): Promise<{ id: string; attempt: number; text: string }[]> =>
  JSON.parse((await readStorageValue(fixture.pool, made.installationId, 'seen')) ?? '[]');
const stateOf = async (fixture: SupervisorFixture, id: string) => (await rowOf(fixture, id)).state;

t.test('requests arrive in order, each once', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({ slug: 'inbox', capabilities: ['host.storage'], code: recorder() });
  const channel = await connect(fixture, made);
  const bodies = Array.from({ length: 30 }, (_, n) => `n${n}`);
  const ids = await deliver(fixture, made, channel, bodies);
  await eventually(async () => (await stateOf(fixture, ids[29] ?? '')) === 'delivered', 30_000);
  t.same(
    (await seen(fixture, made)).map(({ text }) => text),
    bodies,
  );
});

t.test('a request arrives bit by bit as it was, up to 5 MiB', async (t) => {
  const fixture = shared.withNewAccount();
  const code = `channel.receive = async (r) => {
    const hash = [...new Uint8Array(await crypto.subtle.digest('SHA-256', r.bodyBytes))].map((b) => b.toString(16).padStart(2, '0')).join('');
    await host.storage.set('seen', [{ ...r, bodyBytes: hash, bodyText: r.bodyText.length }]);
  };`;
  const made = await fixture.install({ slug: 'exact', capabilities: ['host.storage'], code });
  const channel = await connect(fixture, made);
  const body = randomBytes(5 * 1024 * 1024);
  const headers = [
    ['X-Twice', 'a'],
    ['x-twice', 'b'],
    ['__proto__', 'x'],
    ['Content-Type', 'application/octet-stream'],
  ] as const;
  const [id = ''] = await deliver(fixture, made, channel, [body], headers);
  await eventually(async () => (await stateOf(fixture, id)) === 'delivered', 30_000);
  const { createHash } = await import('node:crypto');
  t.match((await seen(fixture, made))[0], {
    deliveryId: id,
    channelId: channel.id,
    routingId: channel.routingId,
    attempt: 1,
    method: 'POST',
    query: 'a=1',
    headers: { 'x-twice': 'a, b', 'content-type': 'application/octet-stream' },
    rawHeaders: headers,
    receivedAt: /^\d{4}-.*Z$/,
    bodyBytes: createHash('sha256').update(body).digest('hex'),
  });
});

t.test('a failed delivery blocks only its channel and is retried with the same id', async (t) => {
  const fixture = shared.withNewAccount();
  const code = recorder(`if (request.bodyText === 'bad' && request.attempt < 2) throw new Error('not yet');`);
  const made = await fixture.install({ slug: 'order', capabilities: ['host.storage'], code });
  const [first, second] = [await connect(fixture, made, 'one'), await connect(fixture, made, 'two')];
  const [bad = '', after = ''] = await deliver(fixture, made, first, ['bad', 'after']);
  await eventually(async () => (await rowOf(fixture, bad)).last_error !== null);
  const [other = ''] = await deliver(fixture, made, second, ['other']);
  await eventually(async () => (await stateOf(fixture, other)) === 'delivered');
  t.equal(await stateOf(fixture, after), 'pending');
  await eventually(async () => (await stateOf(fixture, after)) === 'delivered', 20_000);
  t.same(
    (await seen(fixture, made)).map(({ text, attempt }) => `${text} ${attempt}`),
    ['bad 1', 'other 1', 'bad 2', 'after 1'],
  );
});

t.test('deliveries of an installation that cannot run are held without an attempt', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'held',
    status: 'paused',
    capabilities: ['host.storage'],
    code: recorder(),
  });
  const channel = await connect(fixture, made);
  const [id = ''] = await deliver(fixture, made, channel, ['x']);
  await eventually(async () => /not ready: paused/.test((await rowOf(fixture, id)).last_error ?? ''));
  t.match(await rowOf(fixture, id), { state: 'pending', attempts: 0 });
  await fixture.pool.query(`UPDATE installations SET status = 'ready', updated_at = now() WHERE id = $1`, [
    made.installationId,
  ]);
  await notifyInstallationChanged(fixture.pool, made.installationId);
  await eventually(async () => (await stateOf(fixture, id)) === 'delivered');
  t.match(await seen(fixture, made), [{ id, attempt: 1 }]);
});

t.test('a version without channel.receive holds deliveries until another one has it', async (t) => {
  const fixture = shared.withNewAccount();
  const source = { slug: 'mute', capabilities: ['host.storage'], code: recorder() };
  const made = await fixture.install(source);
  const channel = await connect(fixture, made);
  await fixture.update(made, { ...source, semVer: '1.1.0', code: 'middleware.systemPrompt = () => undefined;' });
  const [id = ''] = await deliver(fixture, made, channel, ['x']);
  await eventually(async () => /no channel.receive/.test((await rowOf(fixture, id)).last_error ?? ''));
  await fixture.update(made, { ...source, semVer: '1.2.0' });
  await eventually(async () => (await stateOf(fixture, id)) === 'delivered');
  t.equal((await seen(fixture, made)).length, 1);
});

t.test('messages go through inboundMessage into a session of their conversation, once', async (t) => {
  const fixture = shared.withNewAccount();
  const answer = `return { messages: [
    { conversationKey: request.bodyText, from: 'vendor', text: 'hello' },
    { conversationKey: request.bodyText, from: 'vendor', text: 'forbidden' } ] };`;
  const made = await fixture.install({ slug: 'talk', capabilities: ['host.storage'], code: recorder(answer) });
  await fixture.install({
    slug: 'guard',
    code: `middleware.inboundMessage = (ctx) => ctx.message.text === 'forbidden' ? ctx.cancel('no') : { message: { text: ctx.message.text + '!' } };`,
  });
  const channel = await connect(fixture, made, 'desk');
  const ids = await deliver(fixture, made, channel, ['k1', 'k2', 'k1']);
  await eventually(async () => (await stateOf(fixture, ids[2] ?? '')) === 'delivered', 20_000);
  const { items } = (await fixture.call('GET', '/sessions')).body;
  t.equal(items.length, 2);
  t.match(items[1], { channelId: channel.id, agentId: channel.id, agentName: 'desk' });
  const transcript = (await fixture.call('GET', `/sessions/${items[1].id}/messages`)).body.items;
  t.match(transcript, [
    { id: `${ids[0]}:0`, role: 'user', text: 'hello!', data: { from: 'vendor', conversationKey: 'k1' } },
    { role: 'notice', text: /guard cancelled the operation: no/ },
    { id: `${ids[2]}:0`, role: 'user', text: 'hello!' },
    { role: 'notice' },
  ]);
  // As after a crash between the last message and the end of the delivery.
  await fixture.pool.query(`UPDATE deliveries SET state = 'pending', finished_at = NULL WHERE id = $1`, [ids[0]]);
  await eventually(async () => (await stateOf(fixture, ids[0] ?? '')) === 'delivered');
  t.equal((await fixture.call('GET', `/sessions/${items[1].id}/messages`)).body.items.length, transcript.length);
});

t.test('the waits grow from 5 s to an hour, and end', async (t) => {
  const failed = { kind: 'error', message: 'x' } as const;
  const tried = (attempt: number, interruptions = 0) => ({ attempt, interruptions });
  const waits = [1, 2, 3, 4, 5].map((attempt) => judgeDelivery(tried(attempt), failed, { status: 'ready' }, 0.5));
  t.match(
    waits,
    [5, 15, 60, 600, 3_600].map((afterSeconds) => ({ kind: 'retry', afterSeconds, as: 'failure' })),
  );
  t.match(judgeDelivery(tried(6), failed, { status: 'ready' }, 0.5), { kind: 'dead', error: 'error: x' });
  const away = { kind: 'unavailable', message: 'starting again' } as const;
  t.match(judgeDelivery(tried(6), away, { status: 'ready' }, 0.5), { kind: 'retry', as: 'nothing' });
  t.match(judgeDelivery(tried(6), away, { status: 'failed' }, 0.5), { kind: 'dead' });
});

t.test('a message that a required plugin did not see stays out, and comes again', async (t) => {
  const fixture = await startSupervisorFixture(t);
  const code = `channel.receive = (request) => ({ messages: [
    { conversationKey: 'k', from: 'v', text: 'first' }, { conversationKey: 'k', from: 'v', text: request.bodyText }] });`;
  const made = await fixture.install({ slug: 'inbox', code });
  const guard = await fixture.install({
    slug: 'guard',
    settings: { mode: 'broken' },
    required: true,
    code: `middleware.inboundMessage = (ctx) => {
      if (ctx.message.text === 'hello' && ctx.settings.mode === 'broken') throw new Error('x');
      return { message: { text: ctx.message.text + ' seen' } };
    };`,
  });
  const [id = ''] = await deliver(fixture, made, await connect(fixture, made), ['hello']);
  await eventually(async () => /“guard” failed.*requires it/.test((await rowOf(fixture, id)).last_error));
  const transcript = async () => {
    const { rows } = await fixture.pool.query('SELECT role, text FROM session_messages ORDER BY position');
    return rows.map(({ role, text }) => `${role}: ${text.slice(0, 30)}`);
  };
  const before = ['user: first seen', 'notice: guard cancelled the operation:'];
  t.same(await transcript(), before);
  t.match(await rowOf(fixture, id), { state: 'pending' });
  await fixture.pool.query(
    `UPDATE installations SET settings = '{"mode": "well"}', updated_at = clock_timestamp() WHERE id = $1`,
    [guard.installationId],
  );
  await notifyInstallationChanged(fixture.pool, guard.installationId);
  await eventually(async () => (await stateOf(fixture, id)) === 'delivered', 30_000);
  t.same(await transcript(), [...before, 'user: hello seen'], 'each once, and one notice');
});
