/** SQL for how long a delivery or an event has waited. */

/**
 * The time since which an entry waits for the service: its arrival, its last replay, or the time at which its installation could run
 * again. Otherwise a user who replays or resumes old entries would make the service look slow.
 *
 * @param releasedAt `released_at` of its installation
 */
export const queuedAtSql = (
  alias: string,
  releasedAt: string,
  arrivedAt: 'received_at' | 'occurred_at' = 'received_at',
): string => `greatest(${alias}.${arrivedAt}, ${alias}.replayed_at, ${releasedAt})`;

/** Common table that follows the common table `released`, which has the `installation_id` of each entry that was held. */
export const MARK_RELEASED = `marked AS (
  UPDATE installations i SET released_at = now()
    -- One that is locked is left out: the end of an update locks it before its events, and this statement after them.
    FROM (SELECT id FROM installations WHERE id IN (SELECT installation_id FROM released) FOR NO KEY UPDATE SKIP LOCKED) AS free
   WHERE i.id = free.id)`;
