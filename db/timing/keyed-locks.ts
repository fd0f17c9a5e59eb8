import { addAbortListener } from 'node:events';

/** Runs work with the same key one at a time in this process. */
export class KeyedLocks {
  readonly #last = new Map<string, Promise<unknown>>();

  /**
   * Runs `work` after all earlier work of this key has ended, however it ended.
   *
   * @param signal ends the wait with its reason: `work` does not run then. It does not end `work` that has begun
   */
  async run<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    using waiting = signal && addAbortListener(signal, () => reject(signal.reason));
    const begin = async (): Promise<T> => {
      signal?.throwIfAborted();
      waiting?.[Symbol.dispose]();
      return work();
    };
    const before = this.#last.get(key);
    const running = before ? before.then(begin, begin) : begin();
    this.#last.set(key, running);
    // Not when the caller stops waiting: the work before it may still run, and the next one waits for that.
    const forget = () => {
      if (this.#last.get(key) === running) this.#last.delete(key);
    };
    running.then(forget, forget);
    return await Promise.race([running, aborted]);
  }
}
