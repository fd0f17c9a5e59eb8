/** A budget that stands still while its handler waits for something slow that is not its fault. */

export interface Deadline {
  /** Milliseconds given, and used up so far without the pauses. */
  readonly budgetMs: number;
  elapsedMs(): number;
  /** Pauses nest: the budget runs again when every pause has been resumed. */
  pause(): void;
  resume(): void;
  /** Ends the matter; `passed` will not be called. */
  clear(): void;
}

/** Timers fire early by up to this much, milliseconds. */
const TIMER_SLACK_MS = 1;

/** Starts a budget. `passed` is called once, when it has been used up. */
export function startDeadline(budgetMs: number, passed: () => void): Deadline {
  let used = 0;
  let since = performance.now();
  let pauses = 0;
  let timer = arm();
  function arm(): NodeJS.Timeout {
    return setTimeout(passed, Math.max(budgetMs - used + TIMER_SLACK_MS, 0));
  }
  return {
    budgetMs,
    elapsedMs: () => used + (pauses > 0 ? 0 : performance.now() - since),
    pause() {
      pauses += 1;
      if (pauses > 1) return;
      clearTimeout(timer);
      used += performance.now() - since;
    },
    resume() {
      if (pauses === 0) return;
      pauses -= 1;
      if (pauses > 0) return;
      since = performance.now();
      timer = arm();
    },
    clear: () => clearTimeout(timer),
  };
}
