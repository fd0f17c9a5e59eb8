/** A delivery that waits for a plugin which failed too often is attempted as soon as that one runs again. */
import t from 'tap';
import { makeDeliveryDue } from '../../../db/channels/delivery-history.ts';
import { makeFailedHeadsDue, makeGuardedHeadsDue } from '../../../db/channels/delivery-queue.ts';
import { eventually } from '../../runner/eventually.ts';
import { EXHAUST_MEMORY, startSupervisorFixture } from '../supervisor-fixture.ts';
import { connect, deliver, recorder, rowOf } from './channels.ts';

/** The longest backoff between the crashes after which an installation counts as failed. */
const AFTER_BACKOFF_MS = 10_000;
/** A failed installation is tried again after this time. */
const BEFORE_TRIAL_MS = 600_000;
let passedMs = 0;
const now = (): number => Date.now() + passedMs;
// The waits are longer than any test.
const fixture = await startSupervisorFixture(t, { deliveryWaits: [600, 600, 600, 600], now });

t.test(
  'the first delivery of a failed installation, and one that needs it, are attempted when it is ready again',
  async (t) => {
    const code = `middleware.inboundMessage = ({ message }) => ({ message: { text: message.text + ' seen' } });
    middleware.systemPrompt = ({ systemPrompt }) => {
      if (systemPrompt === 'crash') ${EXHAUST_MEMORY}
    };
    ${recorder(`if (request.attempt < 2) throw new Error('not yet');`)}`;
    const made = await fixture.install({ slug: 'repaired', capabilities: ['host.storage'], required: true, code });
    const other = await fixture.install({
      slug: 'other',
      code: `channel.receive = ({ bodyText }) => ({ messages: [{ conversationKey: 'k', from: 'v', text: bodyText }] });`,
    });
    const channel = await connect(fixture, made);
    const ownChannel = await connect(fixture, made);
    const [first = ''] = await deliver(fixture, made, channel, ['first']);
    await eventually(async () => (await rowOf(fixture, first)).last_error !== null);
    // As attempts leave it at which the plugin could not be called.
    await fixture.pool.query('UPDATE deliveries SET attempts = 4 WHERE id = $1', [first]);
    const session = await fixture.session();
    const prompt = (systemPrompt: string) =>
      fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context: { systemPrompt, model: 'm' } });
    const hasStatus = async (status: string) => {
      const sql = 'SELECT 1 FROM installations WHERE id = $1 AND status = $2';
      return (await fixture.pool.query(sql, [made.installationId, status])).rowCount === 1;
    };
    await eventually(async () => {
      await prompt('crash');
      passedMs += AFTER_BACKOFF_MS;
      return hasStatus('failed');
    });
    t.same(await makeFailedHeadsDue(fixture.pool, made.installationId), [], 'not while it is failed');
    const [own = ''] = await deliver(fixture, made, ownChannel, ['own']);
    await eventually(async () => {
      const { attempts, claimed_by } = await rowOf(fixture, own);
      return attempts === 1 && claimed_by === null;
    });
    t.match(await rowOf(fixture, own), { last_error: /^unavailable: / }, 'it counts, although it could not be called');
    const [guarded = ''] = await deliver(fixture, other, await connect(fixture, other), ['hello']);
    for (const attempts of [1, 2, 3]) {
      const row = await eventually(async () => {
        const found = await rowOf(fixture, guarded);
        return found.attempts === attempts && found.claimed_by === null && found;
      });
      t.match(row, { last_error: /“repaired” could not run, and this account requires it/, set_aside: false });
      if (attempts < 3) await makeDeliveryDue(fixture.pool, other.installationId, guarded);
    }
    t.same(await makeGuardedHeadsDue(fixture.pool, made), [], 'not while it is failed');
    passedMs += BEFORE_TRIAL_MS;
    await prompt('well');
    await eventually(async () => (await rowOf(fixture, first)).state === 'delivered');
    t.match(await rowOf(fixture, first), { attempts: 5 });
    await eventually(async () => (await rowOf(fixture, own)).state === 'delivered');
    await eventually(async () => (await rowOf(fixture, guarded)).state === 'delivered');
    const { rows } = await fixture.pool.query('SELECT text FROM session_messages WHERE id = $1', [`${guarded}:0`]);
    t.same(rows, [{ text: 'hello seen' }]);
    t.ok(await hasStatus('ready'));
  },
);
