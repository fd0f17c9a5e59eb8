/** Computes the times of reminders in a worker thread with a time limit: the search for the next time of a short rule may take minutes. */
import { SECOND } from '../../sdk/contract/limits.ts';
import { BoundedWorker, TimeLimitError } from '../../service/timing/bounded-worker.ts';
import { type Following, parseRecurrence, type Recurrence, type RepeatedTime, refuseRepeat } from './recurrence.ts';
import type { RecurrenceTask } from './recurrence-worker.ts';

/** Time limits. Ordinary rules take a millisecond; with a new thread on a busy machine, a second or two. Milliseconds. */
const READ_MS = 10 * SECOND;
const FOLLOW_MS = 30 * SECOND;
const THREAD_HEAP_MB = 64;

export class RecurrenceClock {
  readonly #worker = new BoundedWorker<RecurrenceTask, Following | null>(
    new URL('./recurrence-worker.ts', import.meta.url),
    { name: 'computeFollowing', heapMegabytes: THREAD_HEAP_MB },
  );
  readonly #readMs: number;
  readonly #followMs: number;

  constructor({
    readMs = READ_MS,
    followMs = FOLLOW_MS,
  }: { readonly readMs?: number; readonly followMs?: number } = {}) {
    this.#readMs = readMs;
    this.#followMs = followMs;
  }

  /** Reads a rule whose first time is `startsAt`. @throws Problem `bad_request` that names the part */
  async read(accountId: string, text: string, startsAt: string, zone: string): Promise<Recurrence> {
    const recurrence = parseRecurrence(text);
    const repeated = { repeat: recurrence.rule, startsAt, zone, remaining: null };
    const task = { repeated, dueAt: startsAt, now: Date.parse(startsAt) };
    const following = await this.#worker.run(accountId, task, this.#readMs).catch(skipTimeLimit);
    if (following === null) throw refuseRepeat('comes true too rarely, or is not a rule of RFC 5545');
    return recurrence;
  }

  /**
   * Computes the time after one that is due. A rule is over if it has no next time, and lost if the worker cannot compute it at all.
   *
   * @throws TimeLimitError
   */
  async follow(
    accountId: string,
    { repeat, startsAt, zone, remaining }: RepeatedTime,
    dueAt: string,
    now: number,
  ): Promise<Following> {
    const over = { nextAt: null, remaining, missed: 0 };
    if (repeat === null) return over;
    const task = { repeated: { repeat, startsAt, zone, remaining }, dueAt, now };
    return (await this.#worker.run(accountId, task, this.#followMs)) ?? { ...over, isLost: true };
  }

  close(): Promise<void> {
    return this.#worker.close();
  }
}

function skipTimeLimit(error: unknown): null {
  if (error instanceof TimeLimitError) return null;
  throw error;
}
