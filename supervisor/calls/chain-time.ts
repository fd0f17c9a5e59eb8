/** The time that is left to the links of a chain. */
import { limits } from '../../sdk/contract/limits.ts';
import { type HookName, hooks, PAUSED_MAX_MS } from '../../sdk/contract/protocol.ts';
import { BUDGET_FACTOR_MAX, type UncountedTime } from './plugin-call.ts';

/** All times in milliseconds. */
export class ChainTime {
  readonly #linkMs: number;
  #leftMs: number;
  #pausesLeftMs = PAUSED_MAX_MS;
  #hostDelaysLeftMs: number;
  #hostWorkLeftMs: number;

  /** Compaction calls one link only and gives it the link's whole budget. */
  constructor(hook: HookName) {
    this.#linkMs = hooks[hook].budgetMs;
    this.#leftMs = Math.max(limits.chainBudgetMs, this.#linkMs);
    this.#hostDelaysLeftMs = this.#leftMs * (BUDGET_FACTOR_MAX - 1);
    this.#hostWorkLeftMs = this.#hostDelaysLeftMs;
  }

  /** The budget of a link that starts now. 0: no time is left. */
  get linkBudgetMs(): number {
    return Math.max(Math.min(this.#linkMs, this.#leftMs), 0);
  }

  /** Takes the time of a call from the links that follow. What does not count is limited for all links together. */
  subtract(tookMs: number, { pausedMs, hostDelayMs }: UncountedTime): void {
    const pauses = Math.min(pausedMs, tookMs, this.#pausesLeftMs);
    // The host may have been late during the pauses, too.
    const delays = Math.min(hostDelayMs, tookMs - pauses, this.#hostDelaysLeftMs);
    this.#pausesLeftMs -= pauses;
    this.#hostDelaysLeftMs -= delays;
    this.#leftMs -= tookMs - pauses - delays;
  }

  /** Takes what the host's own work between the calls took beyond its limit: a turn must not wait for a slow database without end. */
  subtractHostWork(tookMs: number): void {
    const uncounted = Math.min(tookMs, this.#hostWorkLeftMs);
    this.#hostWorkLeftMs -= uncounted;
    this.#leftMs -= tookMs - uncounted;
  }
}
