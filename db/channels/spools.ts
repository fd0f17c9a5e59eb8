/**
 * Keeps webhook requests of several API processes in order. While the database is unreachable, each process stores requests on its
 * own disk (its spool). Once it reaches the database again, it announces when the first of them arrived. Deliveries that arrived
 * since then are unsettled until all announced spools are stored, and then get the order of their arrival.
 */
import type { Pool } from 'pg';
import { notifySpoolsSettled } from '../postgres/notifications.ts';
import { createIdAt } from '../postgres/ordered-id.ts';
import { CONNECT_TIMEOUT_MS, inLockedTransaction, type Transaction } from '../postgres/pool.ts';
import { findValue } from '../postgres/rows.ts';

/** Interval in which a process reports that it reaches the database. Milliseconds. */
export const SHOWN_EVERY_MS = 1_000;
/**
 * A process may reach the database this much later than another one: an attempt that began just before the database was back
 * takes its whole timeout, and the next one comes a second later. Doubled for busy machines. Milliseconds.
 */
export const REACHES_LATER_MS = 2 * CONNECT_TIMEOUT_MS;
/**
 * Deliveries wait at most this long for an announced spool: its process may have died, or have too much to store. Those that begin
 * then keep the order in which they were stored. Seconds.
 */
const HOLD_S = 30;
/** A request gets its id before its body is received, and `received_at` after that. Longer than a body may take. Milliseconds. */
const ID_BEFORE_ARRIVAL_MS = 600_000;
/** Rows that ended processes left behind are deleted after this time. Seconds. */
const KEPT_S = 3_600;

const IS_ANNOUNCED = `announced_at > now() - interval '${HOLD_S} seconds'`;

/** Condition: the delivery waits until the requests of all spools of its time are stored. */
export const isUnsettledSql = (alias: string): string => `(${alias}.direction = 'in' AND EXISTS (
  SELECT 1 FROM spools WHERE ${IS_ANNOUNCED} AND oldest_at <= ${alias}.received_at))`;

/** Reports that this process has reached the database. @param oldest arrival of the first request on its disk; null: none waits there */
export async function showSpool(pool: Pool, id: string, oldest: number | null): Promise<void> {
  await pool.query({
    name: 'show-spool',
    text: `INSERT INTO spools (id, seen_at, announced_at, oldest_at)
           VALUES ($1, now(), CASE WHEN $2::float8 IS NOT NULL THEN now() END, to_timestamp($2::float8 / 1000))
           ON CONFLICT (id) DO UPDATE SET seen_at = now(), oldest_at = least(spools.oldest_at, excluded.oldest_at),
             announced_at = CASE WHEN excluded.oldest_at IS NULL THEN spools.announced_at
                                 ELSE coalesce(spools.announced_at, now()) END,
             drained = spools.drained AND excluded.oldest_at IS NULL`,
    values: [id, oldest],
  });
}

/**
 * Records that a process has stored all that was on its disk. The last one puts the deliveries in order and releases them. A
 * process that was there before the announcement, and has not reached the database since, is waited for, too.
 *
 * @returns false: others are not ready yet
 */
export function settleSpool(pool: Pool, id: string): Promise<boolean> {
  return inLockedTransaction(pool, 'spools', async (tx) => {
    const sql = 'UPDATE spools SET drained = true, seen_at = now() WHERE id = $1 AND announced_at IS NOT NULL';
    await tx.query(sql, [id]);
    const isWaiting = await findValue<boolean>(
      tx,
      `SELECT EXISTS (
         SELECT 1 FROM spools o, spools s
          WHERE s.id = $1 AND o.id <> s.id
            AND ((o.${IS_ANNOUNCED} AND NOT o.drained)
              OR (s.announced_at > now() - interval '${REACHES_LATER_MS} milliseconds' AND o.seen_at < s.announced_at))
       )`,
      [id],
    );
    if (isWaiting) return false;
    await restoreArrivalOrder(tx);
    return true;
  });
}

async function restoreArrivalOrder(tx: Transaction): Promise<void> {
  const since = await findValue<string>(
    tx,
    `WITH announced AS (SELECT id, oldest_at, ${IS_ANNOUNCED} AS is_announced FROM spools WHERE announced_at IS NOT NULL),
          cleared AS (UPDATE spools s SET announced_at = NULL, oldest_at = NULL, drained = false FROM announced a
                       WHERE s.id = a.id RETURNING a.oldest_at, a.is_announced)
     SELECT min(oldest_at) FILTER (WHERE is_announced) FROM cleared`,
  );
  await tx.query(`DELETE FROM spools WHERE seen_at < now() - interval '${KEPT_S} seconds'`);
  if (since) await exchangePositions(tx, since);
  await notifySpoolsSettled(tx);
}

async function exchangePositions(tx: Transaction, since: string): Promise<void> {
  // The deliveries of a channel exchange their positions. None of them was attempted: they were unsettled. Those of one process
  // have ids in the order of their arrival, also if its clock went back. The ids also keep the statement from reading what waited
  // before the outage. Two arrays, not a join of row numbers: PostgreSQL expects few new rows, and would compare each delivery
  // with each.
  await tx.query(
    `WITH unsettled AS (
       SELECT array_agg(id ORDER BY id) AS ids, array_agg(position ORDER BY position) AS positions FROM deliveries
        WHERE direction = 'in' AND state = 'pending' AND NOT set_aside AND attempts = 0
          AND received_at >= $1::timestamptz AND id >= $2 GROUP BY channel_id)
     UPDATE deliveries d SET position = sorted.position
       FROM unsettled, unnest(ids, positions) AS sorted(id, position)
      WHERE d.id = sorted.id AND d.position <> sorted.position`,
    [since, createIdAt(Math.max(0, Date.parse(since) - ID_BEFORE_ARRIVAL_MS))],
  );
}

/** Removes the row of a process that ends with an empty spool. */
export async function removeSpool(pool: Pool, id: string): Promise<void> {
  await pool.query('DELETE FROM spools WHERE id = $1 AND announced_at IS NULL', [id]);
}
