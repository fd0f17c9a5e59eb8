/**
 * Decides which start of a plugin process is next. Starts wait for room and for their turn, so that neither many cold
 * plugins at once nor one account that fills every place keeps the plugins of other accounts from starting.
 */
import { availableParallelism } from 'node:os';
import { mayTakePlace } from '../../db/jobs/account-share.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { RoundRobinQueue } from '../../db/timing/round-robin-queue.ts';
import { NoRoomError } from './start-failure.ts';

/** Starts of one account at once. A plugin whose code never finishes loading holds its start for seconds. */
const STARTS_OF_ACCOUNT_MAX = 3;
/** Starts at once. A start takes about 55 ms of a core; more would only make each of them slower. */
const STARTS_MAX = Math.min(16, Math.max(STARTS_OF_ACCOUNT_MAX, 4 * availableParallelism()));
/** The last starts are for accounts that have none. Otherwise three accounts could hold all starts of two processors. */
const STARTS_RESERVED = Math.floor(STARTS_MAX / 4);
/** Idle processes that are stopped at once to make room. */
const STOPS_MAX = STARTS_MAX;
/** Starts of one account that may wait. */
const WAITING_OF_ACCOUNT_MAX = 1_000;
/** A start waits for room this long: the longest budget of a tool. Its calls wait no longer than their own. Milliseconds. */
const WAIT_MAX_MS = 60_000;
/** How often the queue looks whether there is room, while a start waits. Milliseconds. */
const CHECK_EVERY_MS = 25;

/**
 * One place in this many is reserved for plugins that their accounts require: without them the account's operations stop, and
 * many starts of other plugins must not cause that.
 */
const PLACES_PER_RESERVED_PLACE = 8;

/** The counts of processes by which the queue decides. */
export interface Places {
  readonly max: number;
  /** Processes that run or start, by account; `busy` are those that cannot be stopped for another one. */
  count(): { readonly total: number; readonly busy: number; busyOf(accountId: string): number };
  /** Stops an idle process for a start of this account. Null: no process is idle. */
  stopIdle(accountId: string): Promise<unknown> | null;
}

/** The owner of a start. Its identity distinguishes starts. */
interface StartOwner {
  readonly plugin: { readonly accountId: string; readonly required: boolean };
}

interface WaitingStart {
  readonly owner: StartOwner;
  readonly giveUpAt: number;
  resolve(): void;
  reject(error: Error): void;
}

const formatKey = ({ plugin: { accountId, required } }: StartOwner): string =>
  `${accountId}${required ? ' required' : ''}`;

export class StartQueue {
  readonly #places: Places;
  readonly #now: () => number;
  /** By account; the plugins that it requires have turns of their own. */
  readonly #waiting = new RoundRobinQueue<WaitingStart>();
  /** Number of starts that wait. An owner has two while a start and an update wait. */
  readonly #waitingOfOwner = new Map<StartOwner, number>();
  /** By account. */
  readonly #starting = new AmountsByKey();
  /** Idle processes that are being stopped. */
  #stopping = 0;
  #isChecking = false;
  #timer: NodeJS.Timeout | null = null;

  /** @param now milliseconds of a monotonic clock */
  constructor(places: Places, now: () => number = () => performance.now()) {
    this.#places = places;
    this.#now = now;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Share of the places whose processes cannot be stopped for another one. */
  get busyRatio(): number {
    return this.#places.count().busy / this.#places.max;
  }

  countWaiting(owner: StartOwner): number {
    return this.#waitingOfOwner.get(owner) ?? 0;
  }

  /**
   * Runs a start when it is its turn.
   *
   * @param signal cancels this start while it waits
   * @throws NoRoomError where too many wait or no place became free in time, and what `start` throws
   */
  async run<T>(owner: StartOwner, start: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const { accountId } = owner.plugin;
    await this.#waitForTurn(owner, signal);
    try {
      return await start();
    } finally {
      this.#starting.subtract(accountId);
      void this.#check();
    }
  }

  /** Rejects the starts of an owner that wait. */
  cancel(owner: StartOwner): void {
    this.#cancelWhere(owner, (start) => start.owner === owner);
  }

  #cancelWhere({ plugin: { accountId } }: StartOwner, filter: (start: WaitingStart) => boolean): void {
    // Its user may have changed whether it is required since it began to wait.
    for (const required of [false, true]) {
      const key = formatKey({ plugin: { accountId, required } });
      this.#reject(this.#waiting.remove(key, filter), 'it was stopped');
    }
  }

  /** Rejects every start that waits. */
  close(): void {
    this.#reject(this.#waiting.clear(), 'the supervisor is stopping');
    this.#stopTimer();
  }

  #waitForTurn(owner: StartOwner, signal: AbortSignal | undefined): Promise<void> {
    if (this.#waiting.count(formatKey(owner)) >= WAITING_OF_ACCOUNT_MAX)
      return Promise.reject(new NoRoomError(`${WAITING_OF_ACCOUNT_MAX} plugins of this account already wait to start`));
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waitingOfOwner.set(owner, this.countWaiting(owner) + 1);
    const waiting = { owner, giveUpAt: this.#now() + WAIT_MAX_MS, resolve, reject };
    this.#waiting.push(formatKey(owner), waiting);
    const onAbort = () => this.#cancelWhere(owner, (start) => start === waiting);
    signal?.addEventListener('abort', onAbort, { once: true });
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
    if (this.#starting.total >= STARTS_MAX) return false;
    const { total, busy, busyOf } = this.#places.count();
    const { max } = this.#places;
    const reserved = Math.floor(max / PLACES_PER_RESERVED_PLACE);
    for (const key of this.#waiting.keys) {
      const next = this.#waiting.peek(key);
      if (!next) continue;
      const { accountId, required } = next.owner.plugin;
      const starting = this.#starting.get(accountId);
      if (starting >= STARTS_OF_ACCOUNT_MAX) continue;
      if (starting > 0 && STARTS_MAX - this.#starting.total <= STARTS_RESERVED) continue;
      if (!mayTakePlace(busyOf(accountId), (required ? max : max - reserved) - busy)) continue;
      if (total >= max) return this.#makeRoom(accountId);
      this.#begin(key);
      return true;
    }
    return false;
  }

  /** Stops an idle process. @returns whether one was idle, and another one may be stopped */
  #makeRoom(accountId: string): boolean {
    if (this.#stopping >= Math.min(STOPS_MAX, this.#waiting.size)) return false;
    const stopped = this.#places.stopIdle(accountId);
    if (stopped === null) return false;
    this.#stopping += 1;
    void stopped.finally(() => {
      this.#stopping -= 1;
      void this.#check();
    });
    return true;
  }

  #begin(key: string): void {
    const next = this.#waiting.shift(key);
    if (next === undefined) return;
    this.#endWaiting(next.owner);
    this.#starting.add(next.owner.plugin.accountId);
    next.resolve();
  }

  #endWaiting(owner: StartOwner): void {
    const left = this.countWaiting(owner) - 1;
    if (left > 0) this.#waitingOfOwner.set(owner, left);
    else this.#waitingOfOwner.delete(owner);
  }

  #giveUpOverdue(): void {
    for (const key of this.#waiting.keys) {
      const overdue = this.#waiting.remove(key, ({ giveUpAt }) => giveUpAt <= this.#now());
      this.#reject(overdue, `no plugin process became free for it within ${WAIT_MAX_MS / 1_000} s`);
    }
  }

  #reject(starts: readonly WaitingStart[], reason: string): void {
    for (const { owner, reject } of starts) {
      this.#endWaiting(owner);
      reject(new NoRoomError(reason));
    }
  }

  #stopTimer(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
  }
}
