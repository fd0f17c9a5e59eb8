/** What a plugin has done is written down, also where the database is away just then: or it would be done again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { databaseFault } from '../../db/postgres/database-faults.ts';

/** Between tries, milliseconds. */
const AGAIN_MS = 250;

export interface SteadfastWrites {
  /**
   * Repeats a write, which must bear repetition, until the database takes it.
   *
   * @throws what the write threw, where trying again does not help or the supervisor stops
   */
  write<T>(work: () => Promise<T>): Promise<T>;
  /** No further tries: whoever comes next does it all again. */
  giveUp(): void;
}

/** @param onError told of each failed try */
export function openSteadfastWrites(onError: (error: Error) => void): SteadfastWrites {
  const over = new AbortController();
  const { signal } = over;
  return {
    giveUp: () => over.abort(),
    write: async (work) => {
      for (;;) {
        try {
          return await work();
        } catch (error) {
          const fault = databaseFault(error);
          if (signal.aborted || (fault !== 'away' && fault !== 'busy')) throw error;
          onError(error as Error);
          await sleep(AGAIN_MS, undefined, { signal }).catch(() => undefined);
        }
      }
    },
  };
}
