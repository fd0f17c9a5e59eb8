/**
 * Which channel queues are worked on: each by one worker, at most so many of one installation at once, in turns, so that a busy
 * channel starves nobody.
 */

import type { ReadyChannelQueue } from '../../db/channels/delivery-queue.ts';
import { within } from '../../service/timing/within.ts';

interface ChannelSchedulerOptions {
  /** Channel queues worked on at once. */
  readonly concurrency: number;
  /** Of one installation. */
  readonly perInstallation: number;
  /** How often all channel queues are looked at: the grain of retries and the backstop of a lost notice, milliseconds. */
  readonly pollMs: number;
  /** Channel queues whose head may be attempted now; null: of all channels. */
  find(channelIds: readonly string[] | null): Promise<readonly ReadyChannelQueue[]>;
  /** Attempts the head of a channel queue. Answers whether the next one may follow at once. */
  work(queue: ReadyChannelQueue): Promise<boolean>;
  onError(error: Error): void;
}

const keyOf = ({ channelId, direction }: ReadyChannelQueue): string => `${direction} ${channelId}`;

export class ChannelScheduler {
  readonly #options: ChannelSchedulerOptions;
  /** In the order they get their turn. */
  readonly #waiting = new Map<string, ReadyChannelQueue>();
  readonly #running = new Map<string, { readonly queue: ReadyChannelQueue; readonly done: Promise<void> }>();
  /** Found ready again while they were worked on. */
  readonly #again = new Set<string>();
  /** Channels to look at; null: all. */
  #wanted: Set<string> | null = new Set();
  #finding: Promise<void> | null = null;
  readonly #timer: NodeJS.Timeout;
  #stopping = false;

  constructor(options: ChannelSchedulerOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.wake(null), options.pollMs);
    this.wake(null);
  }

  /** Look at a channel, or at all of them: something may be ready. */
  wake(channelId: string | null): void {
    if (channelId === null) this.#wanted = null;
    else this.#wanted?.add(channelId);
    this.#findReady();
  }

  /** Takes no more and waits for what runs, at most `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#timer);
    this.#waiting.clear();
    await this.#finding;
    await within(Promise.all([...this.#running.values()].map(({ done }) => done)), graceMs);
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
      if (this.#running.has(keyOf(queue))) this.#again.add(keyOf(queue));
      else this.#waiting.set(keyOf(queue), queue);
    }
    this.#start();
  }

  #start(): void {
    if (this.#stopping) return;
    for (const [key, queue] of this.#waiting) {
      if (this.#running.size >= this.#options.concurrency) return;
      if (this.#runningOf(queue.installationId) >= this.#options.perInstallation) continue;
      this.#waiting.delete(key);
      this.#running.set(key, { queue, done: this.#run(key, queue) });
    }
  }

  #runningOf(installationId: string): number {
    let count = 0;
    for (const { queue } of this.#running.values()) if (queue.installationId === installationId) count += 1;
    return count;
  }

  async #run(key: string, queue: ReadyChannelQueue): Promise<void> {
    let more = false;
    try {
      more = await this.#options.work(queue);
    } catch (error) {
      this.#options.onError(error as Error);
    }
    this.#running.delete(key);
    if (this.#stopping) return;
    // To the end of the row: others have waited longer.
    if (this.#again.delete(key) || more) this.#waiting.set(key, queue);
    this.#start();
  }
}
