/** An attempt that breaks off at any of its steps, as where the database goes away there, is made good by the next. */
import t from 'tap';
import { makeDeliveryDue } from '../../../db/channels/delivery-history.ts';
import { recordEvent } from '../../../db/installations/events.ts';
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

/** Breaks the first pass of each step. */
function faultPoint(step: string): undefined {
  passes.set(step, passesOf(step) + 1);
  const isBroken = DELIVERY_STEPS.includes(step) || EVENT_STEPS.includes(step);
  if (isBroken && passesOf(step) === 1) throw new Error(`broken at ${step}`);
}

const shared = await startSupervisorFixture(t, { faultPoint });

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
