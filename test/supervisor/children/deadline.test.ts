/** Budgets: they end on time, stand still while paused, and share one timer. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { DeadlineClock } from '../../../supervisor/children/deadline.ts';

/** What a timer may be late on a busy machine, milliseconds. */
const LATE_MS = 200;

const soon = (clock: DeadlineClock, ms: number): Promise<number> => {
  const started = performance.now();
  return new Promise((resolve) => clock.start(ms, () => resolve(performance.now() - started)));
};

t.test('each ends on its own time, whatever the order', async (t) => {
  const clock = new DeadlineClock();
  // The clock's timer does not keep a process alive: its child does.
  const alive = setInterval(() => undefined, 10);
  const ended = await Promise.all([soon(clock, 90), soon(clock, 30), soon(clock, 60), soon(clock, 0)]);
  clearInterval(alive);
  for (const [index, ms] of [90, 30, 60, 0].entries()) {
    const found = ended[index] ?? 0;
    t.ok(found >= ms && found < ms + LATE_MS, `${ms} ms ended after ${found.toFixed(1)}`);
  }
});

t.test('pauses nest and do not count', async (t) => {
  const clock = new DeadlineClock();
  let passed = false;
  const deadline = clock.start(60, () => {
    passed = true;
  });
  deadline.pause();
  deadline.pause();
  await sleep(100);
  deadline.resume();
  t.equal(passed, false);
  t.ok(deadline.elapsedMs() < 60);
  deadline.resume();
  deadline.resume();
  await sleep(60 + LATE_MS);
  t.equal(passed, true);
});

t.test('one that was cleared never passes', async (t) => {
  const clock = new DeadlineClock();
  const deadline = clock.start(20, () => t.fail('passed'));
  deadline.clear();
  const paused = clock.start(20, () => t.fail('passed'));
  paused.pause();
  paused.clear();
  paused.resume();
  await sleep(60);
});
