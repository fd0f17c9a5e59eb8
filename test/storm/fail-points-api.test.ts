/**
 * The API is killed at each step of a webhook's and of an event's way. Whoever is started in its place is armed with the
 * next fail point, so each recovery happens under the next blow. What was acknowledged arrives.
 */
import t from 'tap';
import { ended, startStormFixture } from './storm-fixture.ts';

t.setTimeout(240_000);
const { start, storage, vendor, gate, ledger, arrived } = await startStormFixture(t);
const supervisor = await start('supervisor');

/** Where the API dies, and where the database is meanwhile. */
const API_POINTS = [
  ['intake.before-commit:2', 'there'],
  ['intake.kept:2', 'there'],
  ['events.queued:2', 'there'],
  ['rest.answering:2', 'there'],
  ['intake.before-spool:2', 'away'],
  ['intake.kept:3', 'away'],
  ['intake.drained:1', 'back'],
] as const;

t.test('requests acknowledged before the API was killed are delivered', async (t) => {
  for (const [point, database] of API_POINTS) {
    // One that finds something in its spool drains it, and dies of that, perhaps before it serves.
    const api = await start('api', point).catch((error: Error) => error);
    if (api instanceof Error) {
      t.match(api.message, /ended by SIGKILL/, `${point}, the database ${database}`);
      t.equal(database, 'back');
      continue;
    }
    const end = ended(api);
    // The addresses are known before the database goes away.
    await vendor.send();
    if (database !== 'there') gate.shut();
    if (database === 'back') {
      await vendor.send();
      gate.open();
    }
    await vendor.sendUntil(end);
    t.equal(await end, 'SIGKILL', `${point}, the database ${database}`);
    gate.open();
  }
  const last = await start('api');
  await vendor.send();
  await arrived();
  const { lost, misplaced, waits } = ledger.verdict();
  t.same({ lost, misplaced }, { lost: [], misplaced: [] });
  t.ok(waits.length > API_POINTS.length, `${waits.length} acknowledged`);
  await last.end('SIGTERM');
});

t.test('a channel is disconnected completely or not at all, and plugins get sessionDeleted', async (t) => {
  const { doubled } = ledger.verdict();
  const api = await start('api', 'events.all-queued:1');
  const end = ended(api);
  const [routingId = ''] = vendor.routingIds;
  const session = await vendor.startConversation(routingId);
  const { rows } = await storage.pool.query('SELECT id, installation_id AS of FROM channels WHERE routing_id = $1', [
    routingId,
  ]);
  const removed = vendor.remove(`/installations/${rows[0].of}/channels/${rows[0].id}`, `${session} deleted`);
  t.equal(await end, 'SIGKILL');
  const last = await start('api');
  await removed;
  await arrived();
  t.match(ledger.verdict(), { lost: [], doubled });
  await last.end('SIGTERM');
  await supervisor.end('SIGTERM');
});
