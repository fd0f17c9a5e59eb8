/**
 * Stores received webhook requests durably: many in one commit, or on disk while the database is unavailable. A single
 * loop writes and takes the accounts in turn, which keeps the requests of each account in order.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import { insertDeliveries, type NewDelivery } from '../../db/channels/deliveries.ts';
import { REACHES_LATER_MS } from '../../db/channels/spools.ts';
import { mayTakeBytes, mayTakePlace } from '../../db/jobs/account-share.ts';
import { isDatabaseUnavailable, isRejectedRow } from '../../db/postgres/database-errors.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { RoundRobinQueue } from '../../db/timing/round-robin-queue.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB, SECOND } from '../../sdk/contract/limits.ts';
import { createRetryProblem } from '../../service/http/retry-problem.ts';
import { within } from '../../service/timing/within.ts';
import type { Addresses } from './address-cache.ts';
import type { OwnerNotices } from './owner-notices.ts';
import type { Spool } from './spool.ts';
import { NOTICED_WITHIN_MS, SpoolOrder } from './spool-order.ts';
import { measureRequest } from './webhook-request.ts';

/** Limits of one commit: large enough to share its cost, small enough to be fast. */
const GROUP_MAX = 256;
/** A group is formatted in one piece, which blocks the event loop. One request may be larger. */
const GROUP_BYTES = MIB;
/** Limits of the requests in memory, of which an account may take its share. */
const WAITING_MAX = 10_000;
const WAITING_BYTES = 64 * MIB;
/** A slower commit counts as an unavailable database: its requests are written to disk under the same ids. */
const COMMIT_WITHIN_MS = 5 * SECOND;
/** Interval between attempts to reach a database that has just gone away. Milliseconds. */
const REPEAT_EVERY_MS = 50;
/** Interval between attempts to empty the spool. Milliseconds. */
const DRAIN_EVERY_MS = 500;
/** Interval between checks whether other API processes have emptied theirs. Milliseconds. */
const SETTLE_EVERY_MS = 100;
/** A process that stops waits this long for the others to empty their spools. Milliseconds. */
export const SETTLED_WITHIN_MS = REACHES_LATER_MS;
/** Interval between checks whether another API process has ended and left requests on disk. Milliseconds. */
const ADOPT_EVERY_MS = 60 * SECOND;
const RETRY_AFTER_S = 5;
/** Estimated memory of one request besides query, headers and body. */
const OVERHEAD_BYTES = 2_048;

interface Waiting {
  readonly delivery: NewDelivery;
  readonly bytes: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}
interface IntakeOptions {
  readonly pool: Pool;
  readonly spool: Spool;
  /** Sends the notices of new deliveries. Absent: a notification goes to all supervisors. */
  readonly notices?: Pick<OwnerNotices, 'canReach' | 'send'>;
  /** The accounts that may need room in the spool. Absent: those that have requests in it. */
  readonly addresses?: Pick<Addresses, 'hasOtherAccount'>;
  onError(error: Error): void;
  /** Interval between checks for requests that other API processes left on disk. Default: a minute. Milliseconds. */
  readonly adoptEveryMs?: number;
  /** Called at each step. A test may stop the step there. */
  faultPoint?(step: string): Promise<void> | undefined;
}

export class Intake {
  readonly #options: IntakeOptions;
  readonly #faultPoint: (step: string) => Promise<void> | undefined;
  /** By account. */
  readonly #waiting = new RoundRobinQueue<Waiting>();
  readonly #waitingBytes = new AmountsByKey();
  #writing: Promise<void> | null = null;
  #draining: Promise<void> | null = null;
  /** Whether requests go to disk, because older ones wait there. */
  #isSpooling: boolean;
  /** Arrival of the oldest request that was appended since the spool was empty. Milliseconds since 1970. */
  #oldestSpooled = Number.POSITIVE_INFINITY;
  /**
   * Whether this spool is empty while other API processes still empty theirs. Deliveries stored meanwhile are unsettled: they
   * wait until their order is certain.
   */
  #isSettling = false;
  /** A group on its way to the disk. */
  #appending: Promise<void> | null = null;
  /** Whether a delivery became unsettled since the last check that all is settled. */
  #isUnsettledAgain = false;
  readonly #order: SpoolOrder;
  readonly #closing = new AbortController();
  readonly #adoptTimer: NodeJS.Timeout;

  /** Starts with the requests that an earlier process left in the spool. */
  constructor(options: IntakeOptions) {
    this.#options = options;
    this.#isSpooling = !options.spool.isEmpty;
    this.#order = new SpoolOrder(options.pool, () => this.#isSpooling);
    this.#faultPoint = options.faultPoint ?? (() => undefined);
    this.#adoptTimer = setInterval(() => void this.#adoptAbandoned(), options.adoptEveryMs ?? ADOPT_EVERY_MS).unref();
    if (this.#isSpooling) this.#startDraining();
  }

  /** Number of requests in memory. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Accepts a request. Resolves when it is durable.
   *
   * @throws Problem `unavailable` when it cannot be stored, `rate_limited` when its account has used up its share
   */
  async accept(delivery: NewDelivery): Promise<void> {
    const bytes = measureRequest(delivery) + OVERHEAD_BYTES;
    this.#requireRoom(delivery.accountId, bytes);
    this.#waitingBytes.add(delivery.accountId, bytes);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.push(delivery.accountId, { delivery, bytes, resolve, reject });
    this.#writing ??= this.#write();
    await promise;
  }

  #requireRoom(accountId: string, bytes: number): void {
    const freePlaces = WAITING_MAX - this.#waiting.size;
    const freeBytes = WAITING_BYTES - this.#waitingBytes.total;
    if (freePlaces < 1 || freeBytes < bytes) throw unavailable('Too many webhook requests wait to be stored.');
    const own = this.#waiting.count(accountId);
    const ownBytes = this.#waitingBytes.get(accountId);
    if (!mayTakePlace(own, freePlaces) || !mayTakeBytes(ownBytes, freeBytes, bytes)) {
      const what = 'Too many webhook requests of this account wait to be stored.';
      throw createRetryProblem('rate_limited', what, RETRY_AFTER_S);
    }
    const { spool, addresses, onError } = this.#options;
    // A full spool is reported where the group would be appended.
    if (!this.#isSpooling || spool.isFull) return;
    if (spool.hasRoom(accountId, addresses?.hasOtherAccount(accountId) !== true)) return;
    onError(new Error(`Account ${accountId} has used up its share of the spool, so its webhook requests are refused.`));
    throw unavailable('This account has used up its share of the spool.');
  }

  /** Stores the remaining requests. Another process empties the spool. */
  async close(): Promise<void> {
    clearInterval(this.#adoptTimer);
    await this.#writing;
    // The announcement of a spool that is empty would keep the deliveries of others unsettled for longer.
    if (this.#options.spool.isEmpty && this.#draining) await within(this.#draining, SETTLED_WITHIN_MS);
    this.#closing.abort();
    await this.#draining;
    await this.#order.close();
    await this.#options.spool.close();
  }

  async #write(): Promise<void> {
    // Wait for the requests of the same event loop turn, so that they join the first group.
    await new Promise(setImmediate);
    while (this.#waiting.size > 0) {
      const group = this.#takeGroup();
      try {
        await this.#store(group.map(({ delivery }) => delivery));
        await this.#faultPoint('intake.kept');
        for (const { resolve } of group) resolve();
      } catch (error) {
        this.#options.onError(error as Error);
        const refusal = error instanceof Problem ? error : unavailable('The webhook request cannot be stored now.');
        for (const { reject } of group) reject(refusal);
      }
    }
    // No await since the check of the loop: the next request starts a new loop.
    this.#writing = null;
  }

  #takeGroup(): Waiting[] {
    const group: Waiting[] = [];
    let groupBytes = 0;
    while (group.length < GROUP_MAX) {
      const next = this.#waiting.peek();
      if (!next || (group.length > 0 && groupBytes + next.bytes > GROUP_BYTES)) break;
      this.#waiting.shift();
      this.#waitingBytes.subtract(next.delivery.accountId, next.bytes);
      groupBytes += next.bytes;
      group.push(next);
    }
    return group;
  }

  async #store(group: readonly NewDelivery[]): Promise<void> {
    if (!this.#isSpooling) {
      try {
        await this.#faultPoint('intake.before-commit');
        return await this.#storeDirectly(group);
      } catch (error) {
        // Any failure: write to disk. Draining later finds the requests that the database rejects.
        this.#options.onError(error as Error);
      }
    }
    if (this.#options.spool.isFull) throw unavailable('The spool of webhook requests on disk is full.');
    this.#isSpooling = true;
    this.#oldestSpooled = Math.min(this.#oldestSpooled, findOldest(group));
    this.#appending = this.#append(group);
    try {
      await this.#appending;
    } finally {
      this.#appending = null;
      this.#startDraining();
    }
  }

  async #append(group: readonly NewDelivery[]): Promise<void> {
    await this.#faultPoint('intake.before-spool');
    await this.#options.spool.append(group);
  }

  /** Retries while the database is away for a moment: no request goes to disk before every API process has noticed. */
  async #storeDirectly(group: readonly NewDelivery[]): Promise<void> {
    const spoolsAt = performance.now() + NOTICED_WITHIN_MS;
    for (;;) {
      try {
        if (this.#order.isUnsettled && !this.#isSettling) await this.#startSettling(group);
        return await this.#commit(group);
      } catch (error) {
        if (!isDatabaseUnavailable(error) || performance.now() > spoolsAt) throw error;
        await this.#pause(REPEAT_EVERY_MS);
      }
    }
  }

  /** Makes the group and later ones wait until the older requests that other API processes may have on their disks are stored. */
  async #startSettling(group: readonly NewDelivery[]): Promise<void> {
    await requireAnswer(this.#order.announce(Math.min(findOldest(group), this.#findOldestKept())));
    this.#isSettling = true;
    this.#isUnsettledAgain = true;
    this.#startDraining();
  }

  /** Arrival of the oldest request in memory and on disk. It may be behind newer ones of other accounts. */
  #findOldestKept(): number {
    const first = this.#waiting.keys.flatMap((accountId) => this.#waiting.peek(accountId)?.delivery ?? []);
    return Math.min(this.#oldestSpooled, findOldest(first));
  }

  async #commit(group: readonly NewDelivery[]): Promise<void> {
    const { pool, notices } = this.#options;
    const notifiesOwners = notices?.canReach(group) === true;
    const committed = insertDeliveries(pool, group, !notifiesOwners).then(() => {
      // Runs even if the commit took too long and the group was written to disk as well: its rows exist.
      if (notifiesOwners) notices.send(group);
    });
    await requireAnswer(committed);
  }

  /** Keeps requests that the database refuses in files, so that they do not block the others. */
  async #commitAll(group: readonly NewDelivery[]): Promise<void> {
    try {
      await this.#commit(group);
    } catch (error) {
      if (!isRejectedRow(error)) throw error;
      for (const delivery of group) {
        await this.#commit([delivery]).catch((fault: Error) => {
          if (!isRejectedRow(fault)) throw fault;
          return this.#options.spool.keepRefused(delivery, fault);
        });
      }
    }
  }

  /** Begins to store the requests that another process left on disk when it ended. */
  async #adoptAbandoned(): Promise<void> {
    const { spool, onError } = this.#options;
    // An error must not stop the caller, which stores requests of this process.
    await spool.adoptAbandoned().catch(onError);
    if (spool.isEmpty) return;
    this.#isSpooling = true;
    this.#startDraining();
  }

  #startDraining(): void {
    this.#draining ??= this.#drain();
  }

  /** Runs until the spool is empty, and those of other API processes that were filled at the same time. */
  async #drain(): Promise<void> {
    const { spool, onError } = this.#options;
    /** Arrival of the oldest request on this disk, as the database knows it. Infinite: it knows of no request here. */
    let announced = Number.POSITIVE_INFINITY;
    while (!this.#closing.signal.aborted) {
      try {
        const batch = await spool.readOldest(GROUP_BYTES);
        if (!batch) {
          if (this.#appending) {
            await this.#appending.catch(() => undefined);
            continue;
          }
          // New deliveries are written directly from now on, unless requests were adopted meanwhile. They are unsettled until
          // their order is certain.
          this.#isSpooling = !spool.isEmpty;
          if (!this.#isSpooling) this.#oldestSpooled = Number.POSITIVE_INFINITY;
          this.#isSettling ||= Number.isFinite(announced);
          announced = Number.POSITIVE_INFINITY;
          this.#isUnsettledAgain = false;
          const isSettled = await this.#order.settleSpool();
          if (isSettled) await this.#adoptAbandoned();
          if (isSettled && spool.isEmpty && !this.#isUnsettledAgain) break;
          await this.#pause(SETTLE_EVERY_MS);
          continue;
        }
        const oldest = Math.min(findOldest(batch.deliveries), this.#findOldestKept());
        if (oldest < announced) await requireAnswer(this.#order.announce(oldest));
        announced = Math.min(announced, oldest);
        await this.#commitAll(batch.deliveries);
        await this.#faultPoint('intake.drained');
        await batch.remove();
      } catch (error) {
        announced = Number.POSITIVE_INFINITY;
        this.#isSettling = false;
        onError(error as Error);
        await this.#pause(DRAIN_EVERY_MS);
      }
    }
    // No await since the check: what is spooled or unsettled from here on starts another drain.
    this.#isSettling = false;
    this.#draining = null;
  }

  async #pause(ms: number): Promise<void> {
    await sleep(ms, null, { signal: this.#closing.signal }).catch(() => undefined);
  }
}

/** @throws Error if the database does not answer in time */
async function requireAnswer(work: Promise<void>): Promise<void> {
  const isDone = work.then(() => true);
  if (!(await within(isDone, COMMIT_WITHIN_MS)))
    throw new Error('the database took too long to store webhook requests');
}

const findOldest = (group: readonly NewDelivery[]): number => Math.min(...group.map(({ receivedAt }) => receivedAt));

const unavailable = (why: string) =>
  new Problem('unavailable', `${why} Send it again later.`, { retryAfter: RETRY_AFTER_S });
