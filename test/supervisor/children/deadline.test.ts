/** Budgets: they end on time and stand still while paused. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Deadline } from '../../../supervisor/children/deadline.ts';

/** What a timer may be late on a busy machine, milliseconds. */
const LATE_MS = 200;

const expire = (ms: number): Promise<number> => {
  const startedAt = performance.now();
  return new Promise((resolve) => new Deadline(ms, () => resolve(performance.now() - startedAt)));
};

t.test('each ends on its own time, whatever the order', async (t) => {
  // The timer does not keep a process alive: its child does.
  const alive = setInterval(() => undefined, 10);
  const ended = await Promise.all([expire(90), expire(30), expire(60), expire(0)]);
  clearInterval(alive);
  for (const [index, ms] of [90, 30, 60, 0].entries()) {
    const found = ended[index] ?? 0;
    t.ok(found >= ms && found < ms + LATE_MS, `${ms} ms ended after ${found.toFixed(1)}`);
  }
});

t.test('pauses nest and do not count', async (t) => {
  let passed = false;
  const deadline = new Deadline(60, () => {
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
  const deadline = new Deadline(20, () => t.fail('passed'));
  deadline.clear();
  const paused = new Deadline(20, () => t.fail('passed'));
  paused.pause();
  paused.clear();
  paused.resume();
  await sleep(60);
});

t.test('one that is cleared by another as both pass is not called', async (t) => {
  const alive = setInterval(() => undefined, 10);
  const called: number[] = [];
  const deadlines = [0, 1, 2, 3].map((index) => {
    const onExpired = (): void => {
      called.push(index);
      for (const deadline of deadlines) deadline.clear();
    };
    return new Deadline(20, onExpired);
  });
  await expire(60);
  clearInterval(alive);
  t.equal(called.length, 1);
});
