/**
 * Builds indexes of existing tables while the service uses these tables. A migration would hold a lock for as long as it reads the
 * whole table, and requests that need the table get 503 after some seconds.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';

export interface ConcurrentIndex {
  /** Its table may not be partitioned: PostgreSQL builds no such index concurrently. */
  readonly name: string;
  /** What follows `ON`: table, columns and condition, such as `deliveries (channel_id) WHERE state = 'pending'`. */
  readonly on: string;
}

/**
 * The indexes that are built after the migrations, in this order. To add one, write it here and not into a migration. To remove
 * one, delete it here, and drop it in a migration one release later.
 */
export const CONCURRENT_INDEXES: readonly ConcurrentIndex[] = [
  {
    name: 'channel_addresses_retired',
    on: 'channel_addresses (installation_id, retired_at) WHERE retired_at IS NOT NULL',
  },
];

/** Between two looks whether another process has built the indexes. Milliseconds. */
const POLL_MS = 250;
/** Only one process at a time builds: a second build of the same index would fail. */
const LOCK = `hashtext('bulkhead concurrent indexes')`;

/**
 * Builds those that are missing. Any number of processes may call it at once. A build that was interrupted begins again.
 *
 * @param client not in a transaction
 * @param onBuild called with a sentence before each build, which takes as long as the oldest running transaction, such as a dump
 */
export async function buildIndexes(
  client: Client,
  indexes: readonly ConcurrentIndex[],
  onBuild: (sentence: string) => void,
): Promise<void> {
  if (await areBuilt(client, indexes)) return;
  // Tried, not awaited: a build waits for all statements that run, also for one that waits for this lock.
  while (!(await tryLock(client))) await sleep(POLL_MS);
  try {
    // A build waits for transactions that have used the table, but no other statement waits for it.
    await client.query('SET lock_timeout = 0');
    for (const index of indexes) {
      if (await areBuilt(client, [index])) continue;
      onBuild(`building the index ${index.name}, while requests go on`);
      // An interrupted build leaves an index that no query uses.
      await client.query(`DROP INDEX CONCURRENTLY IF EXISTS ${index.name}`);
      await client.query(`CREATE INDEX CONCURRENTLY ${index.name} ON ${index.on}`);
    }
  } finally {
    await client.query(`SELECT pg_advisory_unlock(${LOCK})`);
  }
}

async function areBuilt(client: Client, indexes: readonly ConcurrentIndex[]): Promise<boolean> {
  const names = indexes.map(({ name }) => name);
  const { rowCount } = await client.query(
    'SELECT FROM unnest($1::text[]) AS wanted (name) JOIN pg_index ON indexrelid = to_regclass(name) WHERE indisvalid',
    [names],
  );
  return rowCount === names.length;
}

async function tryLock(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ locked: boolean }>(`SELECT pg_try_advisory_lock(${LOCK}) AS locked`);
  return rows[0]?.locked === true;
}
