/**
 * Supervisors killed and database connections cut while requests come in: everything that was accepted arrives once in
 * its session, in order, soon.
 */
import { randomUUIDv7 } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { type Channel, insertChannel } from '../../db/channels/channels.ts';
import { insertDeliveries } from '../../db/channels/deliveries.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { eventually } from '../runner/eventually.ts';
import { seededRandom } from '../runner/random.ts';
import { amount } from '../runner/soak.ts';
import { type Installed, openStorageFixture, type StorageFixture } from '../supervisor/supervisor-fixture.ts';
import { startProcess } from '../supervisor/supervisor-process.ts';

const SECONDS = amount({ quick: 3, soak: 600 });
const KILLS_MIN = 2;
/** Between two requests of a channel, milliseconds. In a quick run the kills count, not the load. */
const PAUSE_MS = amount({ quick: 100, soak: 25 });
const random = seededRandom();
/** Once the storm is over, something arrives within this time for as long as anything is left. Milliseconds. */
const STUCK_MS = 30_000;

const CODE = `channel.receive = (request) => ({
  messages: [{ conversationKey: 'all', from: 'vendor', text: request.bodyText }],
});`;

/** Accepts requests on every channel until told to stop, and keeps its own book of them. */
function acceptRequests(storage: StorageFixture, made: Installed, channels: readonly Channel[]) {
  const ledger = new Map<string, string[]>(channels.map(({ id }) => [id, []]));
  let over = false;
  const work = channels.map(async (channel) => {
    while (!over) {
      const id = randomUUIDv7();
      const where = { channelId: channel.id, installationId: made.installationId, accountId: made.accountId };
      await insertDeliveries(storage.pool, [
        {
          id,
          ...where,
          routingId: channel.routingId,
          receivedAt: Date.now(),
          method: 'POST',
          query: '',
          headers: [],
          body: Buffer.from(id),
        },
      ]);
      ledger.get(channel.id)?.push(id);
      await sleep(PAUSE_MS);
    }
  });
  return {
    ledger,
    stop: async () => {
      over = true;
      await Promise.all(work);
    },
  };
}

t.test('nothing is lost, doubled, reordered or stuck', async (t) => {
  const storage = await openStorageFixture(t);
  const made = await storage.install({ slug: 'storm', code: CODE });
  const channels = await inTransaction(storage.pool, async (tx) => {
    const { installationId, accountId } = made;
    const found: Channel[] = [];
    for (const name of ['a', 'b', 'c']) found.push(await insertChannel(tx, { installationId, accountId, name }));
    return found;
  });
  let running = await startProcess(t, storage);
  const requests = acceptRequests(storage, made, channels);
  const until = Date.now() + SECONDS * 1000;
  let kills = 0;
  let cuts = 0;
  while (Date.now() < until || kills < KILLS_MIN) {
    await sleep(random.integer(500, amount({ quick: 1_000, soak: 2_500 })));
    // Once at least, whatever the seed.
    if (cuts === 0 || random.integer(0, 3) === 0) {
      cuts += 1;
      await storage.pool.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE application_name = 'bulkhead-supervisor' AND datname = current_database()`,
      );
      continue;
    }
    await running.kill();
    running = await startProcess(t, storage);
    kills += 1;
  }
  await requests.stop();
  const calm = Date.now();
  const left = async (): Promise<number> =>
    (await storage.pool.query(`SELECT count(*)::int AS left FROM deliveries WHERE state = 'pending'`)).rows[0].left;
  const backlog = await left();
  for (let remaining = backlog; remaining > 0; ) {
    const before = remaining;
    await eventually(async () => {
      remaining = await left();
      return remaining < before;
    }, STUCK_MS);
  }
  const settledMs = Date.now() - calm;
  const { rows: ends } = await storage.pool.query(
    `SELECT count(*)::int AS all, count(*) FILTER (WHERE state = 'delivered')::int AS delivered,
            sum(attempts)::int AS attempts FROM deliveries`,
  );
  for (const channel of channels) {
    const { rows } = await storage.pool.query(
      `SELECT m.text FROM session_messages m JOIN sessions s ON s.id = m.session_id
        WHERE s.channel_id = $1 AND m.role = 'user' ORDER BY m.position`,
      [channel.id],
    );
    t.same(
      rows.map((row) => row.text),
      requests.ledger.get(channel.id),
      'each once, in order',
    );
  }
  t.equal(ends[0].delivered, ends[0].all);
  // At most what was under way when a process died: one a channel.
  const again = ends[0].attempts - ends[0].all;
  // The time at the end is spent on the backlog of the kills, one after another in each channel.
  const settled = `the last ${backlog} in ${settledMs} ms`;
  t.comment(`${ends[0].all} accepted, ${kills} kills, ${cuts} cuts, ${again} attempted again, ${settled}`);
  await running.stop();
});
