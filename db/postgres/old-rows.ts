/** Deletes old rows in batches, however many one account has. */
import type { Pool } from 'pg';
import { SWEEP_BATCH, sweepRows } from './rows.ts';

/** Statements of one sweep of old rows: a million rows. Only other sweeps wait for it. The next one continues. */
export const LONG_SWEEP_STATEMENTS = 500;

/**
 * Deletes the rows that a condition selects, those with the smallest value of a column first.
 *
 * @param column with an index of these rows
 */
export function deleteOldRows(
  pool: Pool,
  table: string,
  column: string,
  condition: string,
  values: readonly unknown[] = [],
): Promise<void> {
  const sql = `DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM ${table} WHERE ${condition} ORDER BY ${column} LIMIT ${SWEEP_BATCH} FOR UPDATE SKIP LOCKED))`;
  return sweepRows(pool, sql, values, LONG_SWEEP_STATEMENTS);
}
