/** An attempt that breaks off at any of its steps, as where the database goes away there, is made good by the next. */
import t from 'tap';
import { recordEvent } from '../../../db/installations/events.ts';
import { eventually, startSupervisorFixture } from '../supervisor-fixture.ts';
import { connect, deliver, rowOf } from './channels.ts';

t.setTimeout(120_000);
const CODE = `
channel.receive = (request) => ({ messages: [{ conversationKey: 'k', from: 'v', text: request.bodyText }] });
events.pluginInstalled = () => undefined;`;

/** Breaks the first pass of a step. */
function breakOnce(step: string) {
  let passed = 0;
  return {
    faultPoint: (at: string) => {
      if (at === step && passed++ === 0) throw new Error(`broken at ${step}`);
    },
    count: () => passed,
  };
}

for (const step of ['delivery.claimed', 'delivery.answered', 'delivery.taken', 'delivery.finished'])
  t.test(step, async (t) => {
    const fault = breakOnce(step);
    const fixture = await startSupervisorFixture(t, { faultPoint: fault.faultPoint });
    const made = await fixture.install({ code: CODE });
    const channel = await connect(fixture, made);
    const ids = await deliver(fixture, made, channel, ['1', '2', '3']);
    await eventually(async () => (await rowOf(fixture, ids[2] ?? '')).state === 'delivered', 20_000);
    t.ok(fault.count() > 1);
    const session = (await fixture.call('GET', '/sessions')).body.items[0].id;
    const { items } = (await fixture.call('GET', `/sessions/${session}/messages`)).body;
    t.same(
      items.map((item: { text: string }) => item.text),
      ['1', '2', '3'],
    );
  });

for (const step of ['event.claimed', 'event.answered', 'event.finished'])
  t.test(step, async (t) => {
    const fault = breakOnce(step);
    const fixture = await startSupervisorFixture(t, { faultPoint: fault.faultPoint });
    const { installationId, accountId, pluginId, versionId } = await fixture.install({ code: CODE });
    const id = await recordEvent(fixture.pool, fixture.supervisor.queues, {
      ...{ installationId, accountId, pluginId, versionId, semVer: '1.0.0' },
      type: 'pluginInstalled',
      data: { reason: 'install' },
    });
    const state = async () => (await fixture.pool.query('SELECT state FROM events WHERE id = $1', [id])).rows[0].state;
    await eventually(async () => (await state()) === 'delivered', 30_000);
    t.ok(fault.count() >= 1);
  });
