/** Attempts that were interrupted from outside are repeated at once and counted separately, up to a limit. */
import t from 'tap';
import { readStorageValue } from '../../../db/installations/plugin-storage.ts';
import { INTERRUPTIONS_MAX } from '../../../db/jobs/interruptions.ts';
import { notifyInstallationChanged, notifyRestartRequested } from '../../../db/postgres/notifications.ts';
import { judgeAttempt } from '../../../supervisor/delivery/event-retry-policy.ts';
import { isUsedUp, judgeDelivery } from '../../../supervisor/delivery/webhook-retry-policy.ts';
import { eventually } from '../../runner/eventually.ts';
import { connect, deliver, recorder, rowOf } from '../delivery/channels.ts';
import { storeKey, waitForKey } from '../held-handlers.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);
/** More than the failures after which a child is not restarted for ten minutes and a delivery fails for good. */
const KILLS = 7;
const READY = { status: 'ready' } as const;

t.test('a plugin whose process is killed from outside gets its delivery again at once', async (t) => {
  const fixture = shared.withNewAccount();
  const waits = recorder(`if (request.attempt <= ${KILLS}) await new Promise(() => undefined);`);
  const made = await fixture.install({ slug: 'victim', capabilities: ['host.storage'], code: waits });
  const [id = ''] = await deliver(fixture, made, await connect(fixture, made), ['x']);
  const seen = async () =>
    JSON.parse((await readStorageValue(fixture.pool, made.installationId, 'seen')) ?? '[]').length;
  for (let kill = 1; kill <= KILLS; kill += 1) {
    await eventually(async () => (await seen()) === kill);
    const pid = fixture.supervisor.fleet.getPid(made.installationId);
    // With process id 0 the signal would go to this process.
    if (!pid) throw new Error('there is no process to kill');
    process.kill(pid, 'SIGKILL');
  }
  await eventually(async () => (await rowOf(fixture, id)).state === 'delivered');
  t.match(await rowOf(fixture, id), { attempts: KILLS + 1, interruptions: KILLS });
  const { rows } = await fixture.pool.query('SELECT status FROM installations WHERE id = $1', [made.installationId]);
  t.same(rows, [{ status: 'ready' }], 'nor has the plugin failed');
});

t.test(
  'what a dead supervisor was at is an interruption, and a poison that ends supervisors ends itself',
  async (t) => {
    const fixture = shared.withNewAccount();
    const made = await fixture.install({
      slug: 'poison',
      capabilities: ['host.storage'],
      code: recorder(),
      status: 'paused',
    });
    const channel = await connect(fixture, made);
    const [cut = '', poison = ''] = await deliver(fixture, made, channel, ['cut', 'poison']);
    await eventually(async () => (await rowOf(fixture, cut)).last_error !== null);
    const set = (id: string, attempts: number, interruptions: number) =>
      fixture.pool.query('UPDATE deliveries SET attempts = $2, interruptions = $3, claimed_by = 1 WHERE id = $1', [
        ...[id, attempts, interruptions],
      ]);
    await set(cut, 3, 1);
    await set(poison, INTERRUPTIONS_MAX + 6, INTERRUPTIONS_MAX);
    const state = { status: 'ready', id: made.installationId };
    await fixture.pool.query(
      `UPDATE installations SET status = $1, updated_at = now() WHERE id = $2`,
      Object.values(state),
    );
    await notifyInstallationChanged(fixture.pool, made.installationId);
    await eventually(async () => (await rowOf(fixture, poison)).state !== 'pending');
    t.match(await rowOf(fixture, cut), { state: 'delivered', attempts: 4, interruptions: 2 });
    t.match(await rowOf(fixture, poison), { state: 'dead', last_error: /the supervisor ended/ });
  },
);

const WAITS = [5, 15];

t.test('fewer waits give a delivery with more attempts one more, and only interruptions use it up', async (t) => {
  const failed = { kind: 'error', message: 'no' } as const;
  const attempt = WAITS.length + 3;
  t.equal(isUsedUp({ attempt, interruptions: 1 }, WAITS.length + 1), false);
  t.same(judgeDelivery({ attempt, interruptions: 1 }, failed, READY, WAITS, 0.5), { kind: 'dead', error: 'no' });
  const poison = { attempt: attempt + INTERRUPTIONS_MAX, interruptions: INTERRUPTIONS_MAX };
  t.equal(isUsedUp(poison, WAITS.length + 1), true);
});

t.test('interruptions cost no wait, and beyond so many they count', async (t) => {
  const killed = { kind: 'error', message: 'it was ended by SIGKILL', interrupted: true } as const;
  const once = { attempt: 3, interruptions: 2 };
  t.match(judgeDelivery(once, killed, READY, WAITS, 0.5), { kind: 'retry', afterSeconds: 0, as: 'interruption' });
  t.match(judgeAttempt('sessionStarted', once, killed, 0.5), { kind: 'retry', afterSeconds: 0, as: 'interruption' });
  const often = { attempt: INTERRUPTIONS_MAX + 1, interruptions: INTERRUPTIONS_MAX };
  t.match(judgeDelivery(often, killed, READY, WAITS, 0.5), { kind: 'retry', afterSeconds: 5, as: 'failure' });
  t.match(judgeAttempt('sessionStarted', often, killed, 0.5), { kind: 'retry', afterSeconds: 5, as: 'failure' });
  const failed = { kind: 'error', message: 'x' } as const;
  t.match(judgeDelivery(once, failed, READY, WAITS, 0.5), { afterSeconds: 5, as: 'failure' }, 'the first real failure');
});

/** Waits in its first attempt until its call of the host is refused or its process ends. */
const WAITS_FOR_END = `channel.receive = async (request) => {
  host.log('attempt ' + request.attempt);
  while (request.attempt === 1) await host.storage.get('x').then(() => new Promise((resolve) => setTimeout(resolve, 20)));
};`;

t.test('a handler that loses its grants by a pause uses up no attempt', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({ slug: 'paused', capabilities: ['host.storage'], code: WAITS_FOR_END });
  const [id = ''] = await deliver(fixture, made, await connect(fixture, made), ['x']);
  await eventually(async () => (await fixture.readLog('attempt 1')).length === 1);
  await fixture.change(made, "status = 'paused'");
  await eventually(async () => (await rowOf(fixture, id)).last_error !== null);
  await fixture.change(made, "status = 'ready'");
  await eventually(async () => (await rowOf(fixture, id)).state === 'delivered');
  t.match(await rowOf(fixture, id), { interruptions: 1 });
});

t.test('an attempt that the stop of the supervisor cuts off is an interruption', async (t) => {
  const fixture = await startSupervisorFixture(t);
  const made = await fixture.install({ slug: 'stopped', capabilities: ['host.storage'], code: WAITS_FOR_END });
  const [id = ''] = await deliver(fixture, made, await connect(fixture, made), ['x']);
  await eventually(async () => (await fixture.readLog('attempt 1')).length === 1);
  await fixture.supervisor.fleet.close(0);
  await eventually(async () => (await rowOf(fixture, id)).last_error !== null);
  t.match(await rowOf(fixture, id), { state: 'pending', interruptions: 1 });
});

t.test(
  'a restart lets a running handler end with its grants, and the next one starts in another process',
  async (t) => {
    const fixture = shared.withNewAccount();
    const code = `channel.receive = async (request) => {
    host.log('attempt ' + request.bodyText);
    ${waitForKey('request.bodyText')}
  };`;
    const made = await fixture.install({ slug: 'restarted', capabilities: ['host.storage'], code });
    const [first = ''] = await deliver(fixture, made, await connect(fixture, made), ['one']);
    await eventually(async () => (await fixture.readLog('attempt one')).length === 1);
    const getPid = () => fixture.supervisor.fleet.getPid(made.installationId);
    const before = getPid();
    await notifyRestartRequested(fixture.pool, made.installationId);
    await eventually(async () => getPid() === null);
    const [second = ''] = await deliver(fixture, made, await connect(fixture, made, 'other'), ['two']);
    await eventually(async () => (await fixture.readLog('attempt two')).length === 1);
    t.not(getPid(), before);
    for (const key of ['one', 'two']) await storeKey(fixture.pool, made, key);
    for (const id of [first, second]) {
      await eventually(async () => (await rowOf(fixture, id)).claimed_by === null);
      t.match(await rowOf(fixture, id), { state: 'delivered', attempts: 1 });
    }
  },
);
