/** Runs the work of many accounts in a fixed number of places, the accounts in turn. */
import { mayTakePlace } from '../../db/jobs/account-share.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { RoundRobinQueue } from '../../db/timing/round-robin-queue.ts';

interface FairQueueOptions {
  /** How much runs at once. */
  readonly places: number;
  /** How much may wait; an account may take its share of these places. */
  readonly waitingPlaces: number;
}

export class FairQueue {
  readonly #options: FairQueueOptions;
  readonly #running = new AmountsByKey();
  readonly #waiting = new RoundRobinQueue<() => void>();

  constructor(options: FairQueueOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#running.total;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Whether work of this account runs or waits. */
  has(accountId: string): boolean {
    return this.#running.get(accountId) > 0 || this.#waiting.count(accountId) > 0;
  }

  /** Whether `run` would accept work of this account. */
  hasRoom(accountId: string): boolean {
    const { places, waitingPlaces } = this.#options;
    if (this.waiting === 0 && mayTakePlace(this.#running.get(accountId), places - this.running)) return true;
    return mayTakePlace(this.#waiting.count(accountId), waitingPlaces - this.waiting);
  }

  /** Runs the work when it is its turn. `hasRoom` must be true. */
  async run<T>(accountId: string, work: () => Promise<T>): Promise<T> {
    const { promise: turn, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(accountId, resolve);
    this.#startNext();
    await turn;
    try {
      return await work();
    } finally {
      this.#running.subtract(accountId);
      this.#startNext();
    }
  }

  #startNext(): void {
    for (const accountId of this.#waiting.keys) {
      if (!mayTakePlace(this.#running.get(accountId), this.#options.places - this.running)) continue;
      this.#running.add(accountId);
      this.#waiting.shift(accountId)?.();
    }
  }
}
