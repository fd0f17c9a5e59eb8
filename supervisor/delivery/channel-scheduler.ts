/**
 * Decides which channel queues are worked on. Each has at most one worker, an installation has a limited number, an account
 * has its share of all workers, and queues take turns, so that a busy channel cannot starve others.
 */

import type { ReadyChannelQueue } from '../../db/channels/delivery-queue.ts';
import { mayTakePlace } from '../../db/jobs/account-share.ts';
import { AmountsByKey } from '../../service/timing/amounts-by-key.ts';
import { within } from '../../service/timing/within.ts';

interface ChannelSchedulerOptions {
  /** Maximum number of channel queues worked on at once; each account may take its share of them. */
  readonly concurrency: number;
  /** Maximum per installation. */
  readonly perInstallation: number;
  /** Interval of polling all channel queues: resolution of retries, and cover for lost notifications. Milliseconds. */
  readonly pollMs: number;
  /** Finds the channel queues whose head may be attempted now; null: of all channels. */
  find(channelIds: readonly string[] | null): Promise<readonly ReadyChannelQueue[]>;
  /** Attempts the head of a channel queue. True: the next delivery may follow at once. */
  work(queue: ReadyChannelQueue): Promise<boolean>;
  onError(error: Error): void;
}

const formatKey = ({ channelId, direction, setAside }: ReadyChannelQueue): string =>
  `${direction} ${setAside} ${channelId}`;

export class ChannelScheduler {
  readonly #options: ChannelSchedulerOptions;
  /** In the order of their turns. */
  readonly #waiting = new Map<string, ReadyChannelQueue>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #ofInstallation = new AmountsByKey();
  readonly #ofAccount = new AmountsByKey();
  /** Queues that became ready again while a worker was busy with them. */
  readonly #again = new Set<string>();
  /** Channels to poll; null: all. */
  #wanted: Set<string> | null = new Set();
  #finding: Promise<void> | null = null;
  readonly #timer: NodeJS.Timeout;
  #stopping = false;

  constructor(options: ChannelSchedulerOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.wake(null), options.pollMs);
    this.wake(null);
  }

  /** Polls one channel, or all of them. */
  wake(channelId: string | null): void {
    if (channelId === null) this.#wanted = null;
    else this.#wanted?.add(channelId);
    this.#findReady();
  }

  /** Starts no more work and waits for running attempts, at most `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#timer);
    this.#waiting.clear();
    await this.#finding;
    await within(Promise.all(this.#running.values()), graceMs);
  }

  #findReady(): void {
    if (this.#finding || this.#stopping || this.#wanted?.size === 0) return;
    const wanted = this.#wanted === null ? null : [...this.#wanted];
    this.#wanted = new Set();
    this.#finding = this.#options
      .find(wanted)
      .then((queues) => this.#add(queues), this.#options.onError)
      .finally(() => {
        this.#finding = null;
        this.#findReady();
      });
  }

  #add(queues: readonly ReadyChannelQueue[]): void {
    for (const queue of queues) {
      if (this.#running.has(formatKey(queue))) this.#again.add(formatKey(queue));
      else this.#waiting.set(formatKey(queue), queue);
    }
    this.#start();
  }

  #start(): void {
    while (!this.#stopping) {
      const next = this.#findNext();
      if (!next) return;
      this.#waiting.delete(formatKey(next));
      this.#running.set(formatKey(next), this.#run(formatKey(next), next));
    }
  }

  /** The queue whose account has the fewest workers; of those, the one that has waited longest. */
  #findNext(): ReadyChannelQueue | null {
    const { concurrency, perInstallation } = this.#options;
    let next: ReadyChannelQueue | null = null;
    for (const queue of this.#waiting.values()) {
      const working = this.#ofAccount.get(queue.accountId);
      if (next && this.#ofAccount.get(next.accountId) <= working) continue;
      if (!mayTakePlace(working, concurrency - this.#running.size)) continue;
      if (this.#ofInstallation.get(queue.installationId) < perInstallation) next = queue;
    }
    return next;
  }

  async #run(key: string, queue: ReadyChannelQueue): Promise<void> {
    let more = false;
    this.#ofInstallation.add(queue.installationId);
    this.#ofAccount.add(queue.accountId);
    try {
      more = await this.#options.work(queue);
    } catch (error) {
      this.#options.onError(error as Error);
    }
    this.#running.delete(key);
    this.#ofInstallation.subtract(queue.installationId);
    this.#ofAccount.subtract(queue.accountId);
    if (this.#stopping) return;
    // Move it to the end, because others have waited longer.
    if (this.#again.delete(key) || more) this.#waiting.set(key, queue);
    this.#start();
  }
}
