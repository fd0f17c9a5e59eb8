/** A transaction that must not be repeated once it was committed, because it adds to what is stored. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import { isDatabaseUnavailable, isInterruption } from './database-errors.ts';
import { inTransaction, type Transaction } from './pool.ts';
import { findValue } from './rows.ts';

/** How long the database may be away until it says whether it has committed. Milliseconds. */
const ASK_MS = 10_000;
const PAUSE_MS = 250;

/**
 * As `inTransaction`. If the connection is lost before the answer to COMMIT, asks the database whether it has committed.
 *
 * @throws Error if nothing was committed, or the database was away for too long to say so
 */
export async function inCertainTransaction<T>(pool: Pool, work: (tx: Transaction) => Promise<T>): Promise<T> {
  let done = null as { readonly id: string | null; readonly result: T } | null;
  try {
    return await inTransaction(pool, async (tx) => {
      const result = await work(tx);
      done = { id: await findValue<string>(tx, 'SELECT pg_current_xact_id()::text'), result };
      return result;
    });
  } catch (error) {
    if (done === null || !isDatabaseUnavailable(error) || !(await isCommitted(pool, done.id))) throw error;
    return done.result;
  }
}

async function isCommitted(pool: Pool, transactionId: string | null): Promise<boolean> {
  const endsAt = performance.now() + ASK_MS;
  while (performance.now() < endsAt) {
    try {
      const status = await findValue<string>(pool, 'SELECT pg_xact_status($1::xid8)', [transactionId]);
      // PostgreSQL may not have noticed yet that the connection is lost.
      if (status !== 'in progress') return status === 'committed';
    } catch (error) {
      // After a failover, the new server may not know the id.
      if (!isInterruption(error)) return false;
    }
    await sleep(PAUSE_MS);
  }
  return false;
}
