/** Agents' replies to a channel's conversation: through `outboundMessage`, kept, and sent by the plugin in order. */
import t from 'tap';
import { insertReply } from '../../../db/channels/deliveries.ts';
import { giveUpDelivery } from '../../../db/channels/delivery-history.ts';
import { readStorageValue } from '../../../db/installations/plugin-storage.ts';
import { notifyInstallationChanged } from '../../../db/postgres/notifications.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { queueReply } from '../../../supervisor/sessions/replies.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { connect, deliver } from '../delivery/channels.ts';
import { storeKey, waitForKey } from '../held-handlers.ts';
import {
  DuringSteps,
  type SupervisorFixture,
  startSupervisorFixture,
  withOwnSlugs,
  withStartedPlugins,
} from '../supervisor-fixture.ts';

const RECEIVE = `channel.receive = () => ({ messages: [{ conversationKey: 'k', from: 'v', text: 'hello' }] });`;
const CODE = `${RECEIVE}
channel.send = async (message) => {
  const sent = (await host.storage.get('sent')) ?? [];
  await host.storage.set('sent', [...sent, message]);
  if (message.text === 'second!' && sent.filter((one) => one.text === 'second!').length === 0) throw new Error('vendor away');
};`;

const during = new DuringSteps();
const shared = withStartedPlugins(
  await startSupervisorFixture(t, { faultPoint: during.faultPoint, reminderScanMs: 100 }),
);
const newAccount = (): SupervisorFixture => withOwnSlugs(shared.withNewAccount());

/** Waits until no reply is waiting to be sent. @returns their rows, in order */
async function listFinishedReplies(of: Pick<SupervisorFixture, 'pool' | 'account'>) {
  await eventually(async () => (await listReplies(of)).every(({ state }) => state !== 'pending'));
  return listReplies(of);
}

/** The rows of the account's replies, in order. */
async function listReplies({ pool, account }: Pick<SupervisorFixture, 'pool' | 'account'>) {
  const { rows } = await pool.query(
    `SELECT d.* FROM deliveries d JOIN accounts a ON a.id = d.account_id
      WHERE a.name = $1 AND d.direction = 'out' ORDER BY d.position`,
    [account],
  );
  return rows;
}

t.test('a reply is stored, sent in order, and retried when the vendor is unavailable', async (t) => {
  const fixture = newAccount();
  const made = await fixture.install({ slug: 'desk', capabilities: ['host.storage'], code: CODE });
  await fixture.install({
    slug: 'polite',
    code: `middleware.outboundMessage = (ctx) => ctx.message.text === 'rude' ? ctx.cancel('be kind') : { message: { text: ctx.message.text + '!' } };`,
  });
  const channel = await connect(fixture, made);
  await deliver(fixture, made, channel, ['x']);
  const session = await eventually(async () => (await fixture.call('GET', '/sessions')).body.items[0]?.id);
  const at = `/sessions/${session}/replies`;
  t.match(await fixture.call('POST', at, { text: 'first', id: 'r1' }), { status: 202, body: { id: 'r1' } });
  t.match(await fixture.call('POST', at, { text: 'first', id: 'r1' }), { status: 202, body: { id: 'r1' } });
  t.match(await fixture.call('POST', at, { text: 'rude' }), { status: 409, body: { code: 'cancelled' } });
  t.equal((await fixture.call('POST', at, { text: 'second' })).status, 202);
  t.equal((await fixture.call('POST', at, { text: 'third' })).status, 202);
  const sent = async () => JSON.parse((await readStorageValue(fixture.pool, made.installationId, 'sent')) ?? '[]');
  await eventually(async () => (await sent()).length === 4);
  t.match(
    await sent(),
    ['first!', 'second!', 'second!', 'third!'].map((text) => ({ conversationKey: 'k', text, attachments: [] })),
  );
  t.same(
    (await listReplies(fixture)).map((row) => row.attempts),
    [1, 2, 1],
  );
  const transcript = (await fixture.call('GET', `/sessions/${session}/messages`)).body.items;
  t.match(transcript.slice(0, 2), [
    { role: 'user', text: 'hello' },
    { id: 'r1', role: 'assistant', text: 'first!' },
  ]);
  await fixture.update(made, { semVer: '2.0.0', code: RECEIVE });
  const repeated = await fixture.call('POST', at, { text: 'first', id: 'r1' });
  t.match(repeated, { status: 202, body: { id: 'r1' } }, 'also after an update to a version without channel.send');
  t.match(await fixture.call('POST', at, { text: 'new', id: 'r2' }), { status: 409, body: { code: 'no_channel' } });
});

t.test('a reply keeps its files until it is sent, also if its session is cleared and deleted', async (t) => {
  const fixture = newAccount();
  const made = await fixture.install({
    slug: 'desk',
    capabilities: ['host.media'],
    code: `channel.receive = () => ({ messages: [{ conversationKey: 'k', from: 'v', text: 'hello' }] });
      channel.send = async ({ text, attachments: [file] }) => {
        const { content } = await host.media.get(file.mediaId);
        host.log('sent', { text, file: new TextDecoder().decode(content) });
      };`,
  });
  await deliver(fixture, made, await connect(fixture, made), ['x']);
  const session = await eventually(async () => (await fixture.call('GET', '/sessions')).body.items[0]?.id);
  await fixture.change(made, `status = 'paused'`);
  const at = `/sessions/${session}`;
  const reply = async (text: string) => {
    const data = Buffer.from(`file of ${text}`).toString('base64');
    const { id: mediaId } = (await fixture.call('POST', `${at}/media`, { data })).body;
    const attachments = [{ name: 'f', mediaType: 'text/plain', mediaId }];
    t.equal((await fixture.call('POST', `${at}/replies`, { text, attachments })).status, 202);
  };
  const listFiles = async () =>
    (await fixture.pool.query('SELECT 1 FROM media WHERE account_id = $1', [made.accountId])).rowCount;
  await reply('first');
  t.equal((await fixture.call('POST', `${at}/clear`, { trigger: 'user', reason: 'x', by: 'x' })).status, 200);
  await reply('second');
  await reply('given up');
  t.equal((await fixture.call('DELETE', at)).status, 204);
  const givenUp = (await listReplies(fixture)).at(-1).id;
  t.ok(await giveUpDelivery(fixture.pool, made.installationId, givenUp));
  t.equal(await listFiles(), 3);
  await fixture.change(made, `status = 'ready'`);
  t.match(await listFinishedReplies(fixture), [{ state: 'delivered' }, { state: 'delivered' }, { state: 'dead' }]);
  t.same(await fixture.readLog('sent'), [
    { text: 'first', file: 'file of first' },
    { text: 'second', file: 'file of second' },
  ]);
  t.equal(await listFiles(), 1, 'a replay needs the file');
  await fixture.pool.query('DELETE FROM deliveries WHERE id = $1', [givenUp]);
  t.equal(await listFiles(), 0);
});

t.test('the ids of replies sort in their order, also within a millisecond', async (t) => {
  const fixture = newAccount();
  const made = await fixture.install({ slug: 'desk', code: CODE, status: 'paused' });
  const { id: channelId, routingId } = await connect(fixture, made);
  const { installationId, accountId } = made;
  const address = { channelId, routingId, installationId, accountId, conversationKey: 'k' };
  const waiting = { text: 'x', attachments: [], guards: '' };
  await inTransaction(fixture.pool, async (tx) => {
    for (let count = 0; count < 100; count += 1) await queueReply(tx, address, waiting);
  });
  const ids = (await listReplies(fixture)).map(({ id }) => id);
  t.equal(ids.length, 100);
  t.same(ids, ids.toSorted());
});

t.test('a reply with the id of another message is refused', async (t) => {
  const fixture = newAccount();
  const made = await fixture.install({ slug: 'desk', capabilities: ['host.storage'], code: CODE });
  const code = `middleware.outboundMessage = (ctx) => { if (ctx.message.text === 'darn') return { message: { text: 'dear' } }; };`;
  await fixture.install({ slug: 'polite', code });
  await deliver(fixture, made, await connect(fixture, made), ['x']);
  const path = await eventually(async () => {
    const [session] = (await fixture.call('GET', '/sessions')).body.items;
    return session && `/sessions/${session.id}`;
  });
  const reply = (id: string, text: string) => fixture.call('POST', `${path}/replies`, { id, text });
  await fixture.call('POST', `${path}/messages`, { messages: [{ id: 'imported', role: 'assistant', text: 'a' }] });
  await fixture.call('POST', `${path}/turns`, { id: 'turn', text: 'hi', trigger: 'user' });
  await fixture.call('POST', `${path}/turns/turn/output`, { id: 'output', text: 'a' });
  t.equal((await reply('sent', 'a')).status, 202);
  t.equal((await reply('changed', 'darn')).status, 202);
  for (const id of ['imported', 'turn', 'output'])
    t.match(await reply(id, 'a'), { status: 409, body: { code: 'id_reused' } }, id);
  t.match(await reply('sent', 'b'), { status: 409, body: { code: 'id_reused' } }, 'other words');
  t.match(await reply('sent', 'a'), { status: 202 }, 'the same');
  t.match(await reply('changed', 'darn'), { status: 202 }, 'the same before a plugin changed it');
  t.equal((await listReplies(fixture)).length, 2);
});

t.test('a session without a channel rejects replies', async (t) => {
  const fixture = newAccount();
  const session = await fixture.session();
  const answer = await fixture.call('POST', `/sessions/${session}/replies`, { text: 'x' });
  t.match(answer, { status: 409, body: { code: 'no_channel' } });
});

t.test('a plugin without channel.send gets no replies that would wait for one', async (t) => {
  const fixture = newAccount();
  const made = await fixture.install({ slug: 'desk', code: RECEIVE });
  await fixture.install({
    slug: 'witness',
    code: `middleware.outboundMessage = ({ target }) => { host.log('asked', { target }); };`,
  });
  await deliver(fixture, made, await connect(fixture, made), ['x']);
  const session = await eventually(async () => (await fixture.call('GET', '/sessions')).body.items[0]?.id);
  const at = `/sessions/${session}`;
  const id = await eventually(async () => (await fixture.call('GET', `${at}/messages`)).body.items[0]?.id);
  t.match((await fixture.call('POST', `${at}/turns`, { id, trigger: 'channel' })).body, { state: 'open' });
  t.match((await fixture.call('POST', `${at}/turns/${id}/end`, { text: 'noted' })).body, { state: 'ended' });
  t.match(await fixture.call('POST', `${at}/replies`, { text: 'more' }), {
    status: 409,
    body: { code: 'no_channel', detail: /needs channel\.send/ },
  });
  const due = { text: 'due', at: new Date(Date.now() - 1_000).toISOString(), trigger: 'user' };
  await fixture.call('POST', `${at}/notifications`, due);
  const texts = async () =>
    (await fixture.call('GET', `${at}/messages`)).body.items.map(({ text }: { text: string }) => text);
  await eventually(async () => (await texts()).length === 3);
  t.same(await texts(), ['hello', 'noted', 'due']);
  t.same(await fixture.readLog('asked'), [{ target: 'k' }, { target: 'k' }]);
  t.same(await listFinishedReplies(fixture), []);
});

t.test('a reply whose session is deleted while plugins judge it is not found', async (t) => {
  const fixture = newAccount();
  const made = await fixture.install({ slug: 'desk', capabilities: ['host.storage'], code: CODE });
  await deliver(fixture, made, await connect(fixture, made), ['x']);
  const session = await eventually(async () => (await fixture.call('GET', '/sessions')).body.items[0]?.id);
  during.set('reply.guarded', async () => void (await fixture.call('DELETE', `/sessions/${session}`)));
  t.match(await fixture.call('POST', `/sessions/${session}/replies`, { text: 'late' }), {
    status: 404,
    body: { code: 'not_found' },
  });
  t.same(await listReplies(fixture), []);
});

t.test('a reply that waited is judged by a plugin that is required since', async (t) => {
  const fixture = newAccount();
  const made = await fixture.install({ slug: 'desk', capabilities: ['host.storage'], code: CODE });
  const channel = await connect(fixture, made);
  await deliver(fixture, made, channel, ['x']);
  const session = await eventually(async () => (await fixture.call('GET', '/sessions')).body.items[0]?.id);
  await fixture.change(made, `status = 'paused'`);
  const reply = (text: string) => fixture.call('POST', `/sessions/${session}/replies`, { text });
  for (const text of ['secret', 'price', 'hello']) t.equal((await reply(text)).status, 202);
  const { installationId, accountId } = made;
  const address = {
    channelId: channel.id,
    routingId: channel.routingId,
    installationId,
    accountId,
    conversationKey: 'k',
  };
  const reminder = { text: 'tea', attachments: [], guards: '', trigger: 'schedule' as const };
  await inTransaction(fixture.pool, (tx) => queueReply(tx, address, reminder));
  const code = `middleware.outboundMessage = ({ message, repeated, target, trigger, cancel }) => {
    host.log('asked', { text: message.text, repeated, target, trigger });
    if (message.text === 'secret') cancel('not this');
    if (message.text === 'price') return { message: { text: 'ask us' } };
  };`;
  await fixture.install({ slug: 'optional', code: code.replaceAll("host.log('asked'", "host.log('optional'") });
  await fixture.install({ slug: 'guard', code, required: true });
  await fixture.change(made, `status = 'ready'`);
  t.match(await listFinishedReplies(fixture), [
    { state: 'dead', last_error: 'guard cancelled the operation: not this' },
    { state: 'delivered' },
    { state: 'delivered' },
    { state: 'delivered' },
  ]);
  const sent = JSON.parse((await readStorageValue(fixture.pool, made.installationId, 'sent')) ?? '[]');
  t.match(sent, [
    { conversationKey: 'k', text: 'ask us' },
    { conversationKey: 'k', text: 'hello' },
    { conversationKey: 'k', text: 'tea' },
  ]);
  t.same(
    await fixture.readLog('asked'),
    ['secret', 'price', 'hello', 'tea'].map((text) => ({
      text,
      repeated: true,
      target: 'k',
      trigger: text === 'tea' ? 'schedule' : 'agent',
    })),
  );
  t.same(await fixture.readLog('optional'), [], 'only required plugins judge again');
  const transcript = (await fixture.call('GET', `/sessions/${session}/messages`)).body.items;
  t.match(
    transcript.filter(({ role }: { role: string }) => role === 'notice').map(({ data }: { data: object }) => data),
    [{ kind: 'cancelled', plugin: 'guard' }, { kind: 'delivery_failed' }],
  );
  t.equal((await reply('hello')).status, 202);
  await eventually(async () => (await fixture.readLog('asked')).length === 5);
  await listFinishedReplies(fixture);
  t.equal((await fixture.readLog('asked')).length, 5, 'a reply that the plugin has judged is not judged again');
});

soakTest(t, 'a reply whose plugin is paused while a plugin judges it waits until it is resumed', async (t) => {
  const fixture = newAccount();
  const made = await fixture.install({ slug: 'desk', capabilities: ['host.storage'], code: CODE });
  await deliver(fixture, made, await connect(fixture, made), ['x']);
  const session = await eventually(async () => (await fixture.call('GET', '/sessions')).body.items[0]?.id);
  await fixture.change(made, `status = 'paused'`);
  t.equal((await fixture.call('POST', `/sessions/${session}/replies`, { text: 'hello' })).status, 202);
  const code = `middleware.outboundMessage = async () => {
    await host.storage.set('asked', true);
    ${waitForKey("'go on'")}
  };`;
  const guard = await fixture.install({ slug: 'guard', capabilities: ['host.storage'], code, required: true });
  await fixture.change(made, `status = 'ready'`);
  await eventually(() => readStorageValue(fixture.pool, guard.installationId, 'asked'));
  await fixture.change(made, `status = 'paused'`);
  await storeKey(fixture.pool, guard, 'go on');
  const row = async () => (await listReplies(fixture))[0];
  await eventually(async () => (await row()).last_error === 'the installation is not ready: paused');
  t.equal(await readStorageValue(fixture.pool, made.installationId, 'sent'), null);
  await fixture.change(made, `status = 'ready'`);
  await eventually(async () => (await row()).state === 'delivered');
});

soakTest(
  t,
  'an answer is judged by a plugin that is required between its output and the end of its turn',
  async (t) => {
    const fixture = newAccount();
    const made = await fixture.install({ slug: 'desk', capabilities: ['host.storage'], code: CODE });
    await deliver(fixture, made, await connect(fixture, made), ['x']);
    const session = await eventually(async () => (await fixture.call('GET', '/sessions')).body.items[0]?.id);
    const turn = (path: string, body: object) => fixture.call('POST', `/sessions/${session}/turns${path}`, body);
    for (const id of ['t1', 't2']) await turn('', { id, text: 'hi', trigger: 'user' });
    t.match((await turn('/t1/output', { id: 'o1', text: 'secret' })).body, { state: 'passed' });
    const code = `middleware.outboundMessage = ({ message, cancel }) => { if (message.text === 'secret') cancel('not this'); };`;
    await fixture.install({ slug: 'guard', code, required: true });
    t.match((await turn('/t1/end', {})).body, { state: 'ended', replyId: 'o1' });
    t.match((await turn('/t2/end', { text: 'hello' })).body, { state: 'ended' });
    t.match(await listFinishedReplies(fixture), [
      { state: 'dead', last_error: 'guard cancelled the operation: not this' },
      { state: 'delivered' },
    ]);
    const sent = JSON.parse((await readStorageValue(fixture.pool, made.installationId, 'sent')) ?? '[]');
    t.match(sent, [{ conversationKey: 'k', text: 'hello', attachments: [] }]);
    t.equal(sent.length, 1);
  },
);

t.test('a reply that waited is not sent while a plugin that is required since does not run', async (t) => {
  const fixture = await startSupervisorFixture(t, { deliveryWaits: Array.from({ length: 100 }, () => 1) });
  const made = await fixture.install({ slug: 'desk', capabilities: ['host.storage'], code: CODE });
  await deliver(fixture, made, await connect(fixture, made), ['x']);
  const session = await eventually(async () => (await fixture.call('GET', '/sessions')).body.items[0]?.id);
  await fixture.change(made, `status = 'paused'`);
  t.equal((await fixture.call('POST', `/sessions/${session}/replies`, { text: 'hello' })).status, 202);
  // Without its session, there is no conversation any more.
  t.equal((await fixture.call('DELETE', `/sessions/${session}`)).status, 204);
  const code = `middleware.outboundMessage = (ctx) => { if (ctx.settings.mode === 'broken') throw new Error('x'); };`;
  const guard = await fixture.install({ slug: 'guard', code, settings: { mode: 'broken' }, required: true });
  await fixture.change(made, `status = 'ready'`);
  const row = async () => (await listReplies(fixture))[0];
  await eventually(async () => /guard” failed.*this account requires it/.test((await row()).last_error));
  t.equal(await readStorageValue(fixture.pool, made.installationId, 'sent'), null);
  await fixture.change(guard, `settings = '{"mode": "well"}'`);
  await eventually(async () => (await row()).state === 'delivered');
});

soakTest(t, 'an attempt whose reply cannot be read counts as failed', async (t) => {
  const fixture = newAccount();
  const made = await fixture.install({ slug: 'desk', code: CODE });
  const { id: channelId, routingId } = await connect(fixture, made);
  const { installationId, accountId } = made;
  const address = { channelId, routingId, installationId, accountId, conversationKey: 'k' };
  await insertReply(fixture.pool, { ...address, id: `broken-${fixture.account}`, body: Buffer.from('{') });
  const row = async () => (await listReplies(fixture))[0];
  await eventually(async () => /the reply could not be read or judged/.test((await row()).last_error));
  t.match(await row(), { state: 'pending', attempts: 1 });
});

t.test('a reply that a required plugin did not see is not sent, and may be sent again', async (t) => {
  const fixture = newAccount();
  const made = await fixture.install({ slug: 'desk', capabilities: ['host.storage'], code: CODE });
  const settings = { mode: 'broken' };
  const code = `middleware.outboundMessage = (ctx) => { if (ctx.settings.mode === 'broken') throw new Error('x'); return {}; };`;
  const guard = await fixture.install({ slug: 'guard', code, settings, required: true });
  await deliver(fixture, made, await connect(fixture, made), ['x']);
  const session = await eventually(async () => (await fixture.call('GET', '/sessions')).body.items[0]?.id);
  const send = () => fixture.call('POST', `/sessions/${session}/replies`, { text: 'hi', id: 'r1' });
  t.match(await send(), {
    status: 409,
    body: { code: 'cancelled', detail: /guard” failed.*this account requires it/ },
  });
  t.equal((await send()).status, 409);
  const { items } = (await fixture.call('GET', `/sessions/${session}/messages`)).body;
  t.equal(items.filter(({ role }: { role: string }) => role === 'notice').length, 1, 'one notice for both attempts');
  t.same(await listReplies(fixture), []);
  await fixture.pool.query(
    `UPDATE installations SET settings = '{"mode": "well"}', updated_at = clock_timestamp() WHERE id = $1`,
    [guard.installationId],
  );
  await notifyInstallationChanged(fixture.pool, guard.installationId);
  await eventually(async () => (await send()).status === 202);
  await eventually(async () => /hi/.test((await readStorageValue(fixture.pool, made.installationId, 'sent')) ?? ''));
});
