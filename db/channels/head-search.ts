/**
 * Searches channel queues for deliveries that are not behind another of their conversation. One statement looks at a limited
 * number of conversations. The next search continues after them, so that replies of the first conversations cannot starve
 * those of the others. Where a search needs several statements, it may claim replies of different conversations out of order.
 */
import type { Pool } from 'pg';
import type { Fence } from '../postgres/pool.ts';
import { type ChannelQueue, type ClaimedDelivery, claimNextDelivery, formatQueueKey } from './delivery-queue.ts';

interface NothingFound {
  readonly delivery: null;
  /** Another search may find a delivery at once. */
  readonly isNextDue: boolean;
  /** Time until the head is due. Milliseconds. Null: the queue has no head, or an event will make it due. */
  readonly wakeAfterMs: number | null;
}

export class HeadSearch {
  /** The conversation after which the next search begins, by queue. A queue of few conversations has none. */
  readonly #nextKeys = new Map<string, string>();
  readonly #longestWait: number | undefined;

  /** @param longestWait of a postponement, in seconds; see `dueAtSql` */
  constructor(longestWait?: number) {
    this.#longestWait = longestWait;
  }

  /** Claims one attempt at the head of a channel queue. See `claimNextDelivery`. */
  async claim(
    pool: Pool,
    queue: ChannelQueue,
    fence: Fence,
  ): Promise<NothingFound | { readonly delivery: ClaimedDelivery }> {
    const queueKey = formatQueueKey(queue);
    const firstKey = this.#nextKeys.get(queueKey) ?? null;
    let afterKey = firstKey;
    for (;;) {
      const { delivery, hasHead, waitMs, nextKey } = await claimNextDelivery(pool, queue, fence, {
        afterKey,
        longestWait: this.#longestWait,
      });
      // A head that is not due is looked at again.
      if (hasHead && !delivery) return { delivery, isNextDue: false, wakeAfterMs: waitMs };
      this.#setNextKey(queueKey, nextKey);
      if (delivery) return { delivery };
      // The conversations before `firstKey` were not looked at.
      if (nextKey === null) return { delivery, isNextDue: firstKey !== null, wakeAfterMs: null };
      afterKey = nextKey;
    }
  }

  #setNextKey(queueKey: string, nextKey: string | null): void {
    if (nextKey === null) this.#nextKeys.delete(queueKey);
    else this.#nextKeys.set(queueKey, nextKey);
  }
}
