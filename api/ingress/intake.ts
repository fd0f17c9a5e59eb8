/**
 * From a request in memory to one that is safe: many in one commit, and on disk instead while the database is away. One
 * loop writes, so requests are written in the order they came in.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import { insertDeliveries, type NewDelivery } from '../../db/channels/deliveries.ts';
import { isRejectedRow } from '../../db/postgres/database-errors.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB, SECOND } from '../../sdk/contract/limits.ts';
import { within } from '../../service/timing/within.ts';
import type { Spool } from './spool.ts';

/** Requests and bytes written at once: enough to make the commit's share small, few enough to be quick. */
const GROUP_MAX = 256;
const GROUP_BYTES = 8 * MIB;
/** What may wait in memory for the write under way. */
const WAITING_MAX = 10_000;
const WAITING_BYTES = 64 * MIB;
/** A commit that takes longer counts as a database that is away: the same requests go to disk, under the same ids. */
const COMMIT_WITHIN_MS = 5 * SECOND;
/** Between tries to empty the spool. */
const DRAIN_EVERY_MS = 500;
const RETRY_AFTER_S = 5;
/** What one request takes in memory beside its body, about. */
const OVERHEAD_BYTES = 2_048;

interface Waiting {
  readonly delivery: NewDelivery;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}
interface IntakeOptions {
  readonly pool: Pool;
  readonly spool: Spool;
  onError(error: Error): void;
  /** Told at each step; a test's may end the process there. */
  faultPoint?(step: string): void;
}

export class Intake {
  readonly #options: IntakeOptions;
  readonly #faultPoint: (step: string) => void;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #writing: Promise<void> | null = null;
  #draining: Promise<void> | null = null;
  #spooling = false;
  readonly #closing = new AbortController();

  /** What a predecessor left in the spool goes first. */
  constructor(options: IntakeOptions) {
    this.#options = options;
    this.#faultPoint = options.faultPoint ?? (() => undefined);
    if (!options.spool.isEmpty) this.#startDraining();
  }

  /** Requests in memory. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /**
   * Takes a request in. Resolves when it can no longer be lost.
   *
   * @throws Problem `unavailable` where it cannot be kept
   */
  accept(delivery: NewDelivery): Promise<void> {
    const bytes = delivery.body.byteLength + OVERHEAD_BYTES;
    if (this.#waiting.length >= WAITING_MAX || this.#waitingBytes + bytes > WAITING_BYTES)
      return Promise.reject(unavailable('More arrives than can be written down.'));
    this.#waitingBytes += bytes;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ delivery, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  /** Writes what waits, and leaves the spool to the next process. */
  async close(): Promise<void> {
    await this.#writing;
    this.#closing.abort();
    await this.#draining;
    await this.#options.spool.close();
  }

  async #write(): Promise<void> {
    // Whoever came in the same turn of the loop joins the first group.
    await new Promise(setImmediate);
    while (this.#waiting.length > 0) {
      const group = this.#takeGroup();
      try {
        await this.#keep(group.map(({ delivery }) => delivery));
        this.#faultPoint('intake.kept');
        for (const { resolve } of group) resolve();
      } catch (error) {
        this.#options.onError(error as Error);
        const refusal = error instanceof Problem ? error : unavailable('It cannot be written down now.');
        for (const { reject } of group) reject(refusal);
      }
    }
    // In the same step as the look above: whoever comes next starts anew.
    this.#writing = null;
  }

  #takeGroup(): Waiting[] {
    let count = 0;
    for (let bytes = 0; count < this.#waiting.length && count < GROUP_MAX && bytes < GROUP_BYTES; count += 1)
      bytes += this.#waiting[count]?.delivery.body.byteLength ?? 0;
    const group = this.#waiting.slice(0, count);
    this.#waiting = this.#waiting.slice(count);
    for (const { delivery } of group) this.#waitingBytes -= delivery.body.byteLength + OVERHEAD_BYTES;
    return group;
  }

  async #keep(group: readonly NewDelivery[]): Promise<void> {
    if (!this.#spooling) {
      try {
        this.#faultPoint('intake.before-commit');
        return await this.#commit(group);
      } catch (error) {
        // Whatever the reason, the disk can have it: what the database refuses for good is found out while draining.
        this.#options.onError(error as Error);
      }
    }
    if (this.#options.spool.isFull)
      throw unavailable('The database is away, and what may wait for it on disk is full.');
    this.#faultPoint('intake.before-spool');
    await this.#options.spool.append(group);
    this.#startDraining();
  }

  async #commit(group: readonly NewDelivery[]): Promise<void> {
    const committed = insertDeliveries(this.#options.pool, group).then(() => true);
    if ((await within(committed, COMMIT_WITHIN_MS)) === undefined)
      throw new Error('the commit of webhook requests took too long');
  }

  /** One that the database refuses for good holds up no other. */
  async #commitAll(group: readonly NewDelivery[]): Promise<void> {
    try {
      await this.#commit(group);
    } catch (error) {
      if (!isRejectedRow(error)) throw error;
      for (const delivery of group) {
        await this.#commit([delivery]).catch((fault: Error) => {
          if (!isRejectedRow(fault)) throw fault;
          this.#options.onError(fault);
          return this.#options.spool.setAside(delivery);
        });
      }
    }
  }

  #startDraining(): void {
    this.#spooling = true;
    this.#draining ??= this.#drain().finally(() => {
      this.#draining = null;
      // Written while the drain was ending.
      if (!this.#options.spool.isEmpty && !this.#closing.signal.aborted) this.#startDraining();
    });
  }

  /** Until the spool is empty and nothing is on its way into it. */
  async #drain(): Promise<void> {
    const { spool, onError } = this.#options;
    while (!this.#closing.signal.aborted) {
      try {
        const batch = await spool.readOldest(GROUP_BYTES);
        if (!batch) {
          this.#spooling = false;
          return;
        }
        await this.#commitAll(batch.deliveries);
        this.#faultPoint('intake.drained');
        await batch.remove();
      } catch (error) {
        onError(error as Error);
        await sleep(DRAIN_EVERY_MS, null, { signal: this.#closing.signal }).catch(() => undefined);
      }
    }
  }
}

const unavailable = (why: string) =>
  new Problem('unavailable', `${why} Send it again later.`, { retryAfter: RETRY_AFTER_S });
