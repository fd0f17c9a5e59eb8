/** Which children and accounts the CPU scheduler moves to another class. */
import t from 'tap';
import { CpuScheduler, type ScheduledChild, UPDATE_EVERY_MS } from '../../../supervisor/children/cpu-scheduler.ts';

interface Actor extends ScheduledChild {
  busyMinMs?: number;
  running: number;
  answered: number;
  hadMs: number;
  waitedMs: number;
  isRunnable: boolean;
  /** Whether the child was in the idle class, and the classes of its account, without repetitions. */
  readonly decisions: boolean[];
  readonly ofAccount: string[];
}
function actor(versionId: string, accountId = versionId): Actor {
  const decisions: boolean[] = [];
  const ofAccount: string[] = [];
  const self: Actor = {
    running: 0,
    answered: 0,
    hadMs: 0,
    waitedMs: 0,
    isRunnable: false,
    decisions,
    ofAccount,
    plugin: { versionId, accountId },
    child: {
      cpuDemand: ({ hadMs, waitedMs, isRunnable } = self) => ({ hadMs, waitedMs, isRunnable }),
      setCpuClasses: ({ child, account }) => {
        if (decisions.at(-1) !== (child === 'idle')) decisions.push(child === 'idle');
        if (ofAccount.at(-1) !== account) ofAccount.push(account);
      },
    },
  };
  return self;
}

/** Shares of a processor, used and waited for. */
type Demand = readonly [one: Actor, had: number, waited: number];

/** Updates the scheduler as time passes. */
class Stage {
  readonly scheduler = new CpuScheduler(2);
  now = 0;

  /** Advances the time by `ms`, in which each child demands its shares. */
  pass(ms: number, ...demands: readonly Demand[]): void {
    for (const until = this.now + ms; this.now < until; ) {
      this.now += UPDATE_EVERY_MS;
      for (const [one, had, waited] of demands) {
        one.hadMs += had * UPDATE_EVERY_MS;
        one.waitedMs += waited * UPDATE_EVERY_MS;
      }
      const seen = demands.map(([one]) => one);
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

t.test('many short calls do not count as CPU-bound', async (t) => {
  const busy = actor('a');
  const stage = new Stage();
  for (let turn = 0; turn < 100; turn += 1) {
    busy.running = turn % 2;
    stage.pass(UPDATE_EVERY_MS, [busy, 0.2, 0]);
  }
  t.same(busy.decisions, [false]);
});

t.test('loading is work: it counts as CPU-bound only after the time given', async (t) => {
  const one = actor('a');
  const stage = new Stage();
  one.running = 1;
  one.busyMinMs = 200;
  stage.pass(180, [one, 1, 0]);
  t.same(one.decisions, [false]);
  stage.pass(60, [one, 1, 0]);
  t.same(one.decisions, [false, true]);
});

t.test('what spins without a call steps back too, and so does its account', async (t) => {
  const one = actor('a');
  const stage = new Stage();
  stage.pass(2_000, [one, 1, 0]);
  t.same(one.decisions, [false, true]);
  t.equal(one.ofAccount.at(-1), 'idle');
  stage.pass(8_000, [one, 0, 0]);
  t.equal(one.ofAccount.at(-1), 'light', 'once it waits');
});

t.test('a hundred calls whose callers have left step back', async (t) => {
  const left = Array.from({ length: 100 }, (_, index) => actor(`i-${index}`));
  const stage = new Stage();
  const pass = (ms: number) => stage.pass(ms, ...left.map((one): Demand => [one, 0.02, 0.98]));
  for (const one of left) one.running = 1;
  pass(600);
  t.strictSame(
    new Set(left.map(({ ofAccount }) => ofAccount.at(-1))),
    new Set(['normal']),
    'before they are CPU-bound',
  );
  pass(3_000);
  for (const one of left) one.running = 0;
  pass(30_000);
  t.strictSame(new Set(left.map(({ ofAccount }) => ofAccount.at(-1))), new Set(['idle']));
});

t.test('and stay back while they get too little CPU time to be measured again', async (t) => {
  const left = Array.from({ length: 100 }, (_, index) => actor(`i-${index}`));
  const stage = new Stage();
  stage.pass(2_000, ...left.map((one): Demand => [one, 1, 0]));
  t.strictSame(new Set(left.map(({ ofAccount }) => ofAccount.at(-1))), new Set(['idle']));
  for (const one of left) one.ofAccount.length = 0;
  stage.pass(60_000, ...left.map((one): Demand => [one, 0.0005, 0.9995]));
  t.strictSame(new Set(left.map(({ ofAccount }) => ofAccount.join(' '))), new Set(['idle']));
});

t.test('a wait that the kernel has not counted yet is no sleep', async (t) => {
  const one = actor('a');
  const stage = new Stage();
  one.isRunnable = true;
  stage.pass(2_000, [one, 1, 0]);
  one.ofAccount.length = 0;
  for (let round = 0; round < 10; round++) {
    stage.pass(60, [one, 1, 0]);
    stage.pass(4_940, [one, 0, 0]);
    one.waitedMs += 4_940;
  }
  t.same(one.ofAccount, ['idle']);
  one.isRunnable = false;
  stage.pass(2_000, [one, 0, 0]);
  t.equal(one.ofAccount.at(-1), 'light', 'until it sleeps');
});

t.test('a child that replaces a CPU-bound one starts as CPU-bound until it has been idle for a while', async (t) => {
  const [first, second] = [actor('a'), actor('a')];
  const stage = new Stage();
  first.running = 1;
  stage.pass(200, [first, 1, 0]);
  stage.pass(UPDATE_EVERY_MS, [second, 0, 0]);
  t.same(second.decisions, [true]);
  stage.pass(25_000, [second, 0, 0]);
  t.same(second.decisions, [true, false]);
});

t.test('a new version that never stops computing does not delay the one that still answers', async (t) => {
  const [serving, starting] = [actor('v1', 'ann'), actor('v2', 'ann')];
  const stage = new Stage();
  serving.running = 1;
  starting.running = 1;
  stage.pass(1_000, [serving, 0.01, 0.9], [starting, 1, 0]);
  t.same(starting.decisions, [false, true]);
  t.same(serving.decisions, [false]);
  t.equal(serving.ofAccount.at(-1), 'reduced', 'not the idle class, in which it might never run');
});

t.test('busy children that share a processor are detected by their waiting time', async (t) => {
  const crowd = ['a', 'b', 'c', 'd'].map((id) => actor(id));
  for (const one of crowd) one.running = 1;
  new Stage().pass(200, ...crowd.map((one): Demand => [one, 0.25, 0.75]));
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

t.test(
  'on a machine that other programs saturate, a plugin that waits for each of its short calls is no hog',
  async (t) => {
    const one = actor('a');
    const stage = new Stage();
    for (let call = 0; call < 100; call += 1) {
      one.running = 1;
      stage.pass(80, [one, 0.01, 0.95]);
      one.running = 0;
      stage.pass(UPDATE_EVERY_MS, [one, 0, 0]);
    }
    t.same(one.decisions, [false]);
    t.same(one.ofAccount, ['light']);
  },
);

t.test('nor is one that still waits for the garbage collection after its last call', async (t) => {
  const one = actor('a');
  const stage = new Stage();
  stage.pass(1_500, [one, 0.015, 0.985]);
  stage.pass(5_000, [one, 0, 0]);
  t.same(one.decisions, [false]);
});

t.test('a plugin that had to wait is no hog while it answers short calls; one of long calls is', async (t) => {
  const [short, long] = [actor('a'), actor('b')];
  const stage = new Stage();
  short.running = 32;
  long.running = 32;
  // Calls of 2 ms and of 20.
  for (let update = 1; update <= 1_000; update += 1) {
    stage.pass(UPDATE_EVERY_MS, [short, 0.1, 0.9], [long, 0.1, 0.9]);
    short.answered += 1;
    if (update % 10 === 0) long.answered += 1;
  }
  t.same(short.decisions, [false]);
  t.same(short.ofAccount, ['light']);
  t.same(long.decisions, [false, true]);
  stage.pass(2_000, [short, 0.1, 0.9]);
  t.same(short.decisions, [false, true], 'answers save up no time');
});

t.test(
  'one span of computing does not move a child that has answered calls; a second one soon after does',
  async (t) => {
    const one = actor('a');
    const stage = new Stage();
    const call = (computesMs: number): void => {
      one.running = 1;
      stage.pass(UPDATE_EVERY_MS, [one, 0, 0]);
      stage.pass(computesMs, [one, 1, 0]);
      one.answered += 1;
      stage.pass(UPDATE_EVERY_MS, [one, 0, 0]);
      one.running = 0;
      stage.pass(UPDATE_EVERY_MS, [one, 0, 0]);
    };
    call(0);
    // Such as a garbage collection.
    call(UPDATE_EVERY_MS);
    stage.pass(6_000, [one, 0, 0]);
    call(UPDATE_EVERY_MS);
    t.same(one.decisions, [false]);
    stage.pass(2_000, [one, 0, 0]);
    call(UPDATE_EVERY_MS);
    t.same(one.decisions, [false, true]);

    const loop = actor('b');
    loop.answered = 1;
    loop.running = 1;
    stage.pass(4 * UPDATE_EVERY_MS, [loop, 1, 0]);
    t.same(loop.decisions, [false, true], 'a call that never ends is moved one sample later');
  },
);

t.test('a child that need not wait is CPU-bound however short its calls are', async (t) => {
  const one = actor('a');
  const stage = new Stage();
  one.running = 32;
  for (let update = 0; update < 10; update += 1) {
    stage.pass(UPDATE_EVERY_MS, [one, 1, 0]);
    one.answered += 10;
  }
  t.same(one.decisions, [false, true]);
});

t.test('the classes of a child that is about to start', async (t) => {
  const one = actor('a', 'ann');
  const stage = new Stage();
  one.running = 1;
  stage.pass(200, [one, 1, 0]);
  const ofStart = (versionId: string, accountId: string, now = stage.now) =>
    stage.scheduler.classifyStart({ versionId, accountId }, now);
  t.same(ofStart('a', 'ann'), { child: 'idle', account: 'idle' });
  t.same(ofStart('b', 'ann'), { child: 'normal', account: 'reduced' }, 'in the idle class it might never start');
  t.same(ofStart('b', 'ben'), { child: 'normal', account: 'light' });
  one.running = 0;
  stage.pass(25_000, [one, 0, 0]);
  t.same(ofStart('a', 'ann'), { child: 'normal', account: 'light' });
});

t.test('an account is in the idle class while only CPU-bound children run for it', async (t) => {
  const [spinning, short] = [actor('a', 'ann'), actor('b', 'ann')];
  const stage = new Stage();
  spinning.running = 1;
  stage.pass(1_000, [spinning, 1, 0], [short, 0, 0]);
  t.same(short.ofAccount, ['light', 'idle'], 'each of its children is told');
  t.same(short.decisions, [false]);
  short.running = 1;
  stage.pass(UPDATE_EVERY_MS, [spinning, 1, 0], [short, 0, 0.9]);
  t.equal(short.ofAccount.at(-1), 'reduced', 'its other children do not starve');
  short.running = 0;
  stage.pass(10_000, [spinning, 1, 0], [short, 0, 0]);
  t.equal(short.ofAccount.at(-1), 'idle');
  spinning.running = 0;
  spinning.answered = 1;
  stage.pass(UPDATE_EVERY_MS, [spinning, 0, 0], [short, 0, 0]);
  t.equal(short.ofAccount.at(-1), 'normal');
  stage.pass(10_000, [spinning, 0, 0], [short, 0, 0]);
  t.equal(short.ofAccount.at(-1), 'light');
});

t.test('an account is light while its children use less than a tenth of the machine', async (t) => {
  const many = Array.from({ length: 10 }, (_, index) => actor(`a${index}`, 'ann'));
  const few = actor('b', 'ben');
  const stage = new Stage();
  for (let turn = 0; turn < 100; turn += 1) {
    for (const one of [...many, few]) one.running = turn % 2;
    stage.pass(UPDATE_EVERY_MS, ...many.map((one): Demand => [one, 0.05, 0]), [few, 0.05, 0]);
  }
  t.same(many[0]?.ofAccount, ['light', 'normal'], 'however short its calls are');
  t.same(many[0]?.decisions, [false]);
  t.same(few.ofAccount, ['light']);
  stage.pass(10_000, [few, 0, 0], ...many.map((one): Demand => [one, 0, 0]));
  t.same(many[0]?.ofAccount, ['light', 'normal', 'light']);
});

t.test('many starts at once make an account no light one', async (t) => {
  const { scheduler } = new Stage();
  const ofStart = (number: number) => scheduler.classifyStart({ versionId: `a${number}`, accountId: 'ann' }, 0);
  t.same(
    [1, 2, 3, 4].map((number) => ofStart(number).account),
    ['light', 'light', 'light', 'normal'],
  );
});
