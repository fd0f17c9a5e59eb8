/** The clock of plugins: whole milliseconds, like `Date.now()`. A precise clock would measure the caches of the processor. */

/** `performance` with what a coarse clock can say. */
export function createPerformance(): object {
  const timeOrigin = Date.now();
  let last = 0;
  return {
    timeOrigin,
    /** Never goes back, unlike the clock of the machine. */
    now: (): number => {
      last = Math.max(last, Date.now() - timeOrigin);
      return last;
    },
    toJSON: () => ({ timeOrigin }),
  };
}
