/**
 * Refuses webhook requests of accounts whose deliveries fill their quota, before their bodies arrive. It never waits for
 * the database: it decides by the room read at most a second ago, less what this process accepted since. So an account
 * exceeds its quota by at most what arrives at once (32 MiB) and what other API processes accept in a second.
 */
import { LRUCache } from 'lru-cache';
import type { Pool } from 'pg';
import { readRoom } from '../../db/accounts/usage.ts';
import { isDatabaseUnavailable } from '../../db/postgres/database-errors.ts';
import { SECOND } from '../../sdk/contract/limits.ts';
import { createRetryProblem } from '../../service/http/retry-problem.ts';

/** Age at which the room is read again. Milliseconds. */
const KNOWN_MS = SECOND;
/** Accounts whose room is kept. */
const KNOWN_MAX = 10_000;
/** What a row takes besides query, headers and body, as the migration counts it. */
const ROW_BYTES = 700;
/** Finished deliveries make room within seconds; pending ones within the first retry of a vendor. */
const RETRY_AFTER_S = 60;

interface KnownRoom {
  /** Bytes. */
  room: number;
  /** When it is read again, by the clock. Milliseconds. */
  until: number;
  isReading: boolean;
}

export class DeliveryQuota {
  readonly #pool: Pool;
  readonly #onError: (error: Error) => void;
  readonly #now: () => number;
  readonly #known = new LRUCache<string, KnownRoom>({ max: KNOWN_MAX });

  constructor(pool: Pool, onError: (error: Error) => void, now = () => performance.now()) {
    this.#pool = pool;
    this.#onError = onError;
    this.#now = now;
  }

  /** @throws Problem `rate_limited` */
  check(accountId: string): void {
    const known = this.#find(accountId);
    // One read at a time: a database that does not answer would collect one for each second.
    if (known.until <= this.#now() && !known.isReading) void this.#refresh(accountId, known);
    if (known.room > 0) return;
    throw createRetryProblem('rate_limited', "Quota exceeded: this account's deliveries are full.", RETRY_AFTER_S);
  }

  /** Counts an accepted request. @param bytes of query, headers and body */
  count(accountId: string, bytes: number): void {
    this.#find(accountId).room -= bytes + ROW_BYTES;
  }

  #find(accountId: string): KnownRoom {
    const known = this.#known.get(accountId) ?? { room: Number.POSITIVE_INFINITY, until: 0, isReading: false };
    this.#known.set(accountId, known);
    return known;
  }

  async #refresh(accountId: string, known: KnownRoom): Promise<void> {
    known.isReading = true;
    known.until = this.#now() + KNOWN_MS;
    try {
      known.room = await readRoom(this.#pool, accountId, 'deliveries');
    } catch (error) {
      if (!isDatabaseUnavailable(error)) this.#onError(error as Error);
    } finally {
      known.isReading = false;
    }
  }
}
