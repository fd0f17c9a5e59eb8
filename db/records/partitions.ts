/** Creates time-range partitions of append-only tables ahead of time and drops those past retention. */

import type { Pool } from 'pg';
import type { UsageKind } from '../../sdk/contract/usage-kinds.ts';
import { dropUsagePeriods } from '../accounts/usage.ts';
import { isDuplicateTable, isLockRefused, isMissingPartition } from '../postgres/database-errors.ts';
import { inTransaction } from '../postgres/pool.ts';
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

/** A drop waits this long for readers of the table, because all later readers and writers wait behind it. Milliseconds. */
const DROP_LOCK_TIMEOUT_MS = 100;

const formatStart = (ms: number): string => new Date(ms).toISOString().slice(0, 13).replace(/[-T]/g, '');
const floorToPartition = (row: PartitionedTable, ms: number): number => Math.floor(ms / row.widthMs) * row.widthMs;
const namePartition = (row: PartitionedTable, from: number): string => `${row.table}_${formatStart(from)}`;

/**
 * Creates the partitions around now and drops those past retention. Any number of processes may run it at once. What a
 * long transaction still reads, such as that of `pg_dump`, is dropped by a later run.
 *
 * @param at milliseconds since 1970; default: the database's clock, because a process whose clock is wrong would drop
 *   partitions in use and miss those of the others
 */
export async function maintainPartitions(pool: Pool, row: PartitionedTable, at?: number): Promise<void> {
  const now = at ?? (await readDatabaseClock(pool));
  await createPartitions(pool, row, now);
  const oldest = floorToPartition(row, now - row.retentionMs);
  for (const name of await listPartitions(pool, row.table)) {
    // Names end with the start time, so they sort by time.
    if (name < namePartition(row, oldest) && !(await dropPartition(pool, name))) return;
  }
  await dropUsagePeriods(pool, row.usage, new Date(oldest));
}

/** Creates the partitions around now that are missing. @param at as for `maintainPartitions` */
export async function createPartitions(pool: Pool, row: PartitionedTable, at?: number): Promise<void> {
  await createMissing(pool, row, startsAround(row, at ?? (await readDatabaseClock(pool))));
}

function startsAround(row: PartitionedTable, now: number): number[] {
  // One partition behind as well: a batch may contain lines from just before the hour.
  const first = floorToPartition(row, now) - row.widthMs;
  return Array.from({ length: row.ahead + 2 }, (_, step) => first + step * row.widthMs);
}

/**
 * Runs an INSERT. If no partition takes its rows, creates those around now, in case maintenance has failed for hours, and those of
 * rows that waited for the database for hours.
 *
 * @param times of the rows, ISO 8601. Rows past retention get no partition: the INSERT is rejected
 */
export async function insertIntoPartitions(
  pool: Pool,
  row: PartitionedTable,
  times: readonly string[],
  insert: () => Promise<unknown>,
): Promise<void> {
  try {
    await insert();
  } catch (error) {
    if (!isMissingPartition(error)) throw error;
    const now = await readDatabaseClock(pool);
    const oldest = floorToPartition(row, now - row.retentionMs);
    const starts = times.map((time) => floorToPartition(row, Date.parse(time)));
    const kept = starts.filter((start) => start >= oldest && start < now);
    await createMissing(pool, row, [...startsAround(row, now), ...kept]);
    await insert();
  }
}

async function createMissing(pool: Pool, row: PartitionedTable, starts: readonly number[]): Promise<void> {
  const existing = await listPartitions(pool, row.table);
  for (const start of new Set(starts))
    if (!existing.includes(namePartition(row, start))) await createPartition(pool, row, start);
}

/** SQL: the time of the given row `g`. One that is ahead of the database's clock becomes its time: there may be no partition for it. */
export const GIVEN_TIME = 'least(g.at, now())';

/** SQL: leaves out the given rows `g` that are stored. Not in every insert: it searches the index of each partition for each row. */
export const withoutStoredSql = ({ table }: PartitionedTable): string =>
  `WHERE NOT EXISTS (SELECT FROM ${table} s WHERE s.installation_id = g."installationId" AND s.id = g.id)`;

async function readDatabaseClock(pool: Pool): Promise<number> {
  return Date.parse((await findValue<string>(pool, 'SELECT now()')) ?? '');
}

async function createPartition(pool: Pool, row: PartitionedTable, from: number): Promise<void> {
  const [start, end] = [from, from + row.widthMs].map((ms) => `'${new Date(ms).toISOString()}'`);
  const name = namePartition(row, from);
  try {
    await inTransaction(pool, async (tx) => {
      // CREATE TABLE … PARTITION OF waits for all who read the table, such as pg_dump, and later readers and writers wait behind it.
      await tx.query(`CREATE TABLE "${name}" (LIKE ${row.table} INCLUDING ALL)`);
      await tx.query(`ALTER TABLE ${row.table} ATTACH PARTITION "${name}" FOR VALUES FROM (${start}) TO (${end})`);
    });
  } catch (error) {
    // Another process created the partition at the same time.
    if (!isDuplicateTable(error)) throw error;
  }
}

/** @returns false: a transaction still reads the table */
async function dropPartition(pool: Pool, name: string): Promise<boolean> {
  try {
    await inTransaction(pool, async (tx) => {
      await tx.query(`SET LOCAL lock_timeout = ${DROP_LOCK_TIMEOUT_MS}`);
      await tx.query(`DROP TABLE IF EXISTS "${name}"`);
    });
    return true;
  } catch (error) {
    if (isLockRefused(error)) return false;
    throw error;
  }
}

const listPartitions = (pool: Pool, table: string): Promise<string[]> =>
  listValues(
    pool,
    `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = $1::regclass ORDER BY c.relname`,
    [table],
  );
