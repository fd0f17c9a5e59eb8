/** Deadlines expire on time and do not run while paused. */
import { setTimeout as sleep } from 'node:timers/promises';
import { MessageChannel } from 'node:worker_threads';
import t from 'tap';
import { Deadline, FairDeadline, HostCallPauses } from '../../../supervisor/children/deadline.ts';
import { eventually } from '../../runner/eventually.ts';

/** How late a timer may be on a busy machine: far less than a deadline that does not expire. Milliseconds. */
const LATE_MS = 60_000;

const expire = (ms: number): Promise<number> => {
  const startedAt = performance.now();
  return new Promise((resolve) => new Deadline(ms, () => resolve(performance.now() - startedAt)));
};

t.test('deadlines that run at the same time each expire on time', async (t) => {
  // The deadline's timer does not keep the process alive; in production the child does.
  const alive = setInterval(() => undefined, 10);
  const ended = await Promise.all([expire(90), expire(30), expire(60), expire(0)]);
  clearInterval(alive);
  for (const [index, ms] of [90, 30, 60, 0].entries()) {
    const found = ended[index] ?? 0;
    t.ok(found >= ms && found < ms + LATE_MS, `${ms} ms ended after ${found.toFixed(1)}`);
  }
});

/** Blocks the event loop, as a flood of other work does. */
function blockLoop(ms: number): void {
  for (const until = performance.now() + ms; performance.now() < until; );
}

t.test('a budget is paused while the event loop is blocked', async (t) => {
  const alive = setInterval(() => undefined, 10);
  await sleep(50);
  const expired = expire(100);
  await sleep(20);
  blockLoop(500);
  const ms = await expired;
  clearInterval(alive);
  t.ok(ms >= 570, `100 ms of budget ended after ${ms.toFixed(0)} ms, of which the loop was blocked for 500`);
});

t.test('the time for which a process waited for a processor is added to its budget, within limits', async (t) => {
  const alive = setInterval(() => undefined, 10);
  t.teardown(() => clearInterval(alive));
  /**
   * @param had @param waited parts of the time for which the process has the processor, and waits for it
   * @param isRunnable it waits at the beginning and at the end, for a time that is not counted yet
   */
  const expireAfter = (had: number, waited: number, isRunnable = false): Promise<number> => {
    const startedAt = performance.now();
    const elapsed = (): number => performance.now() - startedAt;
    const cpuDemand = () => ({ hadMs: elapsed() * had, waitedMs: elapsed() * waited, isRunnable });
    return new Promise((resolve) => new FairDeadline(100, { cpuDemand }, 6, () => resolve(elapsed())));
  };
  const [idle = 0, half = 0, starved = 0, computing = 0, waiting = 0, computingStill = 0] = await Promise.all([
    expireAfter(0, 0),
    expireAfter(0, 0.5),
    expireAfter(0, 1),
    expireAfter(0.9, 0.1),
    expireAfter(0, 0, true),
    expireAfter(0.9, 0, true),
  ]);
  t.ok(idle >= 100 && half >= 130 && starved >= 600, `${idle}, ${half} and ${starved} ms`);
  t.ok(starved < 600 + LATE_MS, 'not without end');
  t.ok(waiting >= 600, `${waiting} ms although the kernel has not counted the wait yet`);
  t.ok(computing < starved && computingStill < starved, 'a process that computes gets no more');
  const delayed = { cpuDemand: () => ({ hadMs: 0, waitedMs: 0, isRunnable: false }), hostDelayMs: 5 };
  const began = performance.now();
  const over = new Promise<void>((resolve) => new FairDeadline(100, delayed, 6, resolve));
  delayed.hostDelayMs += 40;
  await over;
  t.ok(performance.now() - began >= 140, 'what the host was late with in the first half is added');
  let readings = 0;
  const readAwoken = () => ({ hadMs: 0, waitedMs: 0, isRunnable: ++readings > 1 });
  await new Promise<void>((resolve) => new FairDeadline(20, { cpuDemand: readAwoken }, 6, resolve));
  t.equal(readings, 2, 'a process that slept until shortly before its end gets no more');
  const cpuDemand = () => ({ hadMs: 0, waitedMs: 0, isRunnable: false });
  const ended = new FairDeadline(20, { cpuDemand }, 6, () => t.fail('it was ended'));
  ended.clear();
  await sleep(60);
});

t.test('a message that arrived before the deadline is handled before the deadline expires', async (t) => {
  const alive = setInterval(() => undefined, 10);
  const { port1, port2 } = new MessageChannel();
  t.teardown(() => port1.close());
  const deadline = new Deadline(10, () => t.fail('expired'));
  const arrived = new Promise((resolve) => port1.once('message', resolve)).then(() => deadline.clear());
  port2.postMessage('answer');
  blockLoop(100);
  await arrived;
  await sleep(30);
  clearInterval(alive);
  t.pass('the answer was read first');
});

t.test('a paused deadline does not run, and pauses nest', async (t) => {
  const alive = setInterval(() => undefined, 10);
  let passed = false;
  const expired = Promise.withResolvers<void>();
  const deadline = new Deadline(60, () => {
    passed = true;
    expired.resolve();
  });
  deadline.pause();
  deadline.pause();
  await sleep(100);
  deadline.resume();
  t.equal(passed, false);
  t.ok(deadline.elapsedMs() < 60);
  deadline.resume();
  deadline.resume();
  await expired.promise;
  clearInterval(alive);
});

const idle = { cpuDemand: () => ({ hadMs: 0, waitedMs: 0, isRunnable: false }) };

t.test('a budget is paused until the last host call has ended', async (t) => {
  const deadline = new Deadline(60_000, () => t.fail('expired'));
  const pauses = new HostCallPauses(deadline, { maxMs: 60_000, lookEveryMs: 60_000 }, idle, () => Promise.reject());
  pauses.pause();
  pauses.pause();
  pauses.resume();
  t.equal(deadline.isPaused, true, 'another one waits');
  pauses.resume();
  t.equal(deadline.isPaused, false);
  pauses.clear();
  deadline.clear();
});

t.test('host calls pause a budget for a limited time in all', async (t) => {
  const alive = setInterval(() => undefined, 10);
  t.teardown(() => clearInterval(alive));
  const deadline = new Deadline(60_000, () => t.fail('expired'));
  const pauses = new HostCallPauses(deadline, { maxMs: 30, lookEveryMs: 10 }, idle, () => Promise.reject());
  // Neither is as long as the limit.
  for (const ms of [20, 20]) {
    pauses.pause();
    await expire(ms);
    pauses.resume();
  }
  pauses.pause();
  t.equal(deadline.isPaused, false, 'further ones do not pause it');
  t.ok(deadline.pausedMs > 25, `they paused it before, together for ${deadline.pausedMs} ms`);
  deadline.clear();
});

t.test('a budget that a host call pauses runs while its process computes and does not answer', async (t) => {
  const alive = setInterval(() => undefined, 10);
  t.teardown(() => clearInterval(alive));
  let looks = 0;
  const cpuDemand = () => {
    looks += 1;
    return { hadMs: looks, waitedMs: looks * 4, isRunnable: true };
  };
  const answered = Promise.withResolvers<void>();
  const ask = () => answered.promise;
  const deadline = new Deadline(60_000, () => t.fail('expired'));
  const pauses = new HostCallPauses(deadline, { maxMs: 60_000, lookEveryMs: 10 }, { cpuDemand }, ask);
  pauses.pause();
  await eventually(async () => !deadline.isPaused);
  answered.resolve();
  await answered.promise;
  t.equal(deadline.isPaused, true);
  pauses.resume();
  t.equal(deadline.isPaused, false);
  deadline.clear();
  pauses.clear();
});

t.test(
  'a process that computes in pieces, and answers, takes nothing from a budget that a host call pauses',
  async (t) => {
    const alive = setInterval(() => undefined, 10);
    t.teardown(() => clearInterval(alive));
    let demandMs = 0;
    const cpuDemand = () => {
      demandMs += 1_000;
      return { hadMs: demandMs, waitedMs: 0, isRunnable: true };
    };
    const seen: boolean[] = [];
    const deadline = new Deadline(60_000, () => t.fail('expired'));
    const ask = async () => void seen.push(deadline.isPaused);
    const pauses = new HostCallPauses(deadline, { maxMs: 60_000, lookEveryMs: 10 }, { cpuDemand }, ask);
    pauses.pause();
    // On a busy machine, the process is asked more often than this looks.
    await eventually(async () => seen.length >= 3);
    t.notOk([...seen, deadline.isPaused].includes(false));
    deadline.clear();
    pauses.clear();
  },
);

t.test('a cleared deadline does not expire', async (t) => {
  const deadline = new Deadline(20, () => t.fail('expired'));
  deadline.clear();
  const paused = new Deadline(20, () => t.fail('expired'));
  paused.pause();
  paused.clear();
  paused.resume();
  await sleep(60);
});

t.test('a deadline that is cleared by another one that expires at the same moment does not expire', async (t) => {
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
