/**
 * Shares a pool's connections among accounts, so that slow statements of one account do not keep those of others waiting. An
 * async context names the account for which code runs, so no query has to.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { AmountsByKey } from '../timing/amounts-by-key.ts';
import { RoundRobinQueue } from '../timing/round-robin-queue.ts';
import { createBusyError } from './database-errors.ts';

/** One connection in this many is left to work of no account, such as log batches and job queues. */
const CONNECTIONS_PER_SERVICE_CONNECTION = 5;
/** Queries and transactions of one account that may wait. The next one fails at once. */
export const WAITING_OF_ACCOUNT_MAX = 1_000;

interface Work {
  /** Null: work of no account. */
  readonly accountId: string | null;
  isInTransaction: boolean;
}
const context = new AsyncLocalStorage<Work | undefined>();

/** Runs work whose connections count as this account's. */
export function asAccount<T>(accountId: string, work: () => T): T {
  const current = context.getStore();
  if (current && (current.accountId === accountId || current.isInTransaction)) return work();
  return context.run({ accountId, isInTransaction: false }, work);
}

/** Runs work that serves more than one account: its connections are not counted. */
export const asService = <T>(work: () => T): T => context.run(undefined, work);

/** Runs the work of a transaction. Its further connections wait for no place: the transaction may hold the one they wait for. */
export async function asTransaction<T>(work: () => Promise<T>): Promise<T> {
  const inside = { accountId: context.getStore()?.accountId ?? null, isInTransaction: true };
  try {
    return await context.run(inside, work);
  } finally {
    // Work that the transaction started and did not wait for is limited again.
    inside.isInTransaction = false;
  }
}

/** The account whose share the next connection is taken from. Null: it is not limited. */
export function findLimitedAccount(): string | null {
  const current = context.getStore();
  return current === undefined || current.isInTransaction ? null : current.accountId;
}

/** The places of one pool: each lets an account hold a connection. */
export class ConnectionShares {
  readonly #places: number;
  readonly #waitMs: number;
  readonly #held = new AmountsByKey();
  readonly #waiting = new RoundRobinQueue<() => void>();

  /**
   * @param connections maximum size of the pool
   * @param waitMs how long an account waits for a place, milliseconds
   */
  constructor(connections: number, waitMs: number) {
    this.#places = connections - Math.floor(connections / CONNECTIONS_PER_SERVICE_CONNECTION);
    this.#waitMs = waitMs;
  }

  /** Number of connections that wait for a place. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Those of them that wait only because their account holds as many places as it may. Where several accounts wait, places are
   * scarce for all: with fewer accounts than places one stays free, however long they wait.
   */
  get waitingForShare(): number {
    return this.#waiting.keys.length === 1 && this.#held.total < this.#places ? this.#waiting.size : 0;
  }

  /** Resolves when the account has one more place. @throws Error that classifies as `busy` */
  async claim(accountId: string): Promise<void> {
    if (this.#mayClaim(accountId)) return this.#held.add(accountId);
    if (this.#waiting.count(accountId) >= WAITING_OF_ACCOUNT_MAX) throw createBusyError();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.push(accountId, resolve);
    const giveUp = (): void => {
      this.#waiting.remove(accountId, (start) => start === resolve);
      reject(createBusyError());
    };
    const timer = setTimeout(giveUp, this.#waitMs).unref();
    await promise.finally(() => clearTimeout(timer));
  }

  release(accountId: string): void {
    this.#held.subtract(accountId);
    if (this.#waiting.size > 0) this.#startNext();
  }

  /** An account holds at most as many places as stay free: alone half of them, two a third each. Later ones find some free. */
  #mayClaim(accountId: string): boolean {
    return this.#held.get(accountId) < this.#places - this.#held.total;
  }

  #startNext(): void {
    for (const accountId of this.#waiting.keys) {
      if (!this.#mayClaim(accountId)) continue;
      this.#held.add(accountId);
      this.#waiting.shift(accountId)?.();
    }
  }
}
