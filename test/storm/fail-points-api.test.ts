/**
 * The API is killed while something is blocked at each step of a webhook's, of an event's and of a disconnection's way.
 * Its successor is stopped at the next steps, so each recovery happens under the next kill. Every acknowledged request arrives.
 */
import t from 'tap';
import { insertChannel } from '../../db/channels/channels.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { amount } from '../runner/soak.ts';
import { SILENT } from './recorder.ts';
import { startStormFixture } from './storm-fixture.ts';

const { start, storage, vendor, addVendor, gate, ledger, arrived } = await startStormFixture(t);
const supervisor = await start('supervisor');
const vendors = [vendor, await addVendor('bob')];

interface Kill {
  /** The steps at which things are blocked, and at which pass. Webhook requests are stored one group after another: one step of theirs at a time. */
  readonly points: Readonly<Record<string, number>>;
  /** State of the database once the API has served its first requests. */
  readonly database: 'there' | 'away';
}
/** The others are kills while requests are in the spool, which the tests of the spool have without a service. */
const KILLS = amount({ quick: 1, soak: 4 });
const allKills: readonly Kill[] = [
  {
    points: { 'intake.before-commit': 5, 'rest.answering': 2, 'events.queued': 3, 'events.all-queued': 1 },
    database: 'there',
  },
  { points: { 'intake.kept': 2 }, database: 'there' },
  { points: { 'intake.before-spool': 2 }, database: 'away' },
  // While the spool of the one before is emptied, requests are added to it.
  { points: { 'intake.drained': 1, 'intake.kept': 2 }, database: 'there' },
];
const kills = allKills.slice(0, KILLS);

t.test('what was acknowledged before the API was killed is done, and a channel disconnected completely', async (t) => {
  const visited = await storage.install({ slug: 'visited', code: SILENT });
  const channel = await inTransaction(storage.pool, (tx) => insertChannel(tx, { ...visited, name: 'c' }));
  const path = `/installations/${visited.installationId}/channels/${channel.id}`;
  let session = '';
  for (const { points, database } of kills) {
    const api = await start(
      'api',
      Object.entries(points)
        .map(([step, count]) => `${step}:${count}`)
        .join(),
    );
    if (session === '') session = await vendor.startConversation(channel.routingId);
    const removing = 'events.all-queued' in points ? vendor.tryRemoval(path) : null;
    if (database === 'away') {
      // The addresses are known before the database goes away.
      await vendor.deliverAll();
      gate.shut();
    }
    const killed = Promise.withResolvers<void>();
    const load = Promise.all(vendors.map((one) => one.sendUntil(killed.promise)));
    await api.stoppedAt(Object.keys(points));
    await api.end('SIGKILL');
    killed.resolve();
    await load;
    t.notOk(await removing);
    gate.open();
    t.pass(`killed at ${Object.keys(points).join(', ')}, the database ${database}`);
  }
  const last = await start('api');
  await Promise.all(vendors.map((one) => one.send()));
  await vendor.remove(path, `${session} deleted`);
  await arrived();
  const { lost, misplaced, waits } = ledger.verdict();
  t.same({ lost, misplaced }, { lost: [], misplaced: [] });
  const { rows } = await storage.pool.query('SELECT 1 FROM channels WHERE id = $1', [channel.id]);
  t.equal(rows.length, 0, 'the channel is gone');
  t.ok(waits.length > kills.length, `${waits.length} acknowledged`);
  t.equal(await last.end('SIGTERM'), 0);
  t.equal(await supervisor.end('SIGTERM'), 0);
});
