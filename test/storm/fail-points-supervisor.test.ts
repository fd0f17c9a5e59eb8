/**
 * The supervisor is killed at each step of a webhook's and of an event's way. Whoever is started in its place is armed
 * with the next fail point, so each recovery happens under the next blow. What was acknowledged arrives.
 */
import t from 'tap';
import { ended, openScene } from './scene.ts';

t.setTimeout(240_000);

const SUPERVISOR_POINTS = [
  ...['delivery.claimed:2', 'delivery.answered:2', 'delivery.taken:2', 'delivery.finished:2'],
  ...['event.claimed:2', 'event.answered:2', 'event.finished:2', 'events.queued:2'],
];

t.test('what the supervisor was at when it died arrives', async (t) => {
  const { start, vendor, ledger, arrived } = await openScene(t);
  const api = await start('api');
  for (const point of SUPERVISOR_POINTS) {
    const supervisor = await start('supervisor', point);
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
