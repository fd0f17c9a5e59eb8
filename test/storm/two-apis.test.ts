/** Several APIs on one database: what a vendor sent to any arrives in the order it was sent, also after the database was away. */
import { randomUUIDv7 } from 'node:crypto';
import t from 'tap';
import { Intake } from '../../api/ingress/intake.ts';
import { Spool } from '../../api/ingress/spool.ts';
import { isUnsettledSql } from '../../db/channels/spools.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { freePort } from '../fixtures/free-port.ts';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';
import { seededRandom } from '../runner/random.ts';
import { amount } from '../runner/soak.ts';
import { type Gate, openGate } from './database-gate.ts';
import { type Entry, judge } from './ledger.ts';
import { startStormFixture } from './storm-fixture.ts';

const AWAY_MS = amount({ quick: 3_000, soak: 12_000 });
/** Between requests, as of one busy vendor, milliseconds. */
const PAUSE_MS = amount({ quick: 60, soak: 20 });

t.test('a vendor that alternates between two APIs is served in order after an outage', async (t) => {
  const { start, gate, ledger, arrived, vendor } = await startStormFixture(t);
  await start('supervisor');
  const ports = [await freePort(), await freePort()];
  for (const port of ports) await start('api', '', { PORT: String(port) });
  const [first, second] = ports as [number, number];
  const places = new Map<string, number>();
  const send = async (port: number, queue: string): Promise<number> => {
    const place = places.get(queue) ?? 0;
    places.set(queue, place + 1);
    const answer = await fetch(`http://127.0.0.1:${port}/webhook/plugin/${queue}`, {
      method: 'POST',
      body: `${queue} ${place}`,
    });
    const { id } = (await answer.json()) as { id: string };
    if (answer.status === 200) ledger.acknowledge({ id, queue, place });
    return answer.status;
  };
  const statuses: number[] = [];
  const alternate = async (queue: string, isOver: () => boolean): Promise<void> => {
    for (let sent = 0; !isOver(); sent += 1) {
      statuses.push(await send(sent % 2 === 0 ? first : second, queue));
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  };
  const during = async (ms: number, queue: string): Promise<void> => {
    const until = performance.now() + ms;
    await alternate(queue, () => performance.now() > until);
  };
  const [known, other] = vendor.routingIds as [string, string];
  // The second API never hears of this address while the database is there.
  await send(first, known);
  await arrived();
  gate.shut();
  await during(AWAY_MS, known);
  t.equal(await send(second, other), 200, 'an address that an API never served is accepted');
  gate.open();
  // It goes on while both empty their disks.
  await during(AWAY_MS, known);
  await arrived();
  const { lost, misplaced, doubled, waits } = ledger.verdict();
  t.same(
    statuses.filter((status) => status !== 200),
    [],
    'every request was accepted',
  );
  t.match({ lost, misplaced, doubled }, { lost: [], misplaced: [], doubled: 0 });
  t.comment(`${waits.length} accepted, ${misplaced.length} overtaken, the slowest after ${waits.at(-1)} ms`);
});

const APIS = 3;
const CHANNELS = 40;
const STORM_MS = 120_000;
const skip = amount<string | false>({ quick: 'with --soak', soak: false });

t.test('outages of every length, one after the other: nothing is lost or overtaken', { skip }, async (t) => {
  const { pool, url } = await testDatabase(t);
  const random = seededRandom();
  const pause = (min: number, max: number) =>
    new Promise<void>((resolve) => setTimeout(resolve, random.integer(min, max)));
  const gates: Gate[] = [];
  const intakes: Intake[] = [];
  for (let api = 0; api < APIS; api += 1) {
    const gate = await openGate(t, url);
    const own = openPool(gate.url, { name: 'bulkhead-storm', connections: 3, onError: () => undefined });
    t.teardown(() => own.close());
    const spool = await Spool.open(await temporaryFolder(t), 1e9, () => undefined);
    gates.push(gate);
    intakes.push(new Intake({ pool: own.pool, spool, onError: () => undefined }));
  }
  const acknowledged: Entry[] = [];
  const arrived: Entry[] = [];
  let isOver = false;
  /** Sends to any of the APIs, each request after the answer to the last one. @returns how many */
  const send = async (queue: string): Promise<number> => {
    let place = 0;
    for (; !isOver; place += 1) {
      const id = randomUUIDv7();
      const owner = { channelId: queue, installationId: 'i', accountId: 'a', routingId: 'r' };
      const request = { method: 'POST', query: String(place), headers: [], body: Buffer.from('x') };
      await random.pick(intakes).accept({ id, receivedAt: Date.now(), ...owner, ...request });
      acknowledged.push({ id, queue, place, at: Date.now() });
      await pause(10, 70);
    }
    return place;
  };
  const CLAIM = `UPDATE deliveries d SET state = 'delivered', attempts = 1, finished_at = now()
    WHERE d.id = (SELECT id FROM deliveries WHERE channel_id = $1 AND state = 'pending' ORDER BY position LIMIT 1)
      AND NOT ${isUnsettledSql('d')} RETURNING d.id, d.query AS place`;
  const deliver = async (queue: string, isDone: (arrivals: number) => boolean): Promise<void> => {
    for (let arrivals = 0; !isDone(arrivals); ) {
      const [row] = (await pool.query<{ id: string; place: string }>(CLAIM, [queue])).rows;
      if (!row) await pause(10, 30);
      else {
        arrivals += 1;
        arrived.push({ id: row.id, queue, place: Number(row.place), at: Date.now() });
      }
    }
  };
  const queues = Array.from({ length: CHANNELS }, (_, at) => `c${at}`);
  const work = queues.map(async (queue) => {
    let sent = Number.POSITIVE_INFINITY;
    await Promise.all([
      send(queue).then((count) => {
        sent = count;
      }),
      deliver(queue, (arrivals) => arrivals >= sent),
    ]);
  });
  const endsAt = performance.now() + STORM_MS;
  let outages = 0;
  for (; performance.now() < endsAt; outages += 1) {
    await pause(300, 5_000);
    for (const gate of gates) gate.shut();
    await pause(0, random.pick([1_500, 7_000]));
    for (const gate of gates) gate.open();
  }
  isOver = true;
  await Promise.all(work);
  for (const intake of intakes) await intake.close();
  const { lost, misplaced, doubled } = judge(acknowledged, arrived);
  t.same({ lost, misplaced, doubled }, { lost: [], misplaced: [], doubled: 0 });
  t.comment(`${outages} outages, ${acknowledged.length} accepted`);
});
