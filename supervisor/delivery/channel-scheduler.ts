/**
 * Decides which channel queues are worked on. A queue has at most one worker, an installation a limited number, and an account its
 * share of all workers. Queues take turns, so that a busy channel cannot starve others.
 */

import { formatQueueKey, type OwnedChannelQueue, type WaitingChannelQueue } from '../../db/channels/delivery-queue.ts';
import { mayTakePlace } from '../../db/jobs/account-share.ts';
import { asService } from '../../db/postgres/shares.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { RoundRobinQueue } from '../../db/timing/round-robin-queue.ts';
import { within } from '../../service/timing/within.ts';

interface ChannelSchedulerOptions {
  /** Maximum number of channel queues worked on at once; each account may take its share of them. */
  readonly concurrency: number;
  /** Maximum per installation. */
  readonly perInstallation: number;
  /** Delay before a lookup or an attempt that threw is repeated: usually the database is unreachable. Milliseconds. */
  readonly retryMs: number;
  /** Finds the channel queues whose head waits for an attempt; null: of all channels. */
  find(channelIds: readonly string[] | null): Promise<readonly WaitingChannelQueue[]>;
  /** Attempts the head of a channel queue. */
  work(queue: OwnedChannelQueue): Promise<Outcome>;
  onError(error: Error): void;
}

/** The state of a queue after an attempt. */
export interface Outcome {
  /** Whether the next delivery of the queue may follow at once. */
  readonly isNextDue: boolean;
  /** Time until the channel has another delivery to attempt; null: none is known. Milliseconds. */
  readonly wakeAfterMs: number | null;
}

interface Alarm {
  readonly at: number;
  readonly timer: NodeJS.Timeout;
}

/** The longest delay of a timer in Node. Milliseconds. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class ChannelScheduler {
  readonly #options: ChannelSchedulerOptions;
  /** Waiting queues by account, and of each account by installation. The accounts are in the order in which they are served. */
  readonly #waiting = new Map<string, RoundRobinQueue<OwnedChannelQueue>>();
  readonly #waitingKeys = new Set<string>();
  readonly #running = new Map<string, Promise<void>>();
  /** Number of workers of each installation. */
  readonly #ofInstallation = new AmountsByKey();
  /** Number of workers of each account. */
  readonly #ofAccount = new AmountsByKey();
  /** Queues that were added again while a worker was busy with them. */
  readonly #again = new Set<string>();
  /** The next planned lookup of each channel; null: of all channels. An idle channel has none. */
  readonly #alarms = new Map<string | null, Alarm>();
  /** Channels to look up next; null: all. */
  #wanted: Set<string> | null = new Set();
  #finding: Promise<void> | null = null;
  #stopping = false;

  constructor(options: ChannelSchedulerOptions) {
    this.#options = options;
  }

  /** Looks up what waits in one channel, or in all of them. */
  wake(channelId: string | null): void {
    if (channelId === null) this.#wanted = null;
    else this.#wanted?.add(channelId);
    this.#find();
  }

  /** Adds a queue that has a delivery to attempt, without a lookup. */
  add(queue: OwnedChannelQueue): void {
    this.#enqueue(queue);
    this.#start();
  }

  /** Looks up what waits in a channel, or in all of them, after a delay. Does nothing if an earlier lookup is planned. */
  wakeAfter(channelId: string | null, ms: number): void {
    const at = performance.now() + ms;
    const alarm = this.#alarms.get(channelId);
    if (this.#stopping || (alarm && alarm.at <= at)) return;
    clearTimeout(alarm?.timer);
    const ring = (): void => {
      this.#alarms.delete(channelId);
      this.wake(channelId);
    };
    this.#alarms.set(channelId, { at, timer: setTimeout(ring, Math.min(ms, LONGEST_TIMER_MS)) });
  }

  /** Starts no more work and waits for the lookup and the attempts under way, at most `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    for (const { timer } of this.#alarms.values()) clearTimeout(timer);
    this.#waiting.clear();
    this.#waitingKeys.clear();
    await within(Promise.all([this.#finding, ...this.#running.values()]), graceMs);
  }

  #find(): void {
    if (this.#finding || this.#stopping || this.#wanted?.size === 0) return;
    const wanted = this.#wanted === null ? null : [...this.#wanted];
    this.#wanted = new Set();
    this.#finding = asService(() => this.#options.find(wanted))
      .then(
        (queues) => this.#schedule(queues),
        (error: Error) => this.#findLater(wanted, error),
      )
      .finally(() => {
        this.#finding = null;
        this.#find();
      });
  }

  #schedule(queues: readonly WaitingChannelQueue[]): void {
    for (const queue of queues) {
      if (queue.waitMs === 0) this.#enqueue(queue);
      else this.wakeAfter(queue.channelId, queue.waitMs);
    }
    this.#start();
  }

  #enqueue(queue: OwnedChannelQueue): void {
    const key = formatQueueKey(queue);
    if (this.#running.has(key)) this.#again.add(key);
    else if (!this.#waitingKeys.has(key)) {
      this.#waitingKeys.add(key);
      const ofAccount = this.#waiting.get(queue.accountId) ?? new RoundRobinQueue();
      ofAccount.push(queue.installationId, queue);
      this.#waiting.set(queue.accountId, ofAccount);
    }
  }

  #findLater(wanted: readonly string[] | null, error: Error): void {
    const { retryMs, onError } = this.#options;
    onError(error);
    for (const channelId of wanted ?? [null]) this.wakeAfter(channelId, retryMs);
  }

  #start(): void {
    while (!this.#stopping) {
      const next = this.#takeNext();
      if (!next) return;
      const key = formatQueueKey(next);
      this.#waitingKeys.delete(key);
      this.#running.set(key, this.#run(key, next));
    }
  }

  /**
   * Removes the next queue of the account that has the fewest workers; of those accounts, of the one that was served longest ago.
   * Reads at most one waiting account more than there are workers: the first account without a worker is served.
   */
  #takeNext(): OwnedChannelQueue | null {
    const { concurrency, perInstallation } = this.#options;
    const free = concurrency - this.#running.size;
    if (free === 0) return null;
    let next: { readonly accountId: string; readonly installationId: string; readonly working: number } | null = null;
    for (const [accountId, ofAccount] of this.#waiting) {
      const working = this.#ofAccount.get(accountId);
      if ((next && next.working <= working) || !mayTakePlace(working, free)) continue;
      const installationId = ofAccount.keys.find((id) => this.#ofInstallation.get(id) < perInstallation);
      if (installationId !== undefined) next = { accountId, installationId, working };
      if (working === 0) break;
    }
    return next && this.#take(next.accountId, next.installationId);
  }

  #take(accountId: string, installationId: string): OwnedChannelQueue | null {
    const ofAccount = this.#waiting.get(accountId);
    const queue = ofAccount?.shift(installationId);
    // Move it to the end, because the others have waited longer.
    this.#waiting.delete(accountId);
    if (ofAccount && ofAccount.size > 0) this.#waiting.set(accountId, ofAccount);
    return queue ?? null;
  }

  async #run(key: string, queue: OwnedChannelQueue): Promise<void> {
    let outcome: Outcome = { isNextDue: false, wakeAfterMs: this.#options.retryMs };
    this.#ofInstallation.add(queue.installationId);
    this.#ofAccount.add(queue.accountId);
    try {
      outcome = await this.#options.work(queue);
    } catch (error) {
      this.#options.onError(error as Error);
    }
    this.#running.delete(key);
    this.#ofInstallation.subtract(queue.installationId);
    this.#ofAccount.subtract(queue.accountId);
    if (this.#stopping) return;
    if (this.#again.delete(key) || outcome.isNextDue) this.#enqueue(queue);
    if (outcome.wakeAfterMs !== null) this.wakeAfter(queue.channelId, outcome.wakeAfterMs);
    this.#start();
  }
}
