/** Removes jobs that wait behind another job of the same installation. */
import type { Pool } from 'pg';
import { inTransaction, tryNamedLock } from '../postgres/pool.ts';
import { changeRows } from '../postgres/rows.ts';
import type { QueueName } from './queues.ts';

/** One job of such a queue does all the work of its group, which the rows of other tables define. */
const MERGED_QUEUES = ['events', 'updates'] as const satisfies readonly QueueName[];

/** Jobs that one call removes, in 0.2 to 0.8 s as measured with 200,000 of them; the next call removes more. */
const MERGE_LIMIT = 50_000;

/**
 * Leaves each group of those queues one of its due jobs, the one that runs first: pg-boss reads all that wait before it finds one
 * of an account whose places are not taken. A worker that fetches the job that is left begins after this, and sees the rows of the
 * others.
 *
 * @returns how many were removed
 */
export const mergeWaitingJobs = (pool: Pool): Promise<number> =>
  inTransaction(pool, async (tx) => {
    // Two at once could each remove the job that the other leaves.
    if (!(await tryNamedLock(tx, 'merge waiting jobs'))) return 0;
    return changeRows(
      tx,
      `DELETE FROM pgboss.job j USING (
         SELECT name, id FROM (
           SELECT name, id, row_number() OVER (PARTITION BY name, group_id ORDER BY priority DESC, created_on, id) AS place
             FROM pgboss.job
            WHERE name = ANY ($1) AND state = 'created' AND NOT blocked AND start_after <= now() AND group_id IS NOT NULL
         ) waiting WHERE place > 1 LIMIT ${MERGE_LIMIT}) later
        WHERE j.name = later.name AND j.id = later.id AND j.state = 'created'`,
      [MERGED_QUEUES],
    );
  });
