/** Who owns an account while supervisors join and leave: two on one database, without plugins. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { findShard, SHARDS } from '../../../db/cluster/shards.ts';
import { openListener } from '../../../db/postgres/listener.ts';
import { MOVE_PAUSE_MS, Ownership } from '../../../supervisor/cluster/ownership.ts';
import { placeShards } from '../../../supervisor/cluster/placement.ts';
import { testDatabase } from '../../runner/harness.ts';
import { eventually } from '../supervisor-fixture.ts';

const CAPACITY = 10;
/** Nothing is cut off in these tests. */
const NEVER = new Promise<never>(() => undefined);
/** Nothing listens there: no call is forwarded. */
const ADDRESS = 'http://127.0.0.1:1';

/** Opens two that follow the cluster and own nothing yet. */
async function openTwo(t: Test): Promise<readonly [Ownership, Ownership]> {
  const { pool } = await testDatabase(t);
  const open = async (): Promise<Ownership> => {
    const listener = await openListener(pool, () => undefined);
    const ownership = new Ownership({
      pool,
      listener,
      capacity: CAPACITY,
      release: 'test',
      stopChildren: async () => undefined,
      onClaimed: () => undefined,
      onError: (error) => t.comment(error.message),
    });
    t.teardown(async () => {
      await ownership.close();
      await listener.close();
    });
    await ownership.follow();
    return ownership;
  };
  return [await open(), await open()];
}

/** Id of an account that is placed on the second of the two. */
function chooseAccount([first, second]: readonly [Ownership, Ownership]): string {
  const placed = placeShards(
    [first, second].map(({ id }) => ({ id, capacity: CAPACITY })),
    SHARDS,
  );
  for (;;) {
    const id = randomUUID();
    if (placed[findShard(id)] === second.id) return id;
  }
}

t.test('a call is led to the next owner after a drain that began while the move paused', async (t) => {
  const both = await openTwo(t);
  const [first, second] = both;
  const account = chooseAccount(both);
  await first.join(ADDRESS);
  const work = first.begin(account);
  if (work === null) throw new Error('the only supervisor owns every account');
  await second.join(ADDRESS);
  await eventually(async () => work.isLeaving());
  await eventually(async () => !work.isLeaving());
  t.ok(first.holds(account), 'the move pauses, because work lasts');
  const left = first.leave(NEVER);
  work.end();
  await eventually(async () => second.holds(account));
  await left;
  // The move that paused goes on, and finds the shard given up.
  await sleep(MOVE_PAUSE_MS);
  t.equal((await first.findOwner(account))?.id, second.id);
});
