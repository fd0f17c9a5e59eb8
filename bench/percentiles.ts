/** Percentiles of a benchmark's samples. */

/** Returns the value below which the share `p` (0 to 1) of the samples lies. @throws Error without samples: NaN would meet every goal */
export function percentile(samples: readonly number[], p: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const value = sorted[Math.min(Math.floor(sorted.length * p), sorted.length - 1)];
  if (value === undefined) throw new Error('There are no samples to take a percentile of: nothing was measured.');
  return value;
}

export const median = (samples: readonly number[]): number => percentile(samples, 0.5);
