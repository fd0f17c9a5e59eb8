/** A service's clock for one session: whatever the database keeps of the session becomes older. The service has no such setting. */
import type { Pool } from 'pg';
import type { ServiceClock } from '../../conform/runtime/runtime-fixture.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { listRows } from '../../db/postgres/rows.ts';

/** Tables with rows of sessions and times. Partitions by time hold logs, which no runtime reads. */
const TABLES = `SELECT c.relname AS name, array_agg(a.attname::text) AS columns
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
   WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
     AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.atttypid = 'timestamptz'::regtype
     AND EXISTS (SELECT 1 FROM pg_attribute s WHERE s.attrelid = c.oid AND s.attname = 'session_id')
   GROUP BY c.relname ORDER BY c.relname`;

interface TimedTable {
  readonly name: string;
  readonly columns: readonly string[];
}

/** @param pool of the service's database */
export function openSessionClock(pool: Pool): ServiceClock {
  return {
    advance: (sessionId, seconds) =>
      inTransaction(pool, async (tx) => {
        for (const { name, columns } of await listRows<TimedTable>(tx, TABLES)) {
          const changes = columns.map((column) => `${column} = ${column} - make_interval(secs => $2)`);
          await tx.query(`UPDATE ${name} SET ${changes.join(', ')} WHERE session_id = $1`, [sessionId, seconds]);
        }
      }),
  };
}
