/** Time-range partitions of append-only tables: made ahead, dropped when all they hold is too old. */
import type { Pool } from 'pg';
import { isDuplicateTable } from '../postgres/database-errors.ts';

export interface PartitionedTable {
  readonly table: 'plugin_logs' | 'audit';
  /** Width of one partition, milliseconds; a divisor or multiple of an hour. */
  readonly widthMs: number;
  /** Partitions made ahead of now, so that a supervisor that cannot reach DDL for a while still writes. */
  readonly ahead: number;
  /** Rows older than this are gone at the next upkeep, milliseconds. */
  readonly retentionMs: number;
}

const stamp = (ms: number): string => new Date(ms).toISOString().slice(0, 13).replace(/[-T]/g, '');
const startOf = (row: PartitionedTable, ms: number): number => Math.floor(ms / row.widthMs) * row.widthMs;

/** Makes the partitions that are needed around `now` and drops those past retention. Safe in many processes at once. */
export async function maintainPartitions(pool: Pool, row: PartitionedTable, now: number): Promise<void> {
  // One partition behind as well: lines are batched and may be stamped just before the hour.
  const first = startOf(row, now) - row.widthMs;
  for (let step = 0; step <= row.ahead + 1; step++) await create(pool, row, first + step * row.widthMs);
  const oldest = startOf(row, now - row.retentionMs);
  for (const { name } of await list(pool, row.table)) {
    // A partition is named by its start and dropped when its end is past retention; names sort like times.
    if (name < `${row.table}_${stamp(oldest)}`) await pool.query(`DROP TABLE IF EXISTS "${name}"`);
  }
}

async function create(pool: Pool, row: PartitionedTable, from: number): Promise<void> {
  const range = [from, from + row.widthMs].map((ms) => `'${new Date(ms).toISOString()}'`);
  const name = `${row.table}_${stamp(from)}`;
  try {
    await pool.query(
      `CREATE TABLE IF NOT EXISTS "${name}" PARTITION OF ${row.table} FOR VALUES FROM (${range[0]}) TO (${range[1]})`,
    );
  } catch (error) {
    // Two processes at once: IF NOT EXISTS is no lock, and the loser of the race finds the partition made.
    if (!isDuplicateTable(error)) throw error;
  }
}

async function list(pool: Pool, table: string): Promise<{ name: string }[]> {
  const found = await pool.query<{ name: string }>(
    `SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = $1::regclass`,
    [table],
  );
  return found.rows;
}
