/** A histogram of durations, from which percentiles are estimated. */

/** Upper bounds of the buckets; a last one counts longer durations. Stored by position: never change. Milliseconds. */
const DURATION_BOUNDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000] as const;

export const createEmptyHistogram = (): number[] => new Array<number>(DURATION_BOUNDS.length + 1).fill(0);

/** Adds up the column `buckets` of a group, bucket by bucket. Without `unnest`, which makes a row of every bucket. */
export const SUM_BUCKETS_SQL = `ARRAY[${createEmptyHistogram()
  .map((_, index) => `coalesce(sum(buckets[${index + 1}]), 0)::float8`)
  .join(', ')}]`;

export function findBucket(ms: number): number {
  const found = DURATION_BOUNDS.findIndex((bound) => ms <= bound);
  return found === -1 ? DURATION_BOUNDS.length : found;
}

/** Estimates a percentile by interpolation within its bucket. Longer durations than the last bound count as that bound. Null: no calls. */
export function estimatePercentile(counts: readonly number[] | null, share: number): number | null {
  const total = counts?.reduce((sum, count) => sum + count, 0) ?? 0;
  if (counts === null || total === 0) return null;
  let below = 0;
  for (const [index, count] of counts.entries()) {
    if (count > 0 && below + count >= share * total) {
      const from = DURATION_BOUNDS[index - 1] ?? 0;
      const to = DURATION_BOUNDS[index] ?? from;
      return Math.round((from + (to - from) * ((share * total - below) / count)) * 100) / 100;
    }
    below += count;
  }
  return DURATION_BOUNDS.at(-1) ?? null;
}
