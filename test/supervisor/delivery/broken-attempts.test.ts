/** An attempt that breaks off at any of its steps, as where the database goes away there, is made good by the next. */
import t from 'tap';
import { makeDeliveryDue, replayDeliveries } from '../../../db/channels/delivery-history.ts';
import { recordEvent } from '../../../db/installations/events.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { STORE_MS } from '../../../supervisor/delivery/inbound-messages.ts';
import { eventually } from '../../runner/eventually.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';
import { connect, deliver, rowOf } from './channels.ts';

const CODE = `
channel.receive = (request) => ({ messages: [{ conversationKey: 'k', from: 'v', text: request.bodyText }] });
events.pluginInstalled = () => undefined;`;
const DELIVERY_STEPS = ['delivery.claimed', 'delivery.answered', 'delivery.taken', 'delivery.finished'];
const EVENT_STEPS = ['event.claimed', 'event.answered', 'event.finished'];

const passes = new Map<string, number>();
const passesOf = (step: string): number => passes.get(step) ?? 0;

/** Whether the time of an attempt to store messages is over whenever it is asked for. */
let isSlow = false;
let passedMs = 0;
function now(): number {
  if (isSlow) passedMs += STORE_MS;
  return performance.now() + passedMs;
}

/** Happens when a message was judged. */
let onJudged: () => Promise<void> | undefined = () => undefined;

/** Breaks the first pass of each step. */
function faultPoint(step: string): Promise<void> | undefined {
  if (step === 'message.judged') return onJudged();
  passes.set(step, passesOf(step) + 1);
  const isBroken = DELIVERY_STEPS.includes(step) || EVENT_STEPS.includes(step);
  if (isBroken && passesOf(step) === 1) throw new Error(`broken at ${step}`);
  return undefined;
}

const shared = await startSupervisorFixture(t, { faultPoint, now });

t.test('deliveries', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({ code: CODE });
  // As many channels as steps: a break holds up its own channel only.
  const channels = await Promise.all(DELIVERY_STEPS.map((name) => connect(fixture, made, name)));
  for (const channel of channels) {
    const ids = await deliver(fixture, made, channel, ['1', '2', '3']);
    await eventually(async () => (await rowOf(fixture, ids[0] ?? '')).attempts > 0);
  }
  const sessionOf = async (channelId: string): Promise<string | undefined> =>
    (await fixture.call('GET', '/sessions')).body.items.find(
      (session: { channelId: string | null }) => session.channelId === channelId,
    )?.id;
  for (const { id } of channels) {
    const texts = async (): Promise<string[]> => {
      const { items } = (await fixture.call('GET', `/sessions/${await sessionOf(id)}/messages`)).body;
      return (items ?? []).map((item: { text: string }) => item.text);
    };
    await eventually(async () => (await texts()).length === 3);
    t.same(await texts(), ['1', '2', '3'], 'each once, in order');
  }
  await eventually(async () => {
    const { rows } = await fixture.pool.query(`SELECT 1 FROM deliveries WHERE state <> 'delivered'`);
    return rows.length === 0;
  });
  for (const step of DELIVERY_STEPS) t.ok(passesOf(step) > 1, step);
});

t.test('events', async (t) => {
  const fixture = shared.withNewAccount();
  const { pool, supervisor } = fixture;
  const ids: string[] = [];
  for (const _ of EVENT_STEPS) {
    const { installationId, accountId, pluginId, versionId } = await fixture.install({ code: CODE });
    ids.push(
      await recordEvent(pool, supervisor.queues, {
        installationId,
        accountId,
        pluginId,
        versionId,
        semVer: '1.0.0',
        type: 'pluginInstalled',
        data: { reason: 'install' },
      }),
    );
  }
  await eventually(async () => {
    const { rows } = await pool.query(`SELECT 1 FROM events WHERE id = ANY ($1) AND state = 'delivered'`, [ids]);
    return rows.length === ids.length;
  });
  for (const step of EVENT_STEPS) t.ok(passesOf(step) > 1, step);
});

t.test('a message whose session is deleted while plugins judge it comes again, in a new session', async (t) => {
  const fixture = shared.withNewAccount();
  const code = `channel.receive = ({ bodyText }) => ({ messages: [{ conversationKey: 'k', from: 'v', text: bodyText }] });`;
  const made = await fixture.install({ slug: 'inbox', code });
  await fixture.install({
    slug: 'slow',
    code: `const { promise: isOpen, resolve: open } = Promise.withResolvers();
      middleware.inboundMessage = async (ctx) => {
        host.log('judges ' + ctx.message.text);
        if (ctx.message.text === 'slow') await isOpen;
      };
      commands.open = { description: 'd', handler: () => (open(), 'ok') };`,
  });
  const channel = await connect(fixture, made);
  const [, id = ''] = await deliver(fixture, made, channel, ['quick', 'slow']);
  await eventually(async () => (await fixture.readLog('judges slow')).length === 1);
  const first = (await fixture.call('GET', '/sessions')).body.items[0].id;
  t.equal((await fixture.call('DELETE', `/sessions/${first}`)).status, 204);
  await fixture.call('POST', `/sessions/${await fixture.session()}/commands/slow__open`, { input: '' });
  await eventually(async () => /deleted meanwhile/.test((await rowOf(fixture, id)).last_error));
  await makeDeliveryDue(fixture.pool, made.installationId, id);
  await eventually(async () => (await rowOf(fixture, id)).state === 'delivered');
  const { rows } = await fixture.pool.query('SELECT session_id, text FROM session_messages WHERE id = $1', [`${id}:0`]);
  t.match(rows, [{ text: 'slow' }]);
  t.not(rows[0].session_id, first);
});

/** Each word of a request is a message. */
const LINES = `channel.receive = ({ bodyText, attempt }) => {
  host.log('called', { attempt });
  return { messages: bodyText.split(' ').map((text) => ({ conversationKey: 'k', from: 'v', text })) };
};`;

t.test(
  'messages that take too long are stored in several attempts, in order, and none counts as a failure',
  async (t) => {
    const fixture = shared.withNewAccount();
    const made = await fixture.install({ slug: 'lines', code: LINES });
    await fixture.install({
      slug: 'censor',
      code: `middleware.inboundMessage = ({ message, cancel }) => {
      host.log('asked', { text: message.text });
      if (message.text.startsWith('bad')) cancel('no');
    };`,
    });
    const listAsked = async () => (await fixture.readLog('asked')).map(({ text }) => text);
    isSlow = true;
    t.teardown(() => {
      isSlow = false;
    });
    const [id = '', after = ''] = await deliver(fixture, made, await connect(fixture, made), [
      'bad-1 good bad-2',
      'after',
    ]);
    for (const each of [id, after]) {
      await eventually(async () => (await rowOf(fixture, each)).state === 'delivered');
      t.match(await rowOf(fixture, each), { attempts: 1, interruptions: 0, set_aside: false, last_error: null });
    }
    t.same(await listAsked(), ['bad-1', 'good', 'bad-2', 'after'], 'each once');
    t.same(await fixture.readLog('called'), Array(4).fill({ attempt: 1 }));
    const filter = { installationId: made.installationId, id, limit: 1 };
    await inTransaction(fixture.pool, (tx) => replayDeliveries(tx, filter));
    await eventually(async () => (await rowOf(fixture, id)).state === 'delivered');
    t.same((await listAsked()).slice(4), ['bad-1', 'bad-2'], 'a replay has what was cancelled judged once');
  },
);

t.test('a stopping supervisor stores no further message, and leaves the others to the next one', async (t) => {
  const fixture = shared.withNewAccount();
  const { pool, supervisor } = fixture;
  const made = await fixture.install({ slug: 'stopped', code: LINES });
  const texts = Array.from({ length: 50 }, (_, n) => `n${n}`);
  let stopped: Promise<void> | null = null;
  onJudged = async () => {
    stopped ??= supervisor.stop();
    await eventually(() => {
      const work = supervisor.ownership.begin(made.accountId);
      work?.end();
      return work === null;
    });
  };
  const [id = ''] = await deliver(fixture, made, await connect(fixture, made), [texts.join(' ')]);
  await eventually(() => stopped !== null);
  await stopped;
  const row = await rowOf(fixture, id);
  t.match(row, { state: 'pending', attempts: 0, interruptions: 0, claimed_by: null });
  t.match(row.last_error, /^\d+ of its 50 messages are processed; the others follow in another attempt$/);
  const { rows } = await pool.query(`SELECT text FROM session_messages WHERE account_id = $1 ORDER BY position`, [
    made.accountId,
  ]);
  t.ok(rows.length > 0 && rows.length < texts.length, `${rows.length} messages`);
  t.same(
    rows.map(({ text }) => text),
    texts.slice(0, rows.length),
  );
});
