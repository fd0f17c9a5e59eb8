/** Webhook requests reach `channel.receive`: exactly, in order, again where it failed, and held where it cannot run. */
import { randomBytes, randomUUIDv7 } from 'node:crypto';
import t from 'tap';
import { insertDeliveries, insertReply } from '../../../db/channels/deliveries.ts';
import {
  findDelivery,
  giveUpDelivery,
  makeDeliveryDue,
  replayDeliveries,
} from '../../../db/channels/delivery-history.ts';
import { makeFailedHeadsDue } from '../../../db/channels/delivery-queue.ts';
import { readStorageValue } from '../../../db/installations/plugin-storage.ts';
import { notifyInstallationChanged } from '../../../db/postgres/notifications.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { limits } from '../../../sdk/contract/limits.ts';
import {
  guardWait,
  judgeDelivery,
  REFUSED_WAIT_S,
  TRANSIENT_WAIT_S,
} from '../../../supervisor/delivery/webhook-retry-policy.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { type Installed, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';
import { connect, deliver, describeRequest, recorder, rowOf } from './channels.ts';

// Longer than any test: what is due earlier is made due.
const shared = await startSupervisorFixture(t, { deliveryWaits: [600, 600, 600, 600] });
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
  await eventually(async () => (await stateOf(fixture, ids[29] ?? '')) === 'delivered');
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
  await eventually(async () => (await stateOf(fixture, id)) === 'delivered');
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

soakTest(
  t,
  'the largest requests of four channels that wait for the start of the plugin arrive at the first attempt',
  async (t) => {
    const fixture = shared.withNewAccount();
    const made = await fixture.install({
      slug: 'four',
      capabilities: [],
      code: 'channel.receive = () => undefined;',
    });
    const channels = [];
    for (const name of ['one', 'two', 'three', 'four']) channels.push(await connect(fixture, made, name));
    const body = randomBytes(5 * 1024 * 1024);
    const requests = channels.map((channel) => describeRequest(made, channel, body));
    await insertDeliveries(fixture.pool, requests);
    const rows = () => Promise.all(requests.map(({ id }) => rowOf(fixture, id)));
    await eventually(async () => (await rows()).every(({ state, last_error }) => state === 'delivered' || last_error));
    t.match(await rows(), Array(4).fill({ state: 'delivered', attempts: 1 }));
  },
);

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
  await makeDeliveryDue(fixture.pool, made.installationId, bad);
  await eventually(async () => (await stateOf(fixture, after)) === 'delivered');
  t.same(
    (await seen(fixture, made)).map(({ text, attempt }) => `${text} ${attempt}`),
    ['bad 1', 'other 1', 'bad 2', 'after 1'],
  );
});

/** Makes a delivery due and waits until it has so many attempts and is not being attempted. */
async function attemptAgain(fixture: SupervisorFixture, made: Installed, id: string, attempts: number) {
  await eventually(() => makeDeliveryDue(fixture.pool, made.installationId, id));
  await eventually(async () => {
    const row = await rowOf(fixture, id);
    return row.attempts === attempts && row.claimed_by === null;
  });
}

t.test('the first delivery of a failed installation is attempted when it is ready again', async (t) => {
  const fixture = shared.withNewAccount();
  const code = recorder(`if (request.attempt < 2) throw new Error('not yet');`);
  const made = await fixture.install({ slug: 'repaired', capabilities: ['host.storage'], code });
  const channel = await connect(fixture, made);
  const other = await connect(fixture, made);
  const [first = ''] = await deliver(fixture, made, channel, ['first']);
  const [second = ''] = await deliver(fixture, made, other, ['second']);
  for (const id of [first, second]) await eventually(async () => (await rowOf(fixture, id)).last_error !== null);
  await inTransaction(fixture.pool, async (tx) => {
    await tx.query('SELECT 1 FROM deliveries WHERE id = $1 FOR UPDATE', [first]);
    t.same(await makeFailedHeadsDue(fixture.pool, made.installationId), [other.id], 'it waits for no locked row');
  });
  // As attempts leave it at which the plugin could not be called.
  await fixture.pool.query('UPDATE deliveries SET attempts = 4 WHERE id = $1', [first]);
  await fixture.change(made, `status = 'failed'`);
  t.same(await makeFailedHeadsDue(fixture.pool, made.installationId), [], 'not while it is failed');
  await fixture.change(made, `status = 'ready'`);
  await eventually(async () => (await stateOf(fixture, first)) === 'delivered');
  t.match(await rowOf(fixture, first), { attempts: 5 });
});

t.test('after two failures the others pass a poisoned delivery, which is retried on its own schedule', async (t) => {
  const fixture = shared.withNewAccount();
  const code = recorder(`if (request.bodyText === 'bad' && request.attempt < 4) throw new Error('not yet');`);
  const made = await fixture.install({ slug: 'poison', capabilities: ['host.storage'], code });
  const channel = await connect(fixture, made);
  const [bad = '', one = '', two = ''] = await deliver(fixture, made, channel, ['bad', 'one', 'two']);
  await eventually(async () => (await rowOf(fixture, bad)).last_error !== null);
  t.match(await findDelivery(fixture.pool, made.installationId, two, 1), {
    state: 'pending',
    waitsFor: { id: bad, lastError: /not yet/ },
  });
  await attemptAgain(fixture, made, bad, 2);
  await eventually(async () => (await stateOf(fixture, two)) === 'delivered');
  t.equal(await stateOf(fixture, one), 'delivered');
  t.match(await rowOf(fixture, bad), { state: 'pending', set_aside: true });
  await attemptAgain(fixture, made, bad, 3);
  const [three = ''] = await deliver(fixture, made, channel, ['three']);
  await eventually(async () => (await stateOf(fixture, three)) === 'delivered');
  await makeDeliveryDue(fixture.pool, made.installationId, bad);
  await eventually(async () => (await stateOf(fixture, bad)) === 'delivered');
  t.same(
    (await seen(fixture, made)).map(({ text, attempt }) => `${text} ${attempt}`),
    ['bad 1', 'bad 2', 'one 1', 'two 1', 'bad 3', 'three 1', 'bad 4'],
  );
});

soakTest(t, 'replies of the conversation of a poisoned one keep their order, those of others pass', async (t) => {
  const fixture = shared.withNewAccount();
  const code = `channel.receive = () => undefined;
    channel.send = async ({ conversationKey, text }) => {
      if (text === 'bad') throw new Error('not deliverable');
      await host.storage.set('seen', [...((await host.storage.get('seen')) ?? []), { text: conversationKey + ' ' + text }]);
    };`;
  const made = await fixture.install({ slug: 'outbox', capabilities: ['host.storage'], code });
  const { id: channelId, routingId } = await connect(fixture, made);
  const { installationId, accountId } = made;
  const reply = async (conversationKey: string, text: string): Promise<string> => {
    const id = randomUUIDv7();
    const body = Buffer.from(JSON.stringify({ conversationKey, text, attachments: [] }));
    await insertReply(fixture.pool, { id, channelId, installationId, accountId, routingId, conversationKey, body });
    return id;
  };
  const bad = await reply('ann', 'bad');
  const [after, other] = [await reply('ann', 'after'), await reply('ben', 'other')];
  await eventually(async () => (await rowOf(fixture, bad)).last_error !== null);
  await attemptAgain(fixture, made, bad, 2);
  await eventually(async () => (await stateOf(fixture, other)) === 'delivered');
  t.match(await findDelivery(fixture.pool, installationId, after, 1), { state: 'pending', waitsFor: { id: bad } });
  t.equal(await giveUpDelivery(fixture.pool, installationId, bad), true);
  await eventually(async () => (await stateOf(fixture, after)) === 'delivered');
  t.match(await rowOf(fixture, bad), { state: 'dead', last_error: /^given up by its user: .*not deliverable/ });
  t.same(
    (await seen(fixture, made)).map(({ text }) => text),
    ['ben other', 'ann after'],
  );
});

t.test('channel.send gets the id of the delivery, the attempt and the channel', async (t) => {
  const fixture = shared.withNewAccount();
  const code = `channel.receive = () => undefined;
    channel.send = async (message) => {
      await host.storage.set('seen', [...((await host.storage.get('seen')) ?? []), message]);
      if (message.attempt === 1) throw new Error('not yet');
    };`;
  const made = await fixture.install({ slug: 'keyed', capabilities: ['host.storage'], code });
  const { id: channelId, routingId } = await connect(fixture, made);
  const { installationId, accountId } = made;
  const deliveryId = randomUUIDv7();
  const reply = { conversationKey: 'ann', text: 'hello', attachments: [] };
  const body = Buffer.from(JSON.stringify(reply));
  const { conversationKey } = reply;
  await insertReply(fixture.pool, {
    id: deliveryId,
    channelId,
    installationId,
    accountId,
    routingId,
    conversationKey,
    body,
  });
  await eventually(async () => (await rowOf(fixture, deliveryId)).last_error !== null);
  await makeDeliveryDue(fixture.pool, installationId, deliveryId);
  await eventually(async () => (await stateOf(fixture, deliveryId)) === 'delivered');
  const expected = [1, 2].map((attempt) => ({ ...reply, deliveryId, attempt, channelId }));
  t.same(await seen(fixture, made), expected);
});

t.test('dead letters are replayed behind the living, oldest first', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'behind',
    status: 'paused',
    capabilities: ['host.storage'],
    code: recorder(),
  });
  const { installationId } = made;
  const channel = await connect(fixture, made);
  const dead = await deliver(fixture, made, channel, ['dead 1', 'dead 2', 'dead 3']);
  for (const id of dead) await eventually(() => giveUpDelivery(fixture.pool, installationId, id));
  const [living = ''] = await deliver(fixture, made, channel, ['living']);
  t.equal(
    await inTransaction(fixture.pool, (tx) => replayDeliveries(tx, { installationId, state: 'dead', limit: 10 })),
    3,
  );
  const [last = ''] = await deliver(fixture, made, channel, ['last']);
  t.match(await findDelivery(fixture.pool, installationId, dead[0] ?? '', 1), { waitsFor: { id: living } });
  await fixture.pool.query(`UPDATE installations SET status = 'ready', updated_at = now() WHERE id = $1`, [
    installationId,
  ]);
  await notifyInstallationChanged(fixture.pool, installationId);
  await eventually(async () => (await stateOf(fixture, last)) === 'delivered');
  t.same(
    (await seen(fixture, made)).map(({ text }) => text),
    ['living', 'dead 1', 'dead 2', 'dead 3', 'last'],
  );
});

soakTest(
  t,
  'replayed dead letters that fail again delay a new request by one attempt, and replies as well',
  async (t) => {
    const fixture = shared.withNewAccount();
    // The second and third one hang until the new request has arrived.
    const code = `channel.receive = async ({ bodyText }) => {
      if (bodyText === 'after') return void (await host.storage.set('after', true));
      while (bodyText !== 'bad 1' && !(await host.storage.get('after'))) await new Promise((done) => setTimeout(done, 20));
      throw new Error('not yet');
    };
    channel.send = async ({ text }) => { if (text === 'bad') throw new Error('not yet'); };`;
    const made = await fixture.install({ slug: 'again', capabilities: ['host.storage'], code });
    const { installationId, accountId } = made;
    const channel = await connect(fixture, made);
    const reply = async (conversationKey: string, text: string): Promise<string> => {
      const id = randomUUIDv7();
      const body = Buffer.from(JSON.stringify({ conversationKey, text, attachments: [] }));
      const { id: channelId, routingId } = channel;
      await insertReply(fixture.pool, { id, channelId, installationId, accountId, routingId, conversationKey, body });
      return id;
    };
    const requests = await deliver(fixture, made, channel, ['bad 1', 'bad 2', 'bad 3']);
    const replies = [await reply('ann', 'bad'), await reply('ben', 'bad')];
    // The last ones first, so that none of them is attempted.
    for (const id of [...requests.toReversed(), ...replies.toReversed()])
      await eventually(() => giveUpDelivery(fixture.pool, installationId, id));
    await inTransaction(fixture.pool, (tx) => replayDeliveries(tx, { installationId, state: 'dead', limit: 10 }));
    const [after = ''] = await deliver(fixture, made, channel, ['after']);
    const other = await reply('cid', 'other');
    for (const id of [after, other]) await eventually(async () => (await stateOf(fixture, id)) === 'delivered');
    // Due at once, in a queue of their own.
    for (const id of [...requests, ...replies]) {
      const row = await eventually(async () => {
        const found = await rowOf(fixture, id);
        return found.attempts === 1 && found.claimed_by === null && found;
      });
      t.match(row, { state: 'pending', set_aside: true, last_error: /not yet/ });
    }
  },
);

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
  await eventually(async () => (await stateOf(fixture, ids[2] ?? '')) === 'delivered');
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

soakTest(t, 'a replay has a cancelled message judged again, and adds no other one twice', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'repeated-talk',
    code: `channel.receive = ({ bodyText }) => ({ messages: ['hello', bodyText].map((text) => ({ conversationKey: 'k', from: 'v', text })) });`,
  });
  const guard = await fixture.install({
    slug: 'repeated-guard',
    code: `middleware.inboundMessage = ({ message, cancel }) => {
      host.log('asked', { text: message.text });
      if (message.text === 'cancelled') cancel('no');
    };`,
  });
  const { installationId } = made;
  const channel = await connect(fixture, made);
  const [id = ''] = await deliver(fixture, made, channel, ['cancelled']);
  const isDelivered = async () => (await stateOf(fixture, id)) === 'delivered';
  await eventually(isDelivered);
  const replay = async () => {
    const replayed = { installationId, state: 'delivered', limit: 10 } as const;
    t.equal(await inTransaction(fixture.pool, (tx) => replayDeliveries(tx, replayed)), 1);
    await eventually(isDelivered);
  };
  const [session] = (await fixture.call('GET', '/sessions')).body.items;
  const readRoles = async () =>
    (await fixture.call('GET', `/sessions/${session.id}/messages`)).body.items.map(
      ({ role, text }: { role: string; text: string }) => (role === 'notice' ? role : text),
    );
  await replay();
  t.same(
    (await fixture.readLog('asked')).map(({ text }) => text),
    ['hello', 'cancelled', 'cancelled'],
  );
  t.same(await readRoles(), ['hello', 'notice'], 'one notice of one message');
  // As earlier releases named it.
  const sql = 'UPDATE session_messages SET id = $1 WHERE id = $2';
  t.equal((await fixture.pool.query(sql, [`${id}:1`, `${id}:1:vetoed`])).rowCount, 1);
  await replay();
  t.equal((await fixture.readLog('asked')).length, 4);
  t.same(await readRoles(), ['hello', 'notice']);
  // As supervisors of both releases, side by side, leave it.
  const copy = `INSERT INTO session_messages (session_id, account_id, id, role, text)
    SELECT session_id, account_id, $1, role, text FROM session_messages WHERE id = $2`;
  t.equal((await fixture.pool.query(copy, [`${id}:1`, `${id}:1:vetoed`])).rowCount, 1);
  await fixture.change(guard, `status = 'paused'`);
  await replay();
  await replay();
  t.same(await readRoles(), ['hello', 'notice', 'notice', 'cancelled']);
});

t.test('the waits grow from 5 s to an hour, and end', async (t) => {
  const failed = { kind: 'error', message: 'x' } as const;
  const away = { kind: 'unavailable', message: 'starting again' } as const;
  const tried = (attempt: number, isReplayed = false) => ({ attempt, interruptions: 0, isReplayed });
  const judge = (attempt: number, result: typeof failed | typeof away, status: 'ready' | 'failed' = 'ready') =>
    judgeDelivery(tried(attempt), result, { status }, limits.deliveryWaits, 0.5);
  const waits = [1, 2, 3, 4, 5].map((attempt) => judge(attempt, failed));
  t.match(
    waits,
    [5, 15, 60, 600, 3_600].map((afterSeconds) => ({ kind: 'retry', afterSeconds, as: 'failure' })),
  );
  t.match(judge(6, failed), { kind: 'dead', error: 'x' });
  t.match(judge(6, away), { kind: 'retry', as: 'nothing' });
  t.match(judge(6, away, 'failed'), { kind: 'dead' });
  t.same(
    [1, 2].map((attempt) => judge(attempt, failed)).map((verdict) => verdict.kind === 'retry' && verdict.setAside),
    [false, true],
    'set aside after the second',
  );
  const replayed = judgeDelivery(tried(1, true), failed, { status: 'ready' }, limits.deliveryWaits, 0.5);
  t.match(replayed, { kind: 'retry', setAside: true }, 'a replayed one after the first');
  t.match(judge(2, away, 'failed'), { setAside: false }, 'but not for a plugin that could not be called');
  t.match(judge(1, away), { afterSeconds: TRANSIENT_WAIT_S });
  const busy = { status: 'ready', transientWaitS: guardWait(30) } as const;
  t.match(judgeDelivery(tried(1), away, busy, limits.deliveryWaits, 0.5), { afterSeconds: 15 });
  t.same([-1, 0, 3, 10, 3_600].map(guardWait), [2, 2, 2, 5, 60], 'of a required plugin');
  for (const status of ['ready', 'needs_configuration', 'failed'] as const) {
    const stopped = { status, isStopped: true };
    const verdict = judgeDelivery(tried(6), away, stopped, limits.deliveryWaits, 0.5);
    t.match(verdict, { kind: 'retry', as: 'nothing', afterSeconds: REFUSED_WAIT_S }, `a required one, ${status}`);
    t.match(judgeDelivery(tried(6), failed, stopped, limits.deliveryWaits, 0.5), { kind: 'dead' }, 'which was called');
  }
});

t.test('a message that a required plugin did not see stays out, and comes again when that one changes', async (t) => {
  const fixture = shared.withNewAccount();
  const code = `channel.receive = (request) => ({ messages: [
    { conversationKey: 'k', from: 'v', text: 'first' }, { conversationKey: 'k', from: 'v', text: request.bodyText }] });`;
  const made = await fixture.install({ slug: 'guarded', code });
  const guard = await fixture.install({
    slug: 'thrower',
    settings: { mode: 'broken' },
    required: true,
    code: `middleware.inboundMessage = (ctx) => {
      if (ctx.message.text === 'hello' && ctx.settings.mode === 'broken') throw new Error('x');
      return { message: { text: ctx.message.text + ' seen' } };
    };`,
  });
  const [id = ''] = await deliver(fixture, made, await connect(fixture, made), ['hello']);
  await eventually(async () => /“thrower” failed.*requires it/.test((await rowOf(fixture, id)).last_error));
  const transcript = async () => {
    const sql = 'SELECT role, text FROM session_messages WHERE account_id = $1 ORDER BY position';
    const { rows } = await fixture.pool.query(sql, [made.accountId]);
    return rows.map(({ role, text }) => `${role}: ${text.slice(0, 30)}`);
  };
  const before = ['user: first seen', 'notice: “thrower” failed with an error'];
  t.same(await transcript(), before);
  t.match(await rowOf(fixture, id), { state: 'pending', attempts: 1 });
  await fixture.change(guard, `settings = '{"mode": "well"}'`);
  await eventually(async () => (await stateOf(fixture, id)) === 'delivered');
  t.same(await transcript(), [...before, 'user: hello seen'], 'each once, and one notice');
});

t.test(
  'requests and replies wait, in order, while a required plugin cannot be called, and end with its change',
  async (t) => {
    const fixture = shared.withNewAccount();
    const made = await fixture.install({
      slug: 'waiting',
      capabilities: ['host.storage'],
      code: `channel.receive = ({ bodyText }) => ({ messages: [{ conversationKey: 'k', from: 'v', text: bodyText }] });
      channel.send = ({ text }) => host.log('sent', { text });`,
    });
    const stopped = `status = 'needs_configuration', required = true`;
    const guard = await fixture.install({
      slug: 'needed',
      status: 'needs_configuration',
      required: true,
      code: `middleware.inboundMessage = ({ message, cancel }) => {
        if (message.text === 'forbidden') cancel('no');
        return { message: { text: message.text + ' seen' } };
      };
      middleware.outboundMessage = ({ message }) => ({ message: { text: message.text + ' seen' } });`,
    });
    const { accountId, installationId } = made;
    const channel = await connect(fixture, made);
    const reply = async (text: string): Promise<string> => {
      const id = randomUUIDv7();
      const body = Buffer.from(JSON.stringify({ conversationKey: 'k', text, attachments: [] }));
      const { id: channelId, routingId } = channel;
      const row = { id, channelId, installationId, accountId, routingId, conversationKey: 'k', body };
      await insertReply(fixture.pool, row);
      return id;
    };
    const waits = async (id: string): Promise<boolean> => {
      const { last_error, claimed_by } = await rowOf(fixture, id);
      return /“needed” could not run.*is missing/.test(last_error) && claimed_by === null;
    };
    const changes = {
      ready: `status = 'ready'`,
      paused: `status = 'paused'`,
      optional: 'required = false',
      gone: `status = 'uninstalling'`,
    };
    for (const [name, change] of Object.entries(changes)) {
      const bodies = [name === 'ready' ? 'forbidden' : name, `${name} 2`];
      const [first = '', second = ''] = await deliver(fixture, made, channel, bodies);
      const replies = [await reply(name), await reply(`${name} 2`)];
      const heads = [first, replies[0] ?? ''];
      for (const id of heads) {
        for (const _ of [1, 2, 3]) {
          await eventually(() => waits(id));
          t.match(await rowOf(fixture, id), { state: 'pending', attempts: 0, set_aside: false });
          await fixture.pool.query(`UPDATE deliveries SET last_error = 'attempted' WHERE id = $1`, [id]);
          await makeDeliveryDue(fixture.pool, installationId, id);
        }
        await eventually(() => waits(id));
        // Longer than any test.
        const later = `UPDATE deliveries SET next_attempt_at = now() + interval '10 minutes' WHERE id = $1`;
        await fixture.pool.query(later, [id]);
      }
      for (const id of [second, replies[1] ?? '']) t.match(await rowOf(fixture, id), { attempts: 0, last_error: null });
      await fixture.change(guard, change);
      for (const id of [second, replies[1] ?? ''])
        await eventually(async () => (await stateOf(fixture, id)) === 'delivered');
      for (const id of heads) t.match(await rowOf(fixture, id), { state: 'delivered', attempts: 1 });
      await fixture.change(guard, stopped);
    }
    const { rows } = await fixture.pool.query(
      `SELECT text FROM session_messages WHERE account_id = $1 AND role = 'user' ORDER BY position`,
      [accountId],
    );
    t.same(
      rows.map(({ text }) => text),
      ['ready 2 seen', 'paused', 'paused 2', 'optional', 'optional 2', 'gone', 'gone 2'],
      'nothing that is forbidden',
    );
    t.same(
      (await fixture.readLog('sent')).map(({ text }) => text),
      ['ready seen', 'ready 2 seen', 'paused', 'paused 2', 'optional', 'optional 2', 'gone', 'gone 2'],
    );
  },
);
