/** Two APIs on one database: what a vendor sent to either arrives in the order it was sent, also after the database was away. */
import t from 'tap';
import { freePort } from '../fixtures/free-port.ts';
import { amount } from '../runner/soak.ts';
import { startStormFixture } from './storm-fixture.ts';

const AWAY_MS = amount({ quick: 3_000, soak: 12_000 });
/** Between requests, as of one busy vendor, milliseconds. */
const PAUSE_MS = amount({ quick: 60, soak: 20 });
t.setTimeout(AWAY_MS * 2 + 120_000);

t.test('a vendor that alternates between two APIs is served in order after an outage', async (t) => {
  const { start, gate, ledger, arrived, vendor } = await startStormFixture(t);
  await start('supervisor');
  const ports = [await freePort(), await freePort()];
  for (const port of ports) await start('api', '', { PORT: String(port) });
  const [first, second] = ports as [number, number];
  const places = new Map<string, number>();
  const send = async (port: number, lane: string): Promise<number> => {
    const place = places.get(lane) ?? 0;
    places.set(lane, place + 1);
    const answer = await fetch(`http://127.0.0.1:${port}/webhook/plugin/${lane}`, {
      method: 'POST',
      body: `${lane} ${place}`,
    });
    const { id } = (await answer.json()) as { id: string };
    if (answer.status === 200) ledger.acknowledge({ id, lane, place });
    return answer.status;
  };
  const statuses: number[] = [];
  const alternate = async (lane: string, isOver: () => boolean): Promise<void> => {
    for (let sent = 0; !isOver(); sent += 1) {
      statuses.push(await send(sent % 2 === 0 ? first : second, lane));
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  };
  const during = async (ms: number, lane: string): Promise<void> => {
    const until = performance.now() + ms;
    await alternate(lane, () => performance.now() > until);
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
