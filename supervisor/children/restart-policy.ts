/** Decides when a child that ended may start again, as pure functions of state and time. */

export interface RestartState {
  /** Times of the last exits, oldest first, milliseconds of a monotonic clock. */
  readonly exits: readonly number[];
  /** Exits since the last stable run. */
  readonly streak: number;
  readonly phase: 'closed' | 'open' | 'half-open';
  /** Starts in a row that the machine prevented, and the time of the last one. */
  readonly prevented: { readonly count: number; readonly at: number } | null;
}
type RestartDecision =
  | { readonly kind: 'start' }
  | { readonly kind: 'wait'; readonly until: number }
  /** `failed`: only a new version, a configure, a resume, or the trial at `until` starts it. */
  | { readonly kind: 'failed'; readonly until: number };

/** First backoff after an exit or a prevented start; doubled each time. */
const BACKOFF_FIRST_MS = 1_000;
const BACKOFF_MAX_MS = 60_000;
/** Random share added to or taken from a backoff, so that children that ended together do not restart together. */
const JITTER = 0.2;
/** After this many exits in this time, the installation counts as failed. */
const EXITS_MAX = 5;
const EXITS_WINDOW_MS = 600_000;
/** A failed installation gets one trial after this time. */
const HALF_OPEN_AFTER_MS = 600_000;
/** A run of this length is stable: the next exit counts as the first. Milliseconds. */
export const STABLE_AFTER_MS = 60_000;

/**
 * After this many kills from outside in this time, further ones are exits: a process can end itself with the code that reports a
 * kill. More than an operator or a full machine makes in this time.
 */
export const INTERRUPTIONS_MAX = 10;
const INTERRUPTIONS_WINDOW_MS = 600_000;

/** The initial state, and the state after a new version, a configure or a resume. */
export const fresh: RestartState = { exits: [], streak: 0, phase: 'closed', prevented: null };

/**
 * Returns the state after an exit that the supervisor did not request.
 *
 * @param ranForMs how long the child had run, milliseconds
 */
export function afterExit(state: RestartState, now: number, ranForMs: number): RestartState {
  const exits = [...listRecentExits(state, now), now].slice(-EXITS_MAX);
  const streak = ranForMs >= STABLE_AFTER_MS ? 1 : state.streak + 1;
  const open = state.phase === 'half-open' || exits.length >= EXITS_MAX;
  return { exits, streak, phase: open ? 'open' : 'closed', prevented: null };
}

/** Returns the state after a start that the machine prevented: the next one waits, and the installation never fails by it. */
export const afterPreventedStart = (state: RestartState, now: number): RestartState => ({
  ...state,
  prevented: { count: (state.prevented?.count ?? 0) + 1, at: now },
});

/** Times of the exits that count now. */
export const listRecentExits = ({ exits }: RestartState, now: number): readonly number[] =>
  exits.filter((at) => now - at < EXITS_WINDOW_MS);

/**
 * Decides whether a kill from outside counts as an exit of the plugin.
 *
 * @param before times of the earlier kills that did not count, oldest first
 * @returns the times with this one; null if it counts as an exit
 */
export function admitInterruption(before: readonly number[], now: number): readonly number[] | null {
  const recent = before.filter((at) => now - at < INTERRUPTIONS_WINDOW_MS);
  return recent.length < INTERRUPTIONS_MAX ? [...recent, now] : null;
}

/**
 * Decides whether to start now.
 *
 * @param chance a random number from 0 to 1, constant while this state lasts
 */
export function decide(state: RestartState, now: number, chance: number): RestartDecision {
  const { prevented } = state;
  const mayTryAgainAt = prevented ? prevented.at + findPause(prevented.count, chance) : 0;
  if (now < mayTryAgainAt) return { kind: 'wait', until: mayTryAgainAt };
  const last = state.exits.at(-1);
  if (last === undefined || state.phase === 'half-open') return { kind: 'start' };
  if (state.phase === 'open') {
    const until = last + HALF_OPEN_AFTER_MS;
    return now >= until ? { kind: 'start' } : { kind: 'failed', until };
  }
  const until = last + findPause(state.streak, chance);
  return now >= until ? { kind: 'start' } : { kind: 'wait', until };
}

/** Pause after so many failures in a row. Milliseconds. */
const findPause = (count: number, chance: number): number =>
  Math.min(BACKOFF_FIRST_MS * 2 ** (count - 1), BACKOFF_MAX_MS) * (1 + JITTER * (2 * chance - 1));

/** Returns the state after a start was tried: a failed installation gets exactly one trial. */
export function afterStart(state: RestartState): RestartState {
  return state.phase === 'open' ? { ...state, phase: 'half-open' } : state;
}

/** Returns the state after a start that the machine did not prevent. */
export const afterLoad = (state: RestartState): RestartState => ({ ...state, prevented: null });

/** Returns the state after a stable run: a successful trial closes the circuit breaker. */
export function afterStableRun(state: RestartState): RestartState {
  return state.phase === 'half-open' ? fresh : { ...state, streak: 0 };
}

/** The most frequent reason; of several, the latest. One late end must not hide what the others had in common. */
export function pickMainReason(reasons: readonly string[]): string {
  const count = (reason: string) => reasons.filter((other) => other === reason).length;
  return reasons.reduce((best, reason) => (count(reason) >= count(best) ? reason : best), '');
}
