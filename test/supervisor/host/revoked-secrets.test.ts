/** A child that loses a secret of its version while it runs gets an error: null would mean that the secret is not set. */
import t from 'tap';
import { eventually } from '../../runner/eventually.ts';
import { connect, deliver, rowOf } from '../delivery/channels.ts';
import { type Installed, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);

/** Compares the secret itself, once its grants are gone, and drops what it takes for forged. The next attempts read it at once. */
const CODE = `channel.receive = async (request) => {
  if (request.attempt === 1) {
    host.log('begins');
    while (await host.storage.get('x').then(() => true, () => false)) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const secret = await host.secrets.get('webhookSecret');
  if (request.headers['x-token'] !== secret) return;
  return { messages: [{ conversationKey: 'c', from: 'f', text: request.bodyText }] };
};`;
/** Does not accept the next attempt, which may come before the state of the first one is read. */
const NEXT_CODE = `channel.receive = () => { throw new Error('the next version'); };`;

const WHY = 'the plugin was paused, uninstalled or updated';

const changes: Record<string, (fixture: SupervisorFixture, made: Installed) => Promise<unknown>> = {
  'a pause': (fixture, made) => fixture.change(made, "status = 'paused'"),
  'an update to a version that does not declare it': (fixture, made) =>
    fixture.beginUpdate(made, { code: NEXT_CODE, secrets: { other: 'x' }, semVer: '1.1.0' }, fixture.supervisor.queues),
  'an update to a version that may not read its value': (fixture, made) =>
    fixture.beginUpdate(
      made,
      { code: NEXT_CODE, secretUses: { webhookSecret: ['webhooks'] }, semVer: '1.1.0' },
      fixture.supervisor.queues,
    ),
};

for (const [name, change] of Object.entries(changes))
  t.test(`${name} does not let a delivery count as delivered`, async (t) => {
    const fixture = shared.withNewAccount();
    const made = await fixture.install({
      code: CODE,
      secrets: { webhookSecret: 'sesame' },
      capabilities: ['host.storage'],
    });
    const [id = ''] = await deliver(fixture, made, await connect(fixture, made), ['hello'], [['x-token', 'sesame']]);
    await eventually(async () => (await fixture.readLog('begins')).length === 1);
    await change(fixture, made);
    const failed = `channel.receive, attempt 1: host.secrets.get: the secret webhookSecret is not granted any more: ${WHY}`;
    await eventually(
      async () => (await rowOf(fixture, id)).state !== 'pending' || (await fixture.readLog(failed)).length === 1,
    );
    t.equal((await rowOf(fixture, id)).state, 'pending');
  });
