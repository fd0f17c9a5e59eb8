/**
 * The supervisor is killed while something is blocked at each step of a webhook's, of an event's, of a reply's and of a
 * removal's way. Its successor is stopped at the same steps, so each recovery happens under the next kill. Everything
 * that was acknowledged arrives.
 */
import t from 'tap';
import { insertChannel } from '../../db/channels/channels.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { amount } from '../runner/soak.ts';
import { SILENT } from './recorder.ts';
import { startStormFixture } from './storm-fixture.ts';

const KILLS = amount({ quick: 2, soak: 10 });
const ACCOUNTS = ['bob', 'cleo'];
/** Each holds up its own channel, so there are more channels than steps. The conversations are opened before. */
const DELIVERY_STEPS = { 'delivery.claimed': 9, 'delivery.answered': 9, 'delivery.taken': 9, 'delivery.finished': 9 };
const EVENTS = 9;
/** Each holds up its own installation: one of each account. */
const EVENT_STEPS = { 'event.claimed': EVENTS, 'event.answered': EVENTS, 'event.finished': EVENTS };
const REPLY_STEPS = { 'reply.claimed': 2, 'reply.answered': 2, 'reply.taken': 2, 'reply.finished': 2 };
/** Each holds up one request, and `reply.written` its conversation: by then each conversation has a reply to send. */
const REQUEST_STEPS = { 'events.queued': EVENTS, 'reply.guarded': 16, 'reply.written': 13, 'session.answering': 20 };
const ALL_STEPS = { ...DELIVERY_STEPS, ...EVENT_STEPS, ...REPLY_STEPS, ...REQUEST_STEPS };
const REMOVAL_STEP = 'events.all-queued';

t.test('work of a killed supervisor is delivered, and a removal completed', async (t) => {
  const { start, storage, vendor, addVendor, ledger, arrived } = await startStormFixture(t);
  const vendors = [vendor, ...(await Promise.all(ACCOUNTS.map(addVendor)))];
  // It gets no events, so no other step holds up its removal.
  const leaver = await storage.install({ slug: 'leaver', code: SILENT });
  const channel = await inTransaction(storage.pool, (tx) => insertChannel(tx, { ...leaver, name: 'c' }));
  const api = await start('api');
  for (let kill = 0; kill < KILLS; kill += 1) {
    const points = Object.entries({ ...ALL_STEPS, [REMOVAL_STEP]: 1 });
    const supervisor = await start('supervisor', points.map(([step, count]) => `${step}:${count + kill}`).join());
    if (kill === 0) await Promise.all(vendors.map((one) => one.openConversations()));
    const session = kill === 0 ? await vendor.startConversation(channel.routingId) : null;
    const killed = Promise.withResolvers<void>();
    const load = [
      ...vendors.map((one) => one.sendUntil(killed.promise)),
      // While events are held up the vendors begin no more. With these, each installation has enough to pass every step.
      ...vendors.flatMap((one) => Array.from({ length: EVENTS + kill }, () => one.startSession())),
    ];
    await supervisor.stoppedAt(Object.keys(EVENT_STEPS));
    if (session !== null) {
      // The steps of events have stopped what they stop, and leave its own event alone.
      await vendor.remove(`/installations/${leaver.installationId}`, `${session} deleted`);
      await supervisor.stoppedAt([REMOVAL_STEP]);
    }
    await supervisor.stoppedAt(Object.keys(ALL_STEPS));
    await supervisor.end('SIGKILL');
    killed.resolve();
    await Promise.all(load);
    t.pass(`killed at ${Object.keys(ALL_STEPS).length} steps`);
  }
  const last = await start('supervisor');
  await Promise.all(vendors.map((one) => one.send()));
  await arrived();
  const { lost, misplaced, doubled, waits } = ledger.verdict();
  t.same({ lost, misplaced }, { lost: [], misplaced: [] });
  const { rows } = await storage.pool.query('SELECT 1 FROM installations WHERE id = $1', [leaver.installationId]);
  t.equal(rows.length, 0, 'the removal is complete');
  t.comment(`${waits.length} acknowledged, ${doubled} arrived again, slowest ${waits.at(-1)} ms`);
  t.equal(await last.end('SIGTERM'), 0);
  t.equal(await api.end('SIGTERM'), 0);
});
