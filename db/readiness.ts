/** Whether the database can carry a process: what `/readyz` of API and supervisor both ask. */
import type { Pool } from 'pg';

/** A database that answers later than this cannot carry the service. Milliseconds. */
const READY_TIMEOUT_MS = 2_000;

/** What is wrong with the database, in words an operator may read; null when it answers in time. Never rejects. */
export async function databaseTrouble(pool: Pool): Promise<string | null> {
  const late = Promise.withResolvers<string>();
  const timer = setTimeout(() => late.resolve('the database does not answer in time'), READY_TIMEOUT_MS);
  try {
    return await Promise.race([pool.query('SELECT 1').then(() => null), late.promise]);
  } catch {
    return 'the database is away';
  } finally {
    clearTimeout(timer);
  }
}
