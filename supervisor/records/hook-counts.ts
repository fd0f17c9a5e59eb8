/** Counts how often each hook ran for each session, in limited memory, and writes the counts periodically. */
import type { Pool } from 'pg';
import { asService } from '../../db/postgres/shares.ts';
import { addHookCounts, type HookCount } from '../../db/sessions/coverage.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';

/** Interval of writes, which is the maximum loss in a crash. Milliseconds. */
const FLUSH_MS = 5_000;
/** Counts held while the database is unavailable; beyond it, new ones are dropped. */
const HELD_MAX = 20_000;

type Count = { -readonly [Key in keyof HookCount]: HookCount[Key] };

export class HookCounts {
  readonly #pool: Pool;
  readonly #onError: (error: Error) => void;
  readonly #timer: NodeJS.Timeout;
  #counts = new Map<string, Count>();
  #flushing: Promise<void> = Promise.resolve();

  constructor(pool: Pool, onError: (error: Error) => void) {
    this.#pool = pool;
    this.#onError = onError;
    this.#timer = setInterval(() => void this.flush(), FLUSH_MS).unref();
  }

  count(sessionId: string, hook: HookName, isCancelled: boolean): void {
    this.#add({
      sessionId,
      hook,
      asked: 1,
      cancelled: isCancelled ? 1 : 0,
      lastAt: new Date().toISOString(),
    });
  }

  /** Writes all counts. Counts that cannot be written are kept for the next time, within the limit. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => asService(() => this.#write()));
    return this.#flushing;
  }

  /** Stops after a last flush. Writes once more what it skipped: a session is locked only for a moment, and no later flush follows. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
    await this.flush();
  }

  #add(count: Count): void {
    const key = `${count.sessionId} ${count.hook}`;
    const held = this.#counts.get(key);
    if (held) {
      held.asked += count.asked;
      held.cancelled += count.cancelled;
      if (count.lastAt > held.lastAt) held.lastAt = count.lastAt;
    } else if (this.#counts.size < HELD_MAX) this.#counts.set(key, count);
  }

  async #write(): Promise<void> {
    const counts = [...this.#counts.values()];
    if (counts.length === 0) return;
    this.#counts = new Map();
    try {
      const skipped = new Set(await addHookCounts(this.#pool, counts));
      for (const count of counts) if (skipped.has(count.sessionId)) this.#add(count);
    } catch (error) {
      this.#onError(error as Error);
      for (const count of counts) this.#add(count);
    }
  }
}
