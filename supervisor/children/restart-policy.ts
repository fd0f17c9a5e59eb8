/** When a child that ended may start again. Pure: state and moment in, decision out. */

export interface RestartState {
  /** When the last exits were, oldest first, milliseconds since the epoch. */
  readonly exits: readonly number[];
  /** Exits in a row without a stable run between. */
  readonly streak: number;
  readonly phase: 'closed' | 'open' | 'half-open';
}
export type RestartDecision =
  | { readonly kind: 'start' }
  | { readonly kind: 'wait'; readonly until: number }
  /** `failed`: nothing starts it but a new version, a configure, a resume, or the trial at `until`. */
  | { readonly kind: 'failed'; readonly until: number };

/** First pause after an exit; doubled each time. */
const BACKOFF_FIRST_MS = 1_000;
const BACKOFF_MAX_MS = 60_000;
/** So that a hundred children that fell together do not rise together: ± this share. */
const JITTER = 0.2;
/** So many exits in so long, and starting again is not going to help. */
const EXITS_MAX = 5;
const EXITS_WINDOW_MS = 600_000;
/** A failed installation is tried again once after this long. */
const HALF_OPEN_AFTER_MS = 600_000;
/** A child that ran this long was well, and its next exit counts as the first. */
const STABLE_AFTER_MS = 60_000;

/** Nothing has happened yet; also the state after a new version, a configure or a resume. */
export const fresh: RestartState = { exits: [], streak: 0, phase: 'closed' };

/**
 * The state after an exit that nobody asked for.
 *
 * @param ranForMs how long the child had run, milliseconds
 */
export function afterExit(state: RestartState, now: number, ranForMs: number): RestartState {
  const exits = [...state.exits.filter((at) => now - at < EXITS_WINDOW_MS), now].slice(-EXITS_MAX);
  const streak = ranForMs >= STABLE_AFTER_MS ? 1 : state.streak + 1;
  const open = state.phase === 'half-open' || exits.length >= EXITS_MAX;
  return { exits, streak, phase: open ? 'open' : 'closed' };
}

/**
 * Whether to start now.
 *
 * @param chance a number from 0 to 1, the same one for as long as this state lasts
 */
export function decide(state: RestartState, now: number, chance: number): RestartDecision {
  const last = state.exits.at(-1);
  if (last === undefined || state.phase === 'half-open') return { kind: 'start' };
  if (state.phase === 'open') {
    const until = last + HALF_OPEN_AFTER_MS;
    return now >= until ? { kind: 'start' } : { kind: 'failed', until };
  }
  const pause = Math.min(BACKOFF_FIRST_MS * 2 ** (state.streak - 1), BACKOFF_MAX_MS);
  const until = last + pause * (1 + JITTER * (2 * chance - 1));
  return now >= until ? { kind: 'start' } : { kind: 'wait', until };
}

/** The state when a start is tried: a failed installation gets exactly one. */
export function afterStart(state: RestartState): RestartState {
  return state.phase === 'open' ? { ...state, phase: 'half-open' } : state;
}

/** The state once a child has run for a while (`STABLE_AFTER_MS`): a trial that held closes the circuit. */
export function afterStableRun(state: RestartState): RestartState {
  return state.phase === 'half-open' ? fresh : { ...state, streak: 0 };
}
