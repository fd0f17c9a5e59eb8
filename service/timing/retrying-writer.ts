/** Repeats database writes while the database is unreachable, so that completed plugin work is recorded and not done again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { classifyDatabaseError } from '../../db/postgres/database-errors.ts';

/** Milliseconds between attempts. */
const RETRY_INTERVAL_MS = 250;

export interface RetryingWriter {
  /**
   * Repeats an idempotent write until the database accepts it.
   *
   * @throws the error of the last attempt when retrying cannot help, or after `stop`
   */
  write<T>(work: () => Promise<T>): Promise<T>;
  /** Ends all retries: each write rejects with the error of its last attempt. */
  stop(): void;
}

/** @param onError called with the error of each failed attempt that is repeated */
export function openRetryingWriter(onError: (error: Error) => void): RetryingWriter {
  const stopped = new AbortController();
  const { signal } = stopped;
  return {
    stop: () => stopped.abort(),
    write: async (work) => {
      for (;;) {
        try {
          return await work();
        } catch (error) {
          const fault = classifyDatabaseError(error);
          if (signal.aborted || (fault !== 'unavailable' && fault !== 'busy')) throw error;
          onError(error as Error);
          await sleep(RETRY_INTERVAL_MS, undefined, { signal }).catch(() => undefined);
        }
      }
    },
  };
}
