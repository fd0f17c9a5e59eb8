/** Which children the CPU scheduler moves to the idle class. */
import t from 'tap';
import { CpuScheduler, type ScheduledChild, UPDATE_EVERY_MS } from '../../../supervisor/children/cpu-scheduler.ts';

interface Actor extends ScheduledChild {
  running: number;
  hadMs: number;
  waitedMs: number;
  /** Values passed to `yieldProcessor`, without repetitions. */
  readonly decisions: boolean[];
}
function actor(installationId: string): Actor {
  const decisions: boolean[] = [];
  const self: Actor = {
    running: 0,
    hadMs: 0,
    waitedMs: 0,
    decisions,
    plugin: { installationId },
    child: {
      processorNeed: () => ({ hadMs: self.hadMs, waitedMs: self.waitedMs }),
      yieldProcessor: (yields) => {
        if (decisions.at(-1) !== yields) decisions.push(yields);
      },
    },
  };
  return self;
}

/** Shares of a processor, used and waited for. */
type Need = readonly [one: Actor, had: number, waited: number];

/** Updates the scheduler as time passes. */
class Stage {
  readonly scheduler = new CpuScheduler();
  now = 0;

  /** Advances the time by `ms`, in which each child needs its shares. */
  pass(ms: number, ...needs: readonly Need[]): void {
    for (const until = this.now + ms; this.now < until; ) {
      this.now += UPDATE_EVERY_MS;
      for (const [one, had, waited] of needs) {
        one.hadMs += had * UPDATE_EVERY_MS;
        one.waitedMs += waited * UPDATE_EVERY_MS;
      }
      const seen = needs.map(([one]) => one);
      this.scheduler.update(seen, this.now);
    }
  }
}

t.test(
  'a call that computes for long is moved to the idle class within three samples; one that waits stays',
  async (t) => {
    const [spinning, waiting] = [actor('a'), actor('b')];
    const stage = new Stage();
    spinning.running = 1;
    waiting.running = 1;
    stage.pass(3 * UPDATE_EVERY_MS, [spinning, 1, 0], [waiting, 0, 0]);
    t.same(spinning.decisions, [false, true]);
    stage.pass(5_000, [spinning, 1, 0], [waiting, 0, 0]);
    t.same(spinning.decisions, [false, true]);
    t.same(waiting.decisions, [false]);
  },
);

t.test('many short calls are no hog', async (t) => {
  const busy = actor('a');
  const stage = new Stage();
  for (let turn = 0; turn < 100; turn += 1) {
    busy.running = turn % 2;
    stage.pass(UPDATE_EVERY_MS, [busy, 0.2, 0]);
  }
  t.same(busy.decisions, [false]);
});

t.test('what spins without a call steps back too', async (t) => {
  const one = actor('a');
  new Stage().pass(2_000, [one, 1, 0]);
  t.same(one.decisions, [false, true]);
});

t.test('its successor starts behind, and everybody is forgiven in the end', async (t) => {
  const [first, second] = [actor('a'), actor('a')];
  const stage = new Stage();
  first.running = 1;
  stage.pass(200, [first, 1, 0]);
  stage.pass(UPDATE_EVERY_MS, [second, 0, 0]);
  t.same(second.decisions, [true]);
  stage.pass(25_000, [second, 0, 0]);
  t.same(second.decisions, [true, false]);
});

t.test('busy children that share a processor are detected by their waiting time', async (t) => {
  const crowd = ['a', 'b', 'c', 'd'].map(actor);
  for (const one of crowd) one.running = 1;
  new Stage().pass(100, ...crowd.map((one): Need => [one, 0.25, 0.75]));
  for (const one of crowd) t.same(one.decisions, [false, true]);
});

t.test('a short call that has to wait for its turn is no hog', async (t) => {
  const one = actor('a');
  const stage = new Stage();
  one.running = 1;
  stage.pass(100, [one, 0.05, 0.95]);
  one.running = 0;
  stage.pass(5_000, [one, 0, 0]);
  t.same(one.decisions, [false]);
});

t.test('who is behind, and until when', async (t) => {
  const one = actor('a');
  const stage = new Stage();
  one.running = 1;
  stage.pass(200, [one, 1, 0]);
  t.equal(stage.scheduler.isDeprioritized('a', stage.now), true);
  t.equal(stage.scheduler.isDeprioritized('b', stage.now), false);
  t.equal(stage.scheduler.isDeprioritized('a', stage.now + 25_000), false);
});
