/**
 * Decides which start of a plugin process is next. Starts wait for room and for their turn, so that neither many cold
 * plugins at once nor one account that fills every place keeps the plugins of other accounts from starting.
 */
import { NoRoomError } from './start-failure.ts';

/** Starts at once. A start takes about 55 ms of a core; more would only make each of them slower. */
const STARTS_MAX = 16;
/** Of one account. A plugin whose code never finishes loading holds its start for seconds. */
const STARTS_OF_ACCOUNT_MAX = 3;
/** Starts of one account that may wait. */
const WAITING_OF_ACCOUNT_MAX = 1_000;
/** A start waits for room this long. Its calls wait no longer than their own budgets. Milliseconds. */
const WAIT_MAX_MS = 30_000;
/** How often the queue looks whether there is room, while a start waits. Milliseconds. */
const CHECK_EVERY_MS = 25;
/**
 * An account may have this many busy processes for each place that is not busy, as switches share a buffer by a dynamic
 * threshold. One account gets two thirds of all places, four get 22 % each, and a place always remains for the next.
 */
const BUSY_PER_FREE_PLACE = 2;

/** What the queue needs to know of the processes. */
export interface Places {
  readonly max: number;
  /** Processes that run or start, by account; `busy` are those that cannot be stopped for another one. */
  count(): { readonly total: number; readonly busy: number; busyOf(accountId: string): number };
  /** Stops an idle process, if possible one of this account. False: none is idle. */
  stopIdle(accountId: string): Promise<boolean>;
}

/** The owner of a start. Its identity distinguishes starts. */
export interface StartOwner {
  readonly plugin: { readonly accountId: string };
}

interface WaitingStart {
  readonly owner: StartOwner;
  readonly giveUpAt: number;
  resolve(): void;
  reject(error: Error): void;
}

export class StartQueue {
  readonly #places: Places;
  readonly #now: () => number;
  /** By account, in the order in which accounts are served next. */
  readonly #waiting = new Map<string, WaitingStart[]>();
  readonly #starting = new Map<string, number>();
  #startingTotal = 0;
  #isChecking = false;
  #timer: NodeJS.Timeout | null = null;

  /** @param now milliseconds of a monotonic clock */
  constructor(places: Places, now: () => number = () => performance.now()) {
    this.#places = places;
    this.#now = now;
  }

  isWaiting(owner: StartOwner): boolean {
    return this.#waiting.get(owner.plugin.accountId)?.some((start) => start.owner === owner) === true;
  }

  /**
   * Runs a start when it is its turn.
   *
   * @throws NoRoomError where too many wait or no place became free in time, and what `start` throws
   */
  async run<T>(owner: StartOwner, start: () => Promise<T>): Promise<T> {
    const { accountId } = owner.plugin;
    await this.#waitForTurn(owner);
    try {
      return await start();
    } finally {
      this.#startingTotal -= 1;
      const left = (this.#starting.get(accountId) ?? 1) - 1;
      if (left > 0) this.#starting.set(accountId, left);
      else this.#starting.delete(accountId);
      void this.#check();
    }
  }

  /** Rejects the starts of an owner that wait. */
  cancel(owner: StartOwner): void {
    const { accountId } = owner.plugin;
    const starts = this.#waiting.get(accountId) ?? [];
    const others = starts.filter((start) => start.owner !== owner);
    if (others.length > 0) this.#waiting.set(accountId, others);
    else this.#waiting.delete(accountId);
    for (const start of starts) if (start.owner === owner) start.reject(new NoRoomError('it was stopped'));
  }

  /** Rejects every start that waits. */
  close(): void {
    for (const starts of this.#waiting.values())
      for (const { reject } of starts) reject(new NoRoomError('the supervisor is stopping'));
    this.#waiting.clear();
    this.#stopTimer();
  }

  #waitForTurn(owner: StartOwner): Promise<void> {
    const { accountId } = owner.plugin;
    const starts = this.#waiting.get(accountId) ?? [];
    if (starts.length >= WAITING_OF_ACCOUNT_MAX)
      return Promise.reject(new NoRoomError(`${starts.length} plugins of this account already wait to start`));
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    starts.push({ owner, giveUpAt: this.#now() + WAIT_MAX_MS, resolve, reject });
    this.#waiting.set(accountId, starts);
    void this.#check();
    return promise;
  }

  /** Begins as many starts as there is room for, the accounts in turn. */
  async #check(): Promise<void> {
    if (this.#isChecking) return;
    this.#isChecking = true;
    try {
      this.#giveUpOverdue();
      while (await this.#beginNext());
    } finally {
      this.#isChecking = false;
    }
    if (this.#waiting.size === 0) this.#stopTimer();
    else this.#timer ??= setInterval(() => void this.#check(), CHECK_EVERY_MS);
  }

  async #beginNext(): Promise<boolean> {
    if (this.#startingTotal >= STARTS_MAX) return false;
    for (const accountId of [...this.#waiting.keys()]) {
      if ((this.#starting.get(accountId) ?? 0) >= STARTS_OF_ACCOUNT_MAX) continue;
      const { total, busy, busyOf } = this.#places.count();
      if (busyOf(accountId) >= BUSY_PER_FREE_PLACE * (this.#places.max - busy)) continue;
      if (total >= this.#places.max && !(await this.#places.stopIdle(accountId))) return false;
      this.#begin(accountId);
      return true;
    }
    return false;
  }

  #begin(accountId: string): void {
    const starts = this.#waiting.get(accountId) ?? [];
    const next = starts.shift();
    // The account is served again after all others.
    this.#waiting.delete(accountId);
    if (starts.length > 0) this.#waiting.set(accountId, starts);
    if (next === undefined) return;
    this.#startingTotal += 1;
    this.#starting.set(accountId, (this.#starting.get(accountId) ?? 0) + 1);
    next.resolve();
  }

  #giveUpOverdue(): void {
    for (const [accountId, starts] of this.#waiting) {
      while (starts[0] !== undefined && starts[0].giveUpAt <= this.#now()) {
        const seconds = WAIT_MAX_MS / 1_000;
        starts.shift()?.reject(new NoRoomError(`no plugin process became free for it within ${seconds} s`));
      }
      if (starts.length === 0) this.#waiting.delete(accountId);
    }
  }

  #stopTimer(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
  }
}
