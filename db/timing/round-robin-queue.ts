/** A round-robin queue: each key, such as an account, is served one item at a time, however many items it has. */
export class RoundRobinQueue<Item> {
  /** By key, in the order in which the keys are served next. */
  readonly #items = new Map<string, { readonly list: Item[]; first: number }>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The keys with items, next one first. */
  get keys(): readonly string[] {
    return [...this.#items.keys()];
  }

  count(key: string): number {
    const items = this.#items.get(key);
    return items ? items.list.length - items.first : 0;
  }

  /** The first item of a key. Default: the next key. */
  peek(key: string | undefined = this.#items.keys().next().value): Item | undefined {
    const items = key === undefined ? undefined : this.#items.get(key);
    return items?.list[items.first];
  }

  push(key: string, item: Item): void {
    const items = this.#items.get(key);
    if (items) items.list.push(item);
    else this.#items.set(key, { list: [item], first: 0 });
    this.#size += 1;
  }

  /** Removes the first item of a key, which is served again after all others. Default: the next key. */
  shift(key: string | undefined = this.#items.keys().next().value): Item | undefined {
    const items = key === undefined ? undefined : this.#items.get(key);
    if (key === undefined || !items) return undefined;
    const item = items.list[items.first];
    items.first += 1;
    this.#size -= 1;
    this.#items.delete(key);
    if (items.first === items.list.length) return item;
    // Not one by one: removing the first element of a long array moves all others.
    if (2 * items.first > items.list.length) {
      items.list.splice(0, items.first);
      items.first = 0;
    }
    this.#items.set(key, items);
    return item;
  }

  /** Removes the items of a key that the filter accepts. */
  remove(key: string, filter: (item: Item) => boolean): Item[] {
    const items = this.#items.get(key);
    if (!items) return [];
    const removed: Item[] = [];
    const kept: Item[] = [];
    // The filter is asked once for each item: its answer may depend on the time, and an item in neither list would be lost.
    for (const item of items.list.slice(items.first)) (filter(item) ? removed : kept).push(item);
    if (removed.length === 0) return removed;
    this.#size -= removed.length;
    if (kept.length === 0) this.#items.delete(key);
    else this.#items.set(key, { list: kept, first: 0 });
    return removed;
  }

  /** Removes all items. */
  clear(): Item[] {
    return this.keys.flatMap((key) => this.remove(key, () => true));
  }
}
