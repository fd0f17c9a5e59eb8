/**
 * Shares the event loop between pieces of work that take milliseconds each: they run one at a time, and after each the loop is
 * left to everything else for as long as that took, so that together they use at most half of it.
 */
import { TurnQueue } from './turn-queue.ts';

const waiting = new TurnQueue<() => void>();
let isRunning = false;
let startedAt = 0;

/**
 * Resolves when the loop has time. What the caller then does before it waits for anything else is the piece of work.
 *
 * @param key whose work it is, such as an account: keys take turns
 */
export function waitForLoopTurn(key: string): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  waiting.push(key, resolve);
  if (!isRunning) scheduleNext();
  return promise;
}

function scheduleNext(): void {
  isRunning = true;
  setImmediate(startNext);
  // Immediates run in order, each with the promises that it resolves: by the second one the work is done.
  setImmediate(rest);
}

function startNext(): void {
  startedAt = performance.now();
  waiting.shift()?.();
}

function rest(): void {
  isRunning = waiting.size > 0;
  if (isRunning) setTimeout(scheduleNext, performance.now() - startedAt);
}
