/**
 * Attempts at deliveries and events that were cut short by no fault of the plugin's: the supervisor died, or somebody
 * outside killed the plugin's process. They are made again at once and count as no failure, so many of them; beyond, they
 * count like any other: whoever ends a process each time may well be the cause.
 */
/** Of one delivery or event. */
export const INTERRUPTIONS_MAX = 20;

/** SQL, in the statement that claims a row: a claim that somebody left behind is an interruption. */
export const countInterruptionSql = `interruptions = least(interruptions + (claimed_by IS NOT NULL)::int, ${INTERRUPTIONS_MAX})`;

/** How an attempt that did not succeed counts. */
export type AttemptResult =
  /** The plugin had its chance. */
  | 'failure'
  /** It was cut short. */
  | 'interruption'
  /** It was never begun. */
  | 'nothing';

/** SQL: the changes to the counters of a row. `parameter` is a `AttemptResult`. */
export const countAttemptSql = (parameter: string): string =>
  `attempts = attempts - (${parameter} = 'nothing')::int, interruptions = interruptions + (${parameter} = 'interruption')::int`;
