/**
 * Runs tasks whose duration depends on an account's input, such as the decryption of a key, in worker threads with a time limit. An
 * account runs one task at a time. A task that exceeds `QUICK_MS` is stopped and starts again in a second thread, so that quick tasks
 * of other accounts wait only briefly.
 */
import type { Piscina } from 'piscina';
import { KeyedLocks } from '../../db/timing/keyed-locks.ts';
import { singleWorkerPool, type ThreadOptions } from './single-worker-pool.ts';

/** Time limit in the first thread. Ordinary tasks take milliseconds; on a busy machine and in a new thread, a second. Milliseconds. */
const QUICK_MS = 2_000;

/** The task was stopped, because it exceeded its time limit. */
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

  /** @param timeMs the task's time limit in the second thread, or in the first one if it is at most `QUICK_MS` @throws TimeLimitError */
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
  /** Tasks wait here and not in the pool, so that the time limit of a task starts with the task. */
  readonly #queue = new KeyedLocks();

  constructor(file: URL, options: ThreadOptions) {
    this.#pool = singleWorkerPool(file, options);
  }

  run(task: Task, timeMs: number): Promise<Result> {
    return this.#queue.run('', async () => {
      const timeout = AbortSignal.timeout(timeMs);
      try {
        return await this.#pool.run(task, { signal: timeout });
      } catch (error) {
        throw timeout.aborted ? new TimeLimitError(`it took longer than ${timeMs} ms`) : error;
      }
    });
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }
}
