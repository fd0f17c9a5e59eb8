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
/** Queries and transactions of one account that may wait, and as many that are costly. The next one fails at once. */
export const WAITING_OF_ACCOUNT_MAX = 1_000;

interface Work {
  /** Null: work of no account. */
  readonly accountId: string | null;
  readonly isCostly: boolean;
  isInTransaction: boolean;
}
const context = new AsyncLocalStorage<Work | undefined>();

/**
 * Runs work whose connections count as this account's.
 *
 * @param isCostly its statements may take long, such as those that store a large body. Default: they do not
 */
export function asAccount<T>(accountId: string, work: () => T, isCostly = false): T {
  const current = context.getStore();
  if (current && (current.accountId === accountId || current.isInTransaction)) return work();
  return context.run({ accountId, isCostly, isInTransaction: false }, work);
}

/** Runs work that serves more than one account: its connections are not counted. */
export const asService = <T>(work: () => T): T => context.run(undefined, work);

/** Runs the work of a transaction. Its further connections wait for no place: the transaction may hold the one they wait for. */
export async function asTransaction<T>(work: () => Promise<T>): Promise<T> {
  const { accountId = null, isCostly = false } = context.getStore() ?? {};
  const inside = { accountId, isCostly, isInTransaction: true };
  try {
    return await context.run(inside, work);
  } finally {
    // Work that the transaction started and did not wait for is limited again.
    inside.isInTransaction = false;
  }
}

/** Whose place a connection takes, and of which kind. */
export interface PlaceOwner {
  readonly accountId: string;
  readonly isCostly: boolean;
}

/** The owner whose share the next connection is taken from. Null: it is not limited. */
export function findLimitedOwner(): PlaceOwner | null {
  const { accountId = null, isCostly = false, isInTransaction = false } = context.getStore() ?? {};
  return accountId === null || isInTransaction ? null : { accountId, isCostly };
}

interface Waiting {
  readonly owner: PlaceOwner;
  start(): void;
}

/** The places of one pool: each lets an account hold a connection. Costly work gets at most half of them. */
export class ConnectionShares {
  readonly #places: number;
  readonly #waitMs: number;
  readonly #held = new AmountsByKey();
  #heldCostly = 0;
  readonly #waiting = new RoundRobinQueue<Waiting>();

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
    const accounts = new Set(this.#waiting.keys.map((key) => this.#waiting.peek(key)?.owner.accountId));
    return accounts.size === 1 && this.#held.total < this.#places ? this.#waiting.size : 0;
  }

  /** Resolves when the account has one more place. @throws Error that classifies as `busy` */
  async claim(owner: PlaceOwner): Promise<void> {
    if (this.#mayClaim(owner)) return this.#add(owner);
    const key = keyOf(owner);
    if (this.#waiting.count(key) >= WAITING_OF_ACCOUNT_MAX) throw createBusyError();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.push(key, { owner, start: resolve });
    const giveUp = (): void => {
      this.#waiting.remove(key, ({ start }) => start === resolve);
      reject(createBusyError());
    };
    const timer = setTimeout(giveUp, this.#waitMs).unref();
    await promise.finally(() => clearTimeout(timer));
  }

  release({ accountId, isCostly }: PlaceOwner): void {
    this.#held.subtract(accountId);
    if (isCostly) this.#heldCostly -= 1;
    if (this.#waiting.size > 0) this.#startNext();
  }

  #add({ accountId, isCostly }: PlaceOwner): void {
    this.#held.add(accountId);
    if (isCostly) this.#heldCostly += 1;
  }

  /** An account holds at most as many places as stay free: alone half of them, two a third each. Later ones find some free. */
  #mayClaim({ accountId, isCostly }: PlaceOwner): boolean {
    if (isCostly && this.#heldCostly >= this.#places / 2) return false;
    return this.#held.get(accountId) < this.#places - this.#held.total;
  }

  #startNext(): void {
    for (const key of this.#waiting.keys) {
      const next = this.#waiting.peek(key);
      if (!next || !this.#mayClaim(next.owner)) continue;
      this.#add(next.owner);
      this.#waiting.shift(key)?.start();
    }
  }
}

/** The costly work of an account waits for its turn apart from its other work, which may find a place earlier. */
const keyOf = ({ accountId, isCostly }: PlaceOwner): string => (isCostly ? `costly ${accountId}` : accountId);
