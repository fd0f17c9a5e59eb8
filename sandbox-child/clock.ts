/** The clock of plugins: whole milliseconds, like `Date.now()`. A precise clock would measure the caches of the processor. */

/** Creates `performance`, without what needs a precise clock. */
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
