/** Runs work with the same key one at a time in this process. */
export class KeyedLocks {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs `work` after all earlier work of this key has ended, however it ended. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const running = before ? before.then(work, work) : work();
    this.#last.set(key, running);
    try {
      return await running;
    } finally {
      if (this.#last.get(key) === running) this.#last.delete(key);
    }
  }
}
