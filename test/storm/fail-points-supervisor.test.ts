/**
 * The supervisor is killed at each step of a webhook's, of an event's and of a reply's way. Its successor is armed with the next
 * fail point, so each recovery happens under the next kill. What was acknowledged arrives. The quick run has each step once: deliveries
 * and replies share the steps claimed, answered, taken and finished.
 */
import t from 'tap';
import { insertChannel } from '../../db/channels/channels.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { amount } from '../runner/soak.ts';
import { CAPABILITIES, REPORTING } from './recorder.ts';
import { ended, startStormFixture } from './storm-fixture.ts';

t.setTimeout(240_000);

const SUPERVISOR_POINTS = amount({
  quick: [
    'delivery.claimed:2',
    'delivery.taken:2',
    'event.answered:2',
    'event.finished:2',
    'events.queued:2',
    'session.answering:2',
    'reply.guarded:2',
    'reply.written:2',
    'reply.answered:2',
    'reply.finished:2',
  ],
  soak: [
    'delivery.claimed:2',
    'delivery.answered:2',
    'delivery.taken:2',
    'delivery.finished:2',
    'event.claimed:2',
    'event.answered:2',
    'event.finished:2',
    'events.queued:2',
    'session.answering:2',
    'reply.guarded:2',
    'reply.written:2',
    'reply.claimed:2',
    'reply.answered:2',
    'reply.taken:2',
    'reply.finished:2',
  ],
});

t.test('work of a killed supervisor is delivered', async (t) => {
  const { start, vendor, ledger, arrived } = await startStormFixture(t);
  const api = await start('api');
  const first = await start('supervisor');
  await vendor.openConversation();
  await first.end('SIGKILL');
  for (const point of SUPERVISOR_POINTS) {
    // One that finds its work waiting may die of it before it serves.
    const supervisor = await start('supervisor', point).catch((error: Error) => error);
    if (supervisor instanceof Error) {
      t.match(supervisor.message, /ended by SIGKILL/, point);
      continue;
    }
    const end = ended(supervisor);
    await vendor.sendUntil(end);
    t.equal(await end, 'SIGKILL', point);
  }
  const last = await start('supervisor');
  await vendor.send();
  await arrived();
  const { lost, misplaced, doubled, waits } = ledger.verdict();
  t.same({ lost, misplaced }, { lost: [], misplaced: [] });
  t.comment(`${waits.length} acknowledged, ${doubled} arrived again, slowest ${waits.at(-1)} ms`);
  await last.end('SIGTERM');
  await api.end('SIGTERM');
});

t.test('a removal interrupted by a kill is completed by the next supervisor', async (t) => {
  const { start, storage, vendor, ledger, arrived } = await startStormFixture(t);
  const api = await start('api');
  const supervisor = await start('supervisor', 'events.all-queued:1');
  const end = ended(supervisor);
  const leaver = await storage.install({ slug: 'leaver', code: REPORTING, capabilities: CAPABILITIES });
  const channel = await inTransaction(storage.pool, (tx) => insertChannel(tx, { ...leaver, name: 'c' }));
  const session = await vendor.startConversation(channel.routingId);
  await vendor.remove(`/installations/${leaver.installationId}`, `${session} deleted`);
  t.equal(await end, 'SIGKILL');
  const last = await start('supervisor');
  await arrived();
  t.same(ledger.verdict().lost, []);
  const { rows } = await storage.pool.query('SELECT 1 FROM installations WHERE id = $1', [leaver.installationId]);
  t.equal(rows.length, 0);
  await last.end('SIGTERM');
  await api.end('SIGTERM');
});
