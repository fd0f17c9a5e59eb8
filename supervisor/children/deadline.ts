/**
 * Limits the time of calls. A budget is paused while its handler waits for something slow outside the plugin. The time in which the
 * supervisor's own event loop is blocked does not count.
 */
import { unstalledNow } from '../../service/timing/loop-stalls.ts';
import { within } from '../../service/timing/within.ts';
import type { CpuDemand, WatchedProcess } from '../jail/watched-process.ts';

/** Timers fire up to a millisecond early. */
const TIMER_SLACK_MS = 1;
/** A process that had a processor for this share of a time computes: it gets no more time. */
export const COMPUTING_SHARE = 0.5;

export class Deadline {
  #budgetMs: number;
  readonly #onExpired: () => void;
  /** The part of the budget that was used before its last start or resume. */
  #usedMs = 0;
  #startedAt = 0;
  #pauses = 0;
  #pausedAt = 0;
  /** The time of all pauses that have ended. */
  #pausedMs = 0;
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

  /** Returns the time that is used, without pauses. */
  elapsedMs(): number {
    return this.#usedMs + (this.#pauses > 0 ? 0 : unstalledNow() - this.#startedAt);
  }

  get isPaused(): boolean {
    return this.#pauses > 0;
  }

  /** The time for which the budget was paused. */
  get pausedMs(): number {
    return this.#pausedMs + (this.#pauses > 0 ? unstalledNow() - this.#pausedAt : 0);
  }

  /** Pauses can be nested: the budget runs again after as many calls of `resume` as of `pause`. */
  pause(): void {
    this.#pauses += 1;
    if (this.#pauses > 1) return;
    this.#pausedAt = unstalledNow();
    this.#usedMs += this.#pausedAt - this.#startedAt;
    this.#stop();
  }

  resume(): void {
    if (this.#pauses === 0) return;
    this.#pauses -= 1;
    if (this.#pauses > 0) return;
    this.#pausedMs += unstalledNow() - this.#pausedAt;
    if (!this.#isOver) this.#start();
  }

  /** Ends the budget without calling `onExpired`. */
  clear(): void {
    this.#isOver = true;
    this.#stop();
  }

  /** Ends the budget as used up, or extends it. */
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

export interface PauseBounds {
  /** The budget runs on after this time of all pauses together, although a host call still waits. Milliseconds. */
  readonly maxMs: number;
  /** Interval between looks at the process while the budget is paused. Milliseconds. */
  readonly lookEveryMs: number;
}

/**
 * Pauses a budget while host calls of its handler wait for something slow, for a limited time in all. The budget runs on while the process
 * wants the processor and does not answer, because then the handler computes beside the host call.
 */
export class HostCallPauses {
  readonly maxMs: number;
  readonly #deadline: Deadline;
  readonly #lookEveryMs: number;
  readonly #process: Pick<WatchedProcess, 'cpuDemand'>;
  readonly #answer: () => Promise<void>;
  /** Runs while a host call pauses the budget. */
  readonly #limit: Deadline;
  /** Runs until the next look at the process, or until it has to have answered. Null: the budget is not paused. */
  #look: Deadline | null = null;
  #waitingCalls = 0;
  #isUsedUp = false;
  /** Whether the process computes and has not answered in time. */
  #isHung = false;
  #isOver = false;

  /** @param answer asks the process for an answer; resolves when it has answered, or has ended */
  constructor(
    deadline: Deadline,
    { maxMs, lookEveryMs }: PauseBounds,
    process: Pick<WatchedProcess, 'cpuDemand'>,
    answer: () => Promise<void>,
  ) {
    this.maxMs = maxMs;
    this.#deadline = deadline;
    this.#lookEveryMs = lookEveryMs;
    this.#process = process;
    this.#answer = answer;
    this.#limit = new Deadline(maxMs, () => {
      this.#isUsedUp = true;
      this.#update();
    });
    this.#limit.pause();
  }

  get isUsedUp(): boolean {
    return this.#isUsedUp;
  }

  /** A host call begins to wait. */
  pause(): void {
    this.#waitingCalls += 1;
    this.#update();
  }

  /** A host call has ended. */
  resume(): void {
    this.#waitingCalls -= 1;
    this.#update();
  }

  clear(): void {
    this.#isOver = true;
    this.#update();
    this.#limit.clear();
  }

  #update(): void {
    const isPaused = this.#waitingCalls > 0 && !this.#isUsedUp && !this.#isHung && !this.#isOver;
    if (isPaused === (this.#look !== null)) return;
    if (isPaused) {
      this.#limit.resume();
      this.#deadline.pause();
      this.#scheduleLook();
    } else {
      this.#look?.clear();
      this.#look = null;
      this.#limit.pause();
      this.#deadline.resume();
    }
  }

  #scheduleLook(): void {
    const before = this.#process.cpuDemand();
    this.#look = new Deadline(this.#lookEveryMs, () => {
      const { hadMs, waitedMs } = this.#process.cpuDemand();
      const wantedMs = hadMs - before.hadMs + waitedMs - before.waitedMs;
      // Usually it sleeps, and need not be woken.
      if (wantedMs < this.#lookEveryMs * COMPUTING_SHARE) this.#scheduleLook();
      else this.#waitForAnswer();
    });
  }

  /** Another handler may compute in pieces: then the answer comes before the next look, and takes nothing from the budget. */
  #waitForAnswer(): void {
    const wait = new Deadline(this.#lookEveryMs, () => {
      this.#isHung = true;
      this.#update();
    });
    this.#look = wait;
    void this.#answer().then(() => {
      if (this.#look === wait) {
        wait.clear();
        this.#scheduleLook();
        return;
      }
      this.#isHung = false;
      this.#update();
    });
  }
}

/** An answer to a host call that waits for nothing outside the host usually takes less. Milliseconds. */
const USUAL_ANSWER_MS = 100;

/** Measures for how long a child waited for late answers to host calls, such as those that wait for the database. */
export class HostDelays {
  /** The calls that are not answered, oldest first. */
  readonly #running = new Set<{ readonly startedAt: number }>();
  #delayedMs = 0;
  #countedUntil = 0;

  /** Counts calls that are late at the same time once. Milliseconds. */
  get delayedMs(): number {
    this.#count();
    return this.#delayedMs;
  }

  /** A host call begins to wait. @returns a function that ends this, to be called once */
  begin(): () => void {
    const call = { startedAt: unstalledNow() };
    this.#running.add(call);
    return () => {
      this.#count();
      this.#running.delete(call);
    };
  }

  #count(): void {
    const now = unstalledNow();
    const [oldest] = this.#running;
    if (oldest) {
      const lateFrom = Math.max(oldest.startedAt + USUAL_ANSWER_MS, this.#countedUntil);
      this.#delayedMs += Math.max(now - lateFrom, 0);
    }
    this.#countedUntil = now;
  }
}

/** The process is watched during this last part of a budget only. Nearly all calls end before, and reading CPU times takes 15 µs. */
const WATCHED_SHARE = 0.5;
/** A shorter wait for a processor is usual and does not extend the budget. Milliseconds. */
const WAIT_MIN_MS = 10;

interface DemandingProcess extends Pick<WatchedProcess, 'cpuDemand'> {
  /** For how long it has waited for late answers to host calls, which `cpuDemand` counts, too. Default: it makes no host calls. */
  readonly hostDelayMs?: number;
}

/** A budget that is extended by the time for which the process waited for a processor, because a busy machine is not its fault. */
export class FairDeadline extends Deadline {
  readonly #process: DemandingProcess;
  readonly #watchedMs: number;
  #addableMs: number;
  readonly #hostDelayBeforeMs: number;
  /** The last extension, and the CPU times of the process at its start and at the first one. Null: the process is not watched yet. */
  #watch: { readonly ms: number; readonly start: CpuDemand; readonly first: CpuDemand } | null = null;

  /**
   * @param process the process to which the budget is given
   * @param factorMax the extended budget is at most this many times as long
   * @param onExpired called once, when the budget is used up
   */
  constructor(budgetMs: number, process: DemandingProcess, factorMax: number, onExpired: () => void) {
    super(budgetMs * (1 - WATCHED_SHARE), onExpired);
    this.#watchedMs = budgetMs * WATCHED_SHARE;
    this.#addableMs = budgetMs * (factorMax - 1);
    this.#process = process;
    this.#hostDelayBeforeMs = process.hostDelayMs ?? 0;
  }

  /** What the host was late with since the start of the budget. Milliseconds. */
  get hostDelayMs(): number {
    return (this.#process.hostDelayMs ?? 0) - this.#hostDelayBeforeMs;
  }

  protected override end(): void {
    const demand = this.#process.cpuDemand();
    if (this.#watch === null) {
      // Measured in the first part of the budget, too, where the process is not watched.
      const addedMs = Math.min(this.hostDelayMs, this.#watchedMs, this.#addableMs);
      this.#addableMs -= addedMs;
      this.#extendWatched(this.#watchedMs + addedMs, demand, demand);
    } else {
      const { ms, start, first } = this.#watch;
      const countedMs = demand.waitedMs - start.waitedMs;
      // A wait that began before `start` and has not ended, which the kernel has not counted.
      const isStillWaiting = start.isRunnable && demand.isRunnable && countedMs === 0;
      const waitedMs = isStillWaiting ? ms - (demand.hadMs - start.hadMs) : countedMs;
      // At most `ms`, because the process may also have waited while the budget was paused.
      const addedMs = Math.min(waitedMs, ms, this.#addableMs);
      const isComputing = demand.hadMs - first.hadMs >= this.#watchedMs * COMPUTING_SHARE;
      this.#addableMs -= addedMs;
      if (addedMs < WAIT_MIN_MS || isComputing) super.end();
      else this.#extendWatched(addedMs, demand, first);
    }
  }

  #extendWatched(ms: number, start: CpuDemand, first: CpuDemand): void {
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

// One timer serves all budgets. It is set for the earliest one, and stays set if that call ends in time, as most do. A timer for each
// call would take 5 % of a hook's time, and a Set in place of the array 1 %.
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

/** Expires budgets after the answers that have arrived are read: the event loop polls between timers and immediates. */
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
