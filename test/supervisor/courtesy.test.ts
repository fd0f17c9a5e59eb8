/** Who lets whom go first. */
import t from 'tap';
import { Courtesy, LOOK_MS, type Neighbour } from '../../supervisor/fleet/courtesy.ts';

interface Actor extends Neighbour {
  running: number;
  hadMs: number;
  waitedMs: number;
  readonly said: boolean[];
}
function actor(installationId: string): Actor {
  const said: boolean[] = [];
  const self: Actor = {
    ...{ running: 0, hadMs: 0, waitedMs: 0, said, entry: { installationId } },
    child: {
      processorNeed: () => ({ hadMs: self.hadMs, waitedMs: self.waitedMs }),
      yieldProcessor: (yields) => said.push(yields),
    },
  };
  return self;
}

/** Shares of a processor: had, and waited for. */
type Shares = ReadonlyMap<Actor, readonly [had: number, waited: number]>;

/** Looks for `ms`, in which the children need this much. */
function pass(courtesy: Courtesy, clock: { now: number }, ms: number, shares: Shares): void {
  for (const until = clock.now + ms; clock.now < until; ) {
    clock.now += LOOK_MS;
    for (const [one, [had, waited]] of shares) {
      one.hadMs += had * LOOK_MS;
      one.waitedMs += waited * LOOK_MS;
    }
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
      [spinning, [1, 0]],
      [waiting, [0, 0]],
    ]),
  );
  t.same(spinning.said, [false, true]);
  pass(
    courtesy,
    clock,
    5_000,
    new Map([
      [spinning, [1, 0]],
      [waiting, [0, 0]],
    ]),
  );
  t.same(spinning.said, [false, true]);
  t.same(waiting.said, [false]);
});

t.test('many short calls are no hog', async (t) => {
  const busy = actor('a');
  const clock = { now: 0 };
  const courtesy = new Courtesy();
  for (let turn = 0; turn < 100; turn += 1) {
    busy.running = turn % 2;
    pass(courtesy, clock, LOOK_MS, new Map([[busy, [0.2, 0]]]));
  }
  t.same(busy.said, [false]);
});

t.test('what spins without a call steps back too', async (t) => {
  const one = actor('a');
  pass(new Courtesy(), { now: 0 }, 2_000, new Map([[one, [1, 0]]]));
  t.same(one.said, [false, true]);
});

t.test('its successor starts behind, and everybody is forgiven in the end', async (t) => {
  const [first, second] = [actor('a'), actor('a')];
  const clock = { now: 0 };
  const courtesy = new Courtesy();
  first.running = 1;
  pass(courtesy, clock, 200, new Map([[first, [1, 0]]]));
  pass(courtesy, clock, LOOK_MS, new Map([[second, [0, 0]]]));
  t.same(second.said, [true]);
  pass(courtesy, clock, 25_000, new Map([[second, [0, 0]]]));
  t.same(second.said, [true, false]);
});

t.test('hogs that share a processor are told by what they wait for', async (t) => {
  const crowd = ['a', 'b', 'c', 'd'].map(actor);
  for (const one of crowd) one.running = 1;
  pass(new Courtesy(), { now: 0 }, 100, new Map(crowd.map((one) => [one, [0.25, 0.75]])));
  for (const one of crowd) t.same(one.said, [false, true]);
});

t.test('a short call that has to wait for its turn is no hog', async (t) => {
  const one = actor('a');
  const clock = { now: 0 };
  const courtesy = new Courtesy();
  one.running = 1;
  pass(courtesy, clock, 100, new Map([[one, [0.05, 0.95]]]));
  one.running = 0;
  pass(courtesy, clock, 5_000, new Map([[one, [0, 0]]]));
  t.same(one.said, [false]);
});

t.test('who is behind, and until when', async (t) => {
  const one = actor('a');
  const clock = { now: 0 };
  const courtesy = new Courtesy();
  one.running = 1;
  pass(courtesy, clock, 200, new Map([[one, [1, 0]]]));
  t.equal(courtesy.isBehind('a', clock.now), true);
  t.equal(courtesy.isBehind('b', clock.now), false);
  t.equal(courtesy.isBehind('a', clock.now + 25_000), false);
});
