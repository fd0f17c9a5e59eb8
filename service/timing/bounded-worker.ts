/**
 * Threads for work whose time a text of an account decides: one task of each account at a time, each within its time limit. A
 * task that takes longer than usual is stopped and begins again in a second thread, so that those of others wait only briefly.
 */
import type { Piscina } from 'piscina';
import { KeyedLocks } from '../../db/timing/keyed-locks.ts';
import { singleWorkerPool, type ThreadOptions } from './single-worker-pool.ts';

/** Limit in the first thread. Ordinary tasks take milliseconds, on a busy machine with a new thread a second. Milliseconds. */
const QUICK_MS = 2_000;

/** The task was stopped. */
export class TimeLimitError extends Error {
  override readonly name = 'TimeLimitError';
}

export class BoundedWorker<Task, Result> {
  readonly #quick: Thread<Task, Result>;
  readonly #slow: Thread<Task, Result>;
  readonly #accounts = new KeyedLocks();
  readonly #quickMs: number;

  /** @param file the worker's program */
  constructor(file: URL, { quickMs = QUICK_MS, ...options }: ThreadOptions & { readonly quickMs?: number }) {
    this.#quick = new Thread(file, options);
    this.#slow = new Thread(file, options);
    this.#quickMs = quickMs;
  }

  /** @param timeMs limit of the task, not counting its time in the first thread @throws TimeLimitError */
  run(accountId: string, task: Task, timeMs: number): Promise<Result> {
    return this.#accounts.run(accountId, async () => {
      if (timeMs <= this.#quickMs) return await this.#quick.run(task, timeMs);
      try {
        return await this.#quick.run(task, this.#quickMs);
      } catch (error) {
        if (!(error instanceof TimeLimitError)) throw error;
        return await this.#slow.run(task, timeMs);
      }
    });
  }

  async close(): Promise<void> {
    await Promise.all([this.#quick.close(), this.#slow.close()]);
  }
}

class Thread<Task, Result> {
  readonly #pool: Piscina<Task, Result>;
  /** Tasks wait here and not in the pool, so that their time begins when they do. */
  readonly #turns = new KeyedLocks();

  constructor(file: URL, options: ThreadOptions) {
    this.#pool = singleWorkerPool(file, options);
  }

  run(task: Task, timeMs: number): Promise<Result> {
    return this.#turns.run('', async () => {
      const late = AbortSignal.timeout(timeMs);
      try {
        return await this.#pool.run(task, { signal: late });
      } catch (error) {
        throw late.aborted ? new TimeLimitError(`it took longer than ${timeMs} ms`) : error;
      }
    });
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }
}
