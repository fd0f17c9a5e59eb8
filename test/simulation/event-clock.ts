/** A clock that jumps from one planned event to the next. */

interface Planned {
  readonly at: number;
  /** Orders events of one moment by when they were planned. */
  readonly order: number;
  run(): void;
}

const isBefore = (one: Planned, other: Planned): boolean =>
  one.at < other.at || (one.at === other.at && one.order < other.order);

export class EventClock {
  /** Milliseconds since the start. */
  now = 0;
  #planned = 0;
  /** A binary heap, the next event first. */
  readonly #heap: Planned[] = [];

  after(ms: number, run: () => void): void {
    this.#planned += 1;
    this.#push({ at: this.now + Math.max(0, ms), order: this.#planned, run });
  }

  /** @returns false: nothing is planned until then */
  step(until: number): boolean {
    const next = this.#heap[0];
    if (next === undefined || next.at > until) return false;
    this.#removeFirst();
    this.now = next.at;
    next.run();
    return true;
  }

  runUntil(until: number): void {
    while (this.step(until));
    this.now = until;
  }

  #push(event: Planned): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent] as Planned;
      if (!isBefore(event, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = event;
  }

  #removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      const right = heap[child + 1];
      if (right !== undefined && isBefore(right, heap[child] as Planned)) child += 1;
      const below = heap[child];
      if (below === undefined || !isBefore(below, last)) break;
      heap[at] = below;
      at = child;
    }
    heap[at] = last;
  }
}
