/** Calls of one child: so many at once, so many behind them, no more. */

export interface CallSlots {
  /**
   * Runs `start` now or when it is its turn.
   *
   * @returns false where too many wait; a function that leaves the queue or frees the slot. Safe to call again.
   */
  take(start: () => void): (() => void) | false;
  readonly taken: number;
}

/** Bounds are counts of calls. */
export function makeSlots(inFlight: number, waiting: number): CallSlots {
  const queue = new Set<() => void>();
  let taken = 0;
  const free = (): void => {
    const [next] = queue;
    if (!next) {
      taken -= 1;
      return;
    }
    queue.delete(next);
    next();
  };
  return {
    get taken() {
      return taken;
    },
    take(start) {
      let left = false;
      const leave = (entry: () => void) => () => {
        if (left) return;
        left = true;
        if (!queue.delete(entry)) free();
      };
      const entry = () => start();
      if (taken < inFlight) {
        taken += 1;
        start();
      } else if (queue.size >= waiting) return false;
      else queue.add(entry);
      return leave(entry);
    },
  };
}
