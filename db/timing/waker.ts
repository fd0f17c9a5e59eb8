/** Waits for the next call of `wake` or for a timeout. A call of `wake` before the wait ends the wait at once. */
export class Waker {
  #isWoken = false;
  #isClosed = false;
  #resolve: (() => void) | null = null;

  get isClosed(): boolean {
    return this.#isClosed;
  }

  wake(): void {
    this.#isWoken = true;
    this.#resolve?.();
  }

  /** Ends the current wait and every later one immediately. */
  close(): void {
    this.#isClosed = true;
    this.wake();
  }

  /** Resolves when woken, or after `ms`. @returns whether it was woken */
  async wait(ms: number): Promise<boolean> {
    if (!this.#isWoken) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, ms);
      this.#resolve = resolve;
      await promise;
      clearTimeout(timer);
      this.#resolve = null;
    }
    const wasWoken = this.#isWoken;
    this.#isWoken = this.#isClosed;
    return wasWoken;
  }
}
