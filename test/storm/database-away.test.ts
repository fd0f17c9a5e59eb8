/**
 * The database is away: the webhook address goes on accepting, and everything is delivered when it is back, also where the
 * API was killed meanwhile.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { eventually } from '../runner/eventually.ts';
import { amount } from '../runner/soak.ts';
import { startStormFixture } from './storm-fixture.ts';

const SECONDS = amount({ quick: 3, soak: 60 });
/** How long the database is away. Milliseconds. */
const AWAY_MS = 1_500;
const { start, vendor, gate, supervisorGate, ledger, arrived, onArrival, storage } = await startStormFixture(t);
const supervisor = await start('supervisor');
let api = await start('api');

for (const killed of [false, true])
  t.test(killed ? 'the API is killed while it spools' : 'the API keeps running', async (t) => {
    await vendor.deliverAll();
    gate.shut();
    const over = sleep(SECONDS * 1000);
    const before = vendor.unanswered;
    await vendor.deliverUntil(killed ? sleep(SECONDS * 500) : over);
    t.equal(vendor.unanswered, before, 'every request was accepted');
    if (killed) await api.end('SIGKILL');
    await over;
    gate.open();
    if (killed) api = await start('api');
    await vendor.deliverAll();
    await arrived();
    const { lost, misplaced, doubled, waits } = ledger.verdict();
    t.match({ lost, misplaced, doubled }, { lost: [], misplaced: [], doubled: 0 });
    t.comment(`${waits.length} accepted, database away for ${SECONDS} s`);
  });

t.test('plugin work completed during a database outage is not repeated', async (t) => {
  const before = ledger.verdict().waits.length;
  onArrival(() => supervisorGate.shut());
  await vendor.deliver(vendor.routingIds[0] ?? '');
  await vendor.rerunSetup();
  await eventually(() => ledger.verdict().waits.length > before);
  // Long enough for the write of its outcome to have failed.
  await sleep(AWAY_MS);
  onArrival(() => undefined);
  supervisorGate.open();
  await vendor.deliverAll();
  await arrived();
  const pending = `SELECT id FROM deliveries WHERE state = 'pending' UNION ALL SELECT id FROM events WHERE state = 'pending'`;
  await eventually(async () => (await storage.pool.query(pending)).rows.length === 0);
  t.match(ledger.verdict(), { lost: [], doubled: 0, misplaced: [] });
  t.equal(await supervisor.end('SIGTERM'), 0);
  t.equal(await api.end('SIGTERM'), 0);
});
