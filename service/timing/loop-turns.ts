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
/**
 * The same for requests with a costly body, besides those. A hundred accounts that send such bodies would otherwise leave an account
 * one beginning in a hundred, which is one in a second.
 */
const COSTLY_BEGINS_PER_TURN = 2;

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

/** Lets a number of requests begin in each turn of the loop. */
class Beginnings {
  readonly #perTurn: number;
  readonly #waiting = new RoundRobinQueue<() => void>();
  #begun = 0;
  #isCounting = false;

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
  }

  wait(key: string): Promise<void> | undefined {
    if (!this.#isCounting) {
      this.#isCounting = true;
      setImmediate(() => this.#beginNext());
    }
    this.#begun += 1;
    if (this.#begun <= this.#perTurn) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(key, resolve);
    return promise;
  }

  #beginNext(): void {
    this.#begun = Math.min(this.#perTurn, this.#waiting.size);
    this.#isCounting = this.#begun > 0;
    for (let count = this.#begun; count > 0; count -= 1) this.#waiting.shift()?.();
    if (this.#isCounting) setImmediate(() => this.#beginNext());
  }
}

const beginning = new Beginnings(BEGINS_PER_TURN);
const beginningCostly = new Beginnings(COSTLY_BEGINS_PER_TURN);

/**
 * Resolves when a request may begin. If more than `BEGINS_PER_TURN` arrive in one turn of the loop, the others wait, and keys take
 * turns. Those with a costly body wait for each other only.
 *
 * @param key whose request it is, such as an account
 * @returns undefined: the request may begin at once
 */
export const waitToBegin = (key: string, isCostly: boolean): Promise<void> | undefined =>
  (isCostly ? beginningCostly : beginning).wait(key);
