/** Adds up amounts by key, such as running calls by installation or waiting bytes by account. */
export class AmountsByKey {
  readonly #amounts = new Map<string, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  /** Number of keys that have an amount. */
  get size(): number {
    return this.#amounts.size;
  }

  get(key: string): number {
    return this.#amounts.get(key) ?? 0;
  }

  add(key: string, amount = 1): void {
    this.#total += amount;
    const sum = this.get(key) + amount;
    if (sum > 0) this.#amounts.set(key, sum);
    else this.#amounts.delete(key);
  }

  subtract(key: string, amount = 1): void {
    this.add(key, -amount);
  }

  /** Counts one for the key while `work` runs. */
  async during<T>(key: string, work: () => Promise<T>): Promise<T> {
    this.add(key);
    try {
      return await work();
    } finally {
      this.subtract(key);
    }
  }
}
