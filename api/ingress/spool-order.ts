/** This API process's part in the order of webhook requests over all of them: see `db/channels/spools.ts`. */
import { randomUUIDv7 } from 'node:crypto';
import type { Pool } from 'pg';
import { REACHES_LATER_MS, removeSpool, SHOWN_EVERY_MS, settleSpool, showSpool } from '../../db/channels/spools.ts';
import { repeatOverLostConnections } from '../../db/postgres/lost-connections.ts';
import { within } from '../../service/timing/within.ts';

/** After this time every API process has noticed that the database is away. Milliseconds. */
export const NOTICED_WITHIN_MS = 2 * SHOWN_EVERY_MS;

export class SpoolOrder {
  readonly #pool: Pool;
  readonly #isSpooling: () => boolean;
  readonly #id = randomUUIDv7();
  #unsettledUntil = 0;
  /** The statement under way that shows this process to the others. */
  #showing: Promise<void> | null = null;
  readonly #timer: NodeJS.Timeout;

  /**
   * @param isSpooling requests wait on this process's disk. It then shows itself only by their announcement: others would
   *   take it for a process that has reached the database with nothing to add.
   */
  constructor(pool: Pool, isSpooling: () => boolean) {
    this.#pool = pool;
    this.#isSpooling = isSpooling;
    this.#timer = setInterval(() => this.#show(), SHOWN_EVERY_MS).unref();
    this.#show();
  }

  /** The database was away a moment ago: others may have older requests on their disks unannounced. Announce before you store. */
  get isUnsettled(): boolean {
    return performance.now() < this.#unsettledUntil;
  }

  /**
   * Call it before the first request of the spool is stored, and before any while `isUnsettled`.
   *
   * @param oldest arrival of that request, milliseconds since 1970
   */
  announce(oldest: number): Promise<void> {
    return showSpool(this.#pool, this.#id, oldest);
  }

  /** Call it when the spool is empty. @returns false: deliveries are still unsettled because of other processes; ask again */
  async settleSpool(): Promise<boolean> {
    const isSettled = await settleSpool(this.#pool, this.#id);
    if (isSettled) this.#unsettledUntil = 0;
    return isSettled;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#showing;
    await within(
      removeSpool(this.#pool, this.#id).catch(() => undefined),
      SHOWN_EVERY_MS,
    );
  }

  #show(): void {
    if (this.#isSpooling()) return;
    if (this.#showing) {
      // The last one has no answer yet.
      this.#unsettledUntil = performance.now() + REACHES_LATER_MS;
      return;
    }
    this.#showing = repeatOverLostConnections(() => showSpool(this.#pool, this.#id, null))
      .catch(() => {
        this.#unsettledUntil = performance.now() + REACHES_LATER_MS;
      })
      .finally(() => {
        this.#showing = null;
      });
  }
}
