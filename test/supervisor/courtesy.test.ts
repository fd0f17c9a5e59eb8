/** Who lets whom go first. */
import t from 'tap';
import { Courtesy, LOOK_MS, type Neighbour } from '../../supervisor/fleet/courtesy.ts';

interface Actor extends Neighbour {
  running: number;
  usedMs: number;
  readonly said: boolean[];
}
function actor(installationId: string): Actor {
  const said: boolean[] = [];
  const self: Actor = {
    ...{ running: 0, usedMs: 0, said, entry: { installationId } },
    child: { processorMs: () => self.usedMs, yieldProcessor: (yields) => said.push(yields) },
  };
  return self;
}

/** Looks for `ms`, in which the children use this share of a processor. */
function pass(courtesy: Courtesy, clock: { now: number }, ms: number, shares: ReadonlyMap<Actor, number>): void {
  for (const until = clock.now + ms; clock.now < until; ) {
    clock.now += LOOK_MS;
    for (const [one, share] of shares) one.usedMs += share * LOOK_MS;
    courtesy.look(shares.keys(), clock.now);
  }
}

t.test('a call that computes for long steps back within three looks; one that waits never does', async (t) => {
  const [spinning, waiting] = [actor('a'), actor('b')];
  const clock = { now: 0 };
  const courtesy = new Courtesy();
  spinning.running = 1;
  waiting.running = 1;
  pass(
    courtesy,
    clock,
    3 * LOOK_MS,
    new Map([
      [spinning, 1],
      [waiting, 0],
    ]),
  );
  t.same(spinning.said, [true]);
  pass(
    courtesy,
    clock,
    5_000,
    new Map([
      [spinning, 1],
      [waiting, 0],
    ]),
  );
  t.same(spinning.said, [true]);
  t.same(waiting.said, []);
});

t.test('many short calls are no hog', async (t) => {
  const busy = actor('a');
  const clock = { now: 0 };
  const courtesy = new Courtesy();
  for (let turn = 0; turn < 100; turn += 1) {
    busy.running = turn % 2;
    pass(courtesy, clock, LOOK_MS, new Map([[busy, 0.2]]));
  }
  t.same(busy.said, []);
});

t.test('what spins without a call steps back too', async (t) => {
  const one = actor('a');
  pass(new Courtesy(), { now: 0 }, 2_000, new Map([[one, 1]]));
  t.same(one.said, [true]);
});

t.test('its successor starts behind, and everybody is forgiven in the end', async (t) => {
  const [first, second] = [actor('a'), actor('a')];
  const clock = { now: 0 };
  const courtesy = new Courtesy();
  first.running = 1;
  pass(courtesy, clock, 200, new Map([[first, 1]]));
  pass(courtesy, clock, LOOK_MS, new Map([[second, 0]]));
  t.same(second.said, [true]);
  pass(courtesy, clock, 25_000, new Map([[second, 0]]));
  t.same(second.said, [true, false]);
});
