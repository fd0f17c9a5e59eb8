/** Loads something at its first use, for all that use it. */

export class LazyLoad<T> {
  readonly #load: () => Promise<T>;
  #loading: Promise<T> | null = null;

  constructor(load: () => Promise<T>) {
    this.#load = load;
  }

  /** Loads it, unless it is loaded or being loaded. After a failure, the next call tries again. */
  get(): Promise<T> {
    this.#loading ??= this.#load().catch((error: unknown) => {
      this.#loading = null;
      throw error;
    });
    return this.#loading;
  }

  /** Waits for a load that is under way. @returns null: it is not loaded */
  async getLoaded(): Promise<T | null> {
    return this.#loading?.catch(() => null) ?? null;
  }
}
