/**
 * Counts attempts at deliveries and events that were interrupted: the supervisor died or stopped, the plugin was paused, or
 * its process was killed from outside. An interrupted attempt is repeated at once and is not a failure of the plugin.
 */

/** Maximum per delivery or event. Further ones count as failures: the plugin may be their cause. */
export const INTERRUPTIONS_MAX = 20;

/** Part of the UPDATE that claims a row: an earlier claim that was never released is an interruption. */
export const countInterruptionSql = `interruptions = least(interruptions + (claimed_by IS NOT NULL)::int, ${INTERRUPTIONS_MAX})`;

/** How an unsuccessful attempt is counted. */
export type AttemptResult =
  | 'failure'
  | 'interruption'
  /** The plugin was not called. */
  | 'nothing';

/** SQL: the changes to the counters of a row. `parameter` is an SQL expression of an `AttemptResult`. */
export const countAttemptSql = (parameter: string): string =>
  `attempts = attempts - (${parameter} = 'nothing')::int, interruptions = interruptions + (${parameter} = 'interruption')::int`;
