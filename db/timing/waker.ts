/** Waits for the next call of `wake` or for a time-out. A call before the wait is not lost. */
export class Waker {
  #woken = false;
  #closed = false;
  #resolve: (() => void) | null = null;

  get closed(): boolean {
    return this.#closed;
  }

  wake(): void {
    this.#woken = true;
    this.#resolve?.();
  }

  /** Ends the current wait and every later one immediately. */
  close(): void {
    this.#closed = true;
    this.wake();
  }

  /** Resolves when woken, or after `ms`. @returns whether it was woken */
  async wait(ms: number): Promise<boolean> {
    if (!this.#woken) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, ms);
      this.#resolve = resolve;
      await promise;
      clearTimeout(timer);
      this.#resolve = null;
    }
    const isWoken = this.#woken;
    this.#woken = this.#closed;
    return isWoken;
  }
}
