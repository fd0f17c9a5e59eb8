/** Creates time-range partitions of append-only tables ahead of time and drops those past retention. */

import type { Pool } from 'pg';
import type { UsageKind } from '../../sdk/contract/usage-kinds.ts';
import { dropUsagePeriods } from '../accounts/usage.ts';
import { isDuplicateTable } from '../postgres/database-errors.ts';
import { findValue, listValues } from '../postgres/rows.ts';

export interface PartitionedTable {
  readonly table: 'plugin_logs' | 'audit';
  /** Counts its rows by partition. */
  readonly usage: UsageKind;
  /** Width of one partition: a divisor or multiple of an hour. Milliseconds. */
  readonly widthMs: number;
  /** Number of partitions ahead of now: writes continue while maintenance fails for a while. */
  readonly ahead: number;
  /** Maintenance drops older rows. Milliseconds. */
  readonly retentionMs: number;
}

const formatStart = (ms: number): string => new Date(ms).toISOString().slice(0, 13).replace(/[-T]/g, '');
const floorToPartition = (row: PartitionedTable, ms: number): number => Math.floor(ms / row.widthMs) * row.widthMs;

/**
 * Creates the partitions around now and drops those past retention. Any number of processes may run it at once.
 *
 * @param at milliseconds since 1970; default: the database's clock, because a process whose clock is wrong would drop
 *   partitions in use and miss those of the others
 */
export async function maintainPartitions(pool: Pool, row: PartitionedTable, at?: number): Promise<void> {
  const now = at ?? (await readDatabaseClock(pool));
  // One partition behind as well: a batch may contain lines from just before the hour.
  const first = floorToPartition(row, now) - row.widthMs;
  for (let step = 0; step <= row.ahead + 1; step++) await createPartition(pool, row, first + step * row.widthMs);
  const oldest = floorToPartition(row, now - row.retentionMs);
  for (const name of await listPartitions(pool, row.table)) {
    // Names end with the start time, so they sort by time.
    if (name < `${row.table}_${formatStart(oldest)}`) await pool.query(`DROP TABLE IF EXISTS "${name}"`);
  }
  await dropUsagePeriods(pool, row.usage, new Date(oldest));
}

/** SQL: the time of the given row `g`. One that is ahead of the database's clock becomes its time: there may be no partition for it. */
export const GIVEN_TIME = 'least(g.at, now())';

async function readDatabaseClock(pool: Pool): Promise<number> {
  return Date.parse((await findValue<string>(pool, 'SELECT now()')) ?? '');
}

async function createPartition(pool: Pool, row: PartitionedTable, from: number): Promise<void> {
  const range = [from, from + row.widthMs].map((ms) => `'${new Date(ms).toISOString()}'`);
  const name = `${row.table}_${formatStart(from)}`;
  try {
    await pool.query(
      `CREATE TABLE IF NOT EXISTS "${name}" PARTITION OF ${row.table} FOR VALUES FROM (${range[0]}) TO (${range[1]})`,
    );
  } catch (error) {
    // IF NOT EXISTS is not a lock: another process created the partition at the same time.
    if (!isDuplicateTable(error)) throw error;
  }
}

const listPartitions = (pool: Pool, table: string): Promise<string[]> =>
  listValues(
    pool,
    `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = $1::regclass`,
    [table],
  );
