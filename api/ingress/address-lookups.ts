/**
 * Reads webhook addresses from the database: many with one statement, and few statements at once. So requests to many
 * addresses do not use up the pool's connections.
 */
import type { Pool } from 'pg';
import { type FoundAddress, findAddresses } from '../../db/channels/channels.ts';
import { RoundRobinQueue } from '../../db/timing/round-robin-queue.ts';

/** Addresses read by one statement, which takes some milliseconds. */
const BATCH_MAX = 250;
/** Two, so that one lost connection does not hold up all look-ups. */
const STATEMENTS_AT_ONCE = 2;

interface Lookup {
  readonly routingId: string;
  readonly found: Promise<FoundAddress>;
  readonly resolve: (found: FoundAddress) => void;
  readonly reject: (error: Error) => void;
  /** Number of changes that were known when its statement began. Null: it waits. */
  changes: number | null;
}
interface AddressLookupsOptions {
  readonly pool: Pool;
  /** Number of changes of which this process was notified. */
  countChanges(): number;
  /** Called with each result. @param changes how many were known before it was read */
  store(routingId: string, found: FoundAddress, changes: number): void;
}

export class AddressLookups {
  readonly #options: AddressLookupsOptions;
  /** The last look-up of each address, until it has its result. */
  readonly #latest = new Map<string, Lookup>();
  readonly #waiting = new RoundRobinQueue<Lookup>();
  #statements = 0;

  constructor(options: AddressLookupsOptions) {
    this.#options = options;
  }

  /** Returns the result of a look-up that is running or queued. Null: none is, or it began before the last change. */
  join(routingId: string): Promise<FoundAddress> | null {
    const latest = this.#latest.get(routingId);
    if (!latest) return null;
    return latest.changes === null || latest.changes === this.#options.countChanges() ? latest.found : null;
  }

  /**
   * Reads an address as it is after all changes of which this process was notified.
   *
   * @param key who causes the look-up, such as an account or a client network: keys take turns
   */
  find(key: string, routingId: string): Promise<FoundAddress> {
    const joined = this.join(routingId);
    if (joined) return joined;
    const { promise: found, resolve, reject } = Promise.withResolvers<FoundAddress>();
    const lookup: Lookup = { routingId, found, resolve, reject, changes: null };
    this.#latest.set(routingId, lookup);
    this.#waiting.push(key, lookup);
    this.#startStatements();
    return found;
  }

  /** Waits for the look-ups under way. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.#latest.values()].map(({ found }) => found));
  }

  #startStatements(): void {
    while (this.#statements < STATEMENTS_AT_ONCE && this.#waiting.size > 0) {
      this.#statements += 1;
      void this.#readBatch(this.#takeBatch()).finally(() => {
        this.#statements -= 1;
        this.#startStatements();
      });
    }
  }

  #takeBatch(): Lookup[] {
    const batch: Lookup[] = [];
    while (batch.length < BATCH_MAX) {
      const lookup = this.#waiting.shift();
      if (!lookup) break;
      batch.push(lookup);
    }
    return batch;
  }

  async #readBatch(batch: readonly Lookup[]): Promise<void> {
    const { pool, countChanges, store } = this.#options;
    const changes = countChanges();
    for (const lookup of batch) lookup.changes = changes;
    try {
      const addresses = await findAddresses(
        pool,
        batch.map(({ routingId }) => routingId),
      );
      for (const { routingId, resolve } of batch) {
        const found = addresses.get(routingId) ?? 'unknown';
        store(routingId, found, changes);
        resolve(found);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error as Error);
    } finally {
      for (const lookup of batch)
        if (this.#latest.get(lookup.routingId) === lookup) this.#latest.delete(lookup.routingId);
    }
  }
}
