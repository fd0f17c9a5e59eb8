/** Repeats work whose connection was lost: that alone does not mean that the database is away. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isDatabaseUnavailable } from './database-errors.ts';

const ATTEMPTS_MAX = 3;
/** Meanwhile the pool sees which of its other connections ended, too. Milliseconds. */
const PAUSE_MS = 20;
/** A database that is away is not waited for: later failures are the caller's. Milliseconds. */
const ATTEMPTS_MS = 1_000;

/** @param work idempotent: a commit may have succeeded, and its answer be lost */
export async function repeatOverLostConnections<T>(work: () => Promise<T>): Promise<T> {
  const endsAt = performance.now() + ATTEMPTS_MS;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isDatabaseUnavailable(error) || attempt === ATTEMPTS_MAX || performance.now() > endsAt) throw error;
      await sleep(PAUSE_MS);
    }
  }
}
