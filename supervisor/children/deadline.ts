/**
 * Time budgets of calls. A budget is paused while its handler waits for something slow outside the plugin, and while the
 * supervisor's own event loop is blocked.
 */
import { unstalledNow } from '../../service/timing/loop-stalls.ts';
import { within } from '../../service/timing/within.ts';
import type { CpuDemand, WatchedProcess } from '../jail/watched-process.ts';

/** Timers fire up to a millisecond early. */
const TIMER_SLACK_MS = 1;

export class Deadline {
  #budgetMs: number;
  readonly #onExpired: () => void;
  /** The part of the budget that was used before its last start or resume. */
  #usedMs = 0;
  #startedAt = 0;
  #pauses = 0;
  #isOver = false;
  /** Index in `running`; -1: the budget does not run. */
  #index = -1;

  /** Starts the budget. @param onExpired called once, when the budget is used up */
  constructor(budgetMs: number, onExpired: () => void) {
    this.#budgetMs = budgetMs;
    this.#onExpired = onExpired;
    this.#start();
  }

  /** The time at which the budget expires if it is not paused, on the clock of `unstalledNow`. */
  get endsAt(): number {
    return this.#startedAt + this.#budgetMs - this.#usedMs;
  }

  /** The part of the budget that is used, without pauses. */
  elapsedMs(): number {
    return this.#usedMs + (this.#pauses > 0 ? 0 : unstalledNow() - this.#startedAt);
  }

  get isPaused(): boolean {
    return this.#pauses > 0;
  }

  /** Pauses can be nested: the budget runs again after as many calls of `resume`. */
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

  /** Ends the budget without calling `onExpired`. */
  clear(): void {
    this.#isOver = true;
    this.#stop();
  }

  expire(): void {
    this.clear();
    this.end();
  }

  /** Called when the budget is used up. */
  protected end(): void {
    this.#onExpired();
  }

  /** Gives a budget that has expired more time. */
  protected extend(ms: number): void {
    this.#usedMs = this.elapsedMs();
    this.#budgetMs = this.#usedMs + ms;
    this.#isOver = false;
    this.#start();
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

/**
 * The part of a budget after which the process is watched, and of the watched time in which a process that waited may have used a
 * processor. Nearly all calls end before, and reading the times of a process takes 15 µs.
 */
const HALF = 0.5;
/** Shorter waits are usual. Milliseconds. */
const WAIT_MIN_MS = 10;

type DemandingProcess = Pick<WatchedProcess, 'cpuDemand'>;

/** A budget to which the time is added for which a process waited for a processor: a busy machine is not its fault. */
export class FairDeadline extends Deadline {
  readonly #process: DemandingProcess;
  readonly #watchedMs: number;
  #addableMs: number;
  /** The time that the budget runs for, and the times of the process at its start and when it was first watched. Null: not yet. */
  #watch: { readonly ms: number; readonly start: CpuDemand; readonly first: CpuDemand } | null = null;

  /**
   * @param process whose call or start this is the budget of
   * @param longestBudgets the budget is over at the latest after this many times its length
   * @param onExpired called once, when the budget is used up
   */
  constructor(budgetMs: number, process: DemandingProcess, longestBudgets: number, onExpired: () => void) {
    super(budgetMs * HALF, onExpired);
    this.#watchedMs = budgetMs * HALF;
    this.#addableMs = budgetMs * (longestBudgets - 1);
    this.#process = process;
  }

  protected override end(): void {
    const demand = this.#process.cpuDemand();
    if (this.#watch === null) this.#goOn(this.#watchedMs, demand, demand);
    else {
      const { ms, start, first } = this.#watch;
      // The process also waits while the budget is paused.
      const addedMs = Math.min(demand.waitedMs - start.waitedMs, ms, this.#addableMs);
      const isComputing = demand.hadMs - first.hadMs >= this.#watchedMs * HALF;
      this.#addableMs -= addedMs;
      if (addedMs < WAIT_MIN_MS || isComputing) super.end();
      else this.#goOn(addedMs, demand, first);
    }
  }

  #goOn(ms: number, start: CpuDemand, first: CpuDemand): void {
    this.#watch = { ms, start, first };
    this.extend(ms);
  }
}

/** Resolves with the value, or with undefined once the budget is used up. The work continues. */
export const withinBudget = <T>(work: Promise<T>, budgetMs: number): Promise<T | undefined> =>
  within(work, budgetMs, (ms, onOver) => {
    const deadline = new Deadline(ms, onOver);
    return () => deadline.clear();
  });

// One timer serves all budgets. It is set for the earliest and stays set when that call ends in time, as most do. A timer for
// each call would cost 5 % of a hook's time, and a Set in place of the array 1 %.
const running: Deadline[] = [];
let timer: NodeJS.Timeout | undefined;
let timerAt = Number.POSITIVE_INFINITY;

/** Makes the timer fire no later than `at`. */
function watchUntil(at: number): void {
  if (at >= timerAt) return;
  clearTimeout(timer);
  timerAt = at;
  // A running child keeps the process alive, so the timer need not.
  timer = setTimeout(expireAfterReading, Math.max(Math.ceil(at - unstalledNow()), 0) + TIMER_SLACK_MS).unref();
}

/** Reads answers that have arrived before it expires budgets: the event loop polls between timers and immediates. */
function expireAfterReading(): void {
  setImmediate(expireDue);
}

function expireDue(): void {
  timerAt = Number.POSITIVE_INFINITY;
  const now = unstalledNow();
  // Iterates backwards: `onExpired` may remove any budget, and the last one then moves to its index.
  for (let index = running.length - 1; index >= 0; index -= 1) {
    const deadline = running[index];
    if (!deadline) continue;
    if (deadline.endsAt <= now) deadline.expire();
    else watchUntil(deadline.endsAt);
  }
}
