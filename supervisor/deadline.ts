/** A budget that stands still while its handler waits for something slow that is not its fault. */

/** Timers fire early by up to this much, milliseconds. */
const TIMER_SLACK_MS = 1;

export class Deadline {
  readonly #budgetMs: number;
  readonly #passed: () => void;
  #usedMs = 0;
  #since = performance.now();
  #pauses = 0;
  #timer: NodeJS.Timeout;

  /** Starts a budget, milliseconds. `passed` is called once, when it has been used up. */
  constructor(budgetMs: number, passed: () => void) {
    this.#budgetMs = budgetMs;
    this.#passed = passed;
    this.#timer = this.#arm();
  }

  /** Used up so far, without the pauses. */
  elapsedMs(): number {
    return this.#usedMs + (this.#pauses > 0 ? 0 : performance.now() - this.#since);
  }

  /** Pauses nest: the budget runs again when every pause has been resumed. */
  pause(): void {
    this.#pauses += 1;
    if (this.#pauses > 1) return;
    clearTimeout(this.#timer);
    this.#usedMs += performance.now() - this.#since;
  }

  resume(): void {
    if (this.#pauses === 0) return;
    this.#pauses -= 1;
    if (this.#pauses > 0) return;
    this.#since = performance.now();
    this.#timer = this.#arm();
  }

  /** Ends the matter: `passed` will not be called, and `resume` has no effect. */
  clear(): void {
    clearTimeout(this.#timer);
    this.#pauses = Number.POSITIVE_INFINITY;
  }

  #arm(): NodeJS.Timeout {
    // Whole milliseconds: Node keeps one list of timers for each length.
    return setTimeout(this.#passed, Math.max(Math.ceil(this.#budgetMs - this.#usedMs) + TIMER_SLACK_MS, 0));
  }
}
