/** Budgets that stand still while their handlers wait for something slow that is not their fault. */

/** A look at all budgets is due this long after the earliest of them: timers fire early by up to a millisecond. */
const SLACK_MS = 1;

export class Deadline {
  /** Its neighbours on the clock's ring: joining and leaving it costs two assignments, where a Set hashes. */
  before: Deadline = this;
  after: Deadline = this;
  readonly #clock: DeadlineClock;
  readonly #budgetMs: number;
  readonly #passed: () => void;
  #usedMs = 0;
  #since: number;
  #pauses = 0;

  /** See `DeadlineClock.start`. */
  constructor(clock: DeadlineClock, budgetMs: number, now: number, passed: () => void) {
    this.#clock = clock;
    this.#budgetMs = budgetMs;
    this.#since = now;
    this.#passed = passed;
  }

  /** When it will have been used up, on the clock of `performance.now()`. Never, while it is paused. */
  get endsAt(): number {
    return this.#pauses > 0 ? Number.POSITIVE_INFINITY : this.#since + this.#budgetMs - this.#usedMs;
  }

  /** Used up so far, without the pauses. */
  elapsedMs(): number {
    return this.#usedMs + (this.#pauses > 0 ? 0 : performance.now() - this.#since);
  }

  /** Pauses nest: the budget runs again when every pause has been resumed. */
  pause(): void {
    this.#pauses += 1;
    if (this.#pauses === 1) this.#usedMs += performance.now() - this.#since;
  }

  resume(): void {
    if (this.#pauses === 0) return;
    this.#pauses -= 1;
    if (this.#pauses > 0) return;
    this.#since = performance.now();
    this.#clock.watch(this.endsAt);
  }

  /** Ends the matter: `passed` will not be called. */
  clear(): void {
    this.before.after = this.after;
    this.after.before = this.before;
    this.before = this;
    this.after = this;
  }

  pass(): void {
    this.#passed();
  }
}

/**
 * One timer for many budgets. It is set for the earliest and left alone when that one ends in time, as nearly all do: a
 * timer of its own for each call would cost more than the rest of the call's bookkeeping.
 */
export class DeadlineClock {
  /** Where the ring begins and ends. */
  readonly #ring = new Deadline(this, Number.POSITIVE_INFINITY, 0, () => undefined);
  #timer: NodeJS.Timeout | null = null;
  #dueAt = Number.POSITIVE_INFINITY;

  /** Starts a budget, milliseconds. `passed` is called once, when it has been used up. */
  start(budgetMs: number, passed: () => void): Deadline {
    const deadline = new Deadline(this, budgetMs, performance.now(), passed);
    deadline.before = this.#ring.before;
    deadline.after = this.#ring;
    deadline.before.after = deadline;
    this.#ring.before = deadline;
    this.watch(deadline.endsAt);
    return deadline;
  }

  /** Sees to it that the budgets are looked at then. */
  watch(at: number): void {
    if (at >= this.#dueAt) return;
    if (this.#timer) clearTimeout(this.#timer);
    this.#dueAt = at;
    // What waits for a budget also waits for a child, which keeps the process alive on its own.
    this.#timer = setTimeout(() => this.#look(), Math.max(Math.ceil(at - performance.now()), 0) + SLACK_MS).unref();
  }

  #look(): void {
    this.#timer = null;
    this.#dueAt = Number.POSITIVE_INFINITY;
    const now = performance.now();
    let next = Number.POSITIVE_INFINITY;
    const passed: Deadline[] = [];
    for (let deadline = this.#ring.after; deadline !== this.#ring; deadline = deadline.after) {
      if (deadline.endsAt <= now) passed.push(deadline);
      else next = Math.min(next, deadline.endsAt);
    }
    for (const deadline of passed) {
      // One that ends may end others with it.
      if (deadline.after === deadline) continue;
      deadline.clear();
      deadline.pass();
    }
    if (next < Number.POSITIVE_INFINITY) this.watch(next);
  }
}
