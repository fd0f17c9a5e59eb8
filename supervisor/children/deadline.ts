/**
 * Time budgets of calls. A budget stands still while its handler waits for something slow that is not its fault, and while
 * the supervisor's own event loop stands still.
 */
import { unstalledNow } from '../../service/timing/loop-stalls.ts';

/** Timers fire up to a millisecond early. */
const TIMER_SLACK_MS = 1;

export class Deadline {
  readonly #budgetMs: number;
  readonly #onExpired: () => void;
  /** Used up until the budget was started or resumed last. */
  #usedMs = 0;
  #startedAt = 0;
  #pauses = 0;
  #isOver = false;
  /** Of this one in `running`. */
  #index = -1;

  /** Starts the budget. `onExpired` is called once, when it is used up. */
  constructor(budgetMs: number, onExpired: () => void) {
    this.#budgetMs = budgetMs;
    this.#onExpired = onExpired;
    this.#start();
  }

  /** When it is used up, on the clock of `unstalledNow`, unless it is paused until then. */
  get endsAt(): number {
    return this.#startedAt + this.#budgetMs - this.#usedMs;
  }

  /** Used up so far, without the pauses. */
  elapsedMs(): number {
    return this.#usedMs + (this.#pauses > 0 ? 0 : unstalledNow() - this.#startedAt);
  }

  /** Pauses nest: the budget runs again when every pause has been resumed. */
  pause(): void {
    this.#pauses += 1;
    if (this.#pauses > 1) return;
    this.#usedMs += unstalledNow() - this.#startedAt;
    this.#stop();
  }

  resume(): void {
    if (this.#pauses === 0) return;
    this.#pauses -= 1;
    if (this.#pauses === 0 && !this.#isOver) this.#start();
  }

  /** Stops the budget for good: `onExpired` is not called any more. */
  clear(): void {
    this.#isOver = true;
    this.#stop();
  }

  expire(): void {
    this.clear();
    this.#onExpired();
  }

  #start(): void {
    this.#startedAt = unstalledNow();
    this.#index = running.push(this) - 1;
    watchUntil(this.endsAt);
  }

  #stop(): void {
    const last = this.#index < 0 ? undefined : running.pop();
    if (last && last !== this) {
      running[this.#index] = last;
      last.#index = this.#index;
    }
    this.#index = -1;
  }
}

/** Resolves with the value, or with undefined once the budget is used up. The work continues. */
export async function withinBudget<T>(work: Promise<T>, budgetMs: number): Promise<T | undefined> {
  const { promise: expired, resolve } = Promise.withResolvers<undefined>();
  const deadline = new Deadline(budgetMs, () => resolve(undefined));
  try {
    return await Promise.race([work, expired]);
  } finally {
    deadline.clear();
  }
}

// One timer for all budgets: it is set for the earliest and left alone when that one ends in time, as nearly all do. A timer
// for each call takes 5 % of a whole hook, and a Set of them 1 %.
const running: Deadline[] = [];
let timer: NodeJS.Timeout | undefined;
let timerAt = Number.POSITIVE_INFINITY;

/** Makes sure that the timer fires by then. */
function watchUntil(at: number): void {
  if (at >= timerAt) return;
  clearTimeout(timer);
  timerAt = at;
  // What waits for a budget also waits for a child, which keeps the process alive on its own.
  timer = setTimeout(expireAfterReading, Math.max(Math.ceil(at - unstalledNow()), 0) + TIMER_SLACK_MS).unref();
}

/** Answers that lie in the pipes by now are read first: the loop polls between its timers and its immediates. */
function expireAfterReading(): void {
  setImmediate(expireDue);
}

function expireDue(): void {
  timerAt = Number.POSITIVE_INFINITY;
  const now = unstalledNow();
  // Backwards: an expired one may take any of them out, and the last one then moves to its place.
  for (let index = running.length - 1; index >= 0; index -= 1) {
    const deadline = running[index];
    if (!deadline) continue;
    if (deadline.endsAt <= now) deadline.expire();
    else watchUntil(deadline.endsAt);
  }
}
