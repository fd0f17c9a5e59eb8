/**
 * SQL: the time at which a delivery or an event is due; infinite while it is held. Its `next_attempt_at` counts only where a
 * postponement can have set it: the clock of the database may have been ahead at that time, and then later ones would wait for it.
 *
 * @param longestWait the longest wait of a postponement, in seconds
 */
export const dueAtSql = (alias: string, longestWait: string): string =>
  `CASE WHEN ${alias}.next_attempt_at < 'infinity'
         -- Each postponement records an error.
         AND (${alias}.last_error IS NULL OR ${alias}.next_attempt_at > now() + make_interval(secs => ${longestWait}))
        THEN least(${alias}.next_attempt_at, now()) ELSE ${alias}.next_attempt_at END`;
