/** A thread for work whose time a text of an account decides: one task of each account at a time, each within its time limit. */
import type { Piscina } from 'piscina';
import { KeyedLocks } from '../../db/timing/keyed-locks.ts';
import { singleWorkerPool, type ThreadOptions } from './single-worker-pool.ts';

/** The task was stopped. */
export class TimeLimitError extends Error {
  override readonly name = 'TimeLimitError';
}

export class BoundedWorker<Task, Result> {
  readonly #thread: Piscina<Task, Result>;
  readonly #accounts = new KeyedLocks();
  /** Tasks wait here and not in the pool, so that their time begins when they do. */
  readonly #turns = new KeyedLocks();

  /** @param file the worker's program */
  constructor(file: URL, options: ThreadOptions) {
    this.#thread = singleWorkerPool(file, options);
  }

  /** @throws TimeLimitError */
  run(accountId: string, task: Task, timeMs: number): Promise<Result> {
    return this.#accounts.run(accountId, () =>
      this.#turns.run('', async () => {
        const late = AbortSignal.timeout(timeMs);
        try {
          return await this.#thread.run(task, { signal: late });
        } catch (error) {
          throw late.aborted ? new TimeLimitError(`it took longer than ${timeMs} ms`) : error;
        }
      }),
    );
  }

  close(): Promise<void> {
    return this.#thread.destroy();
  }
}
