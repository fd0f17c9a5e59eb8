/**
 * Shares the event loop. Pieces of work that take milliseconds run one at a time, and each is followed by a pause as long as the
 * piece, so that together they use at most half of the loop's time. Requests begin a few at a time.
 */

import { RoundRobinQueue } from '../../db/timing/round-robin-queue.ts';
import { KIB } from '../../sdk/contract/limits.ts';

/** Larger JSON waits for a turn. Up to this size, reading or writing it takes at most a millisecond or two. */
export const COSTLY_BYTES = 16 * KIB;
/** Requests that may begin in one turn of the loop. Each takes about half a millisecond until its first `await`. */
const BEGINS_PER_TURN = 8;

const waiting = new RoundRobinQueue<() => void>();
let isRunning = false;
let startedAt = 0;
/** Pause that earlier pieces of work still owe the loop. Milliseconds. */
let owedMs = 0;
/** Shortest delay of a Node timer. Shorter pauses are added up until they reach it. Milliseconds. */
const TIMER_MIN_MS = 1;

/**
 * Resolves when the loop has time. The piece of work is the code that the caller then runs until its next `await`.
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
  isRunning = waiting.size > 0;
  if (!isRunning) return;
  setImmediate(startNext);
  // Node runs all promise callbacks of an immediate before the next immediate, so the piece of work is done when `rest` runs.
  setImmediate(rest);
}

function startNext(): void {
  startedAt = performance.now();
  waiting.shift()?.();
}

function rest(): void {
  owedMs += performance.now() - startedAt;
  if (owedMs < TIMER_MIN_MS) {
    if (waiting.size === 0) owedMs = 0;
    scheduleNext();
    return;
  }
  // Also when nothing waits: work that comes one piece after another would otherwise use the whole loop.
  setTimeout(scheduleNext, owedMs);
  owedMs = 0;
}

/** Length of a slice: short compared with a request, long compared with a turn of the loop. Milliseconds. */
const SLICE_MS = 5;

/** Divides work on many items into slices, each in a turn of the loop. */
export class LoopSlices {
  readonly #key: string;
  #endsAt: number | undefined;

  /** @param key whose work it is, as for `waitForLoopTurn` */
  constructor(key: string) {
    this.#key = key;
  }

  /** Call it before each item. Resolves at once, or when the slice is over and the loop has time for the next one. */
  async pauseWhenOver(): Promise<void> {
    this.#endsAt ??= performance.now() + SLICE_MS;
    if (performance.now() < this.#endsAt) return;
    await waitForLoopTurn(this.#key);
    this.#endsAt = performance.now() + SLICE_MS;
  }
}

const beginning = new RoundRobinQueue<() => void>();
let begun = 0;
let isCounting = false;

/**
 * Resolves when a request may begin. If more than `BEGINS_PER_TURN` arrive in one turn of the loop, the others wait, and keys take
 * turns.
 *
 * @param key whose request it is, such as an account
 * @returns undefined: the request may begin at once
 */
export function waitToBegin(key: string): Promise<void> | undefined {
  if (!isCounting) {
    isCounting = true;
    setImmediate(beginNext);
  }
  begun += 1;
  if (begun <= BEGINS_PER_TURN) return undefined;
  const { promise, resolve } = Promise.withResolvers<void>();
  beginning.push(key, resolve);
  return promise;
}

function beginNext(): void {
  begun = Math.min(BEGINS_PER_TURN, beginning.size);
  isCounting = begun > 0;
  for (let count = begun; count > 0; count -= 1) beginning.shift()?.();
  if (isCounting) setImmediate(beginNext);
}
