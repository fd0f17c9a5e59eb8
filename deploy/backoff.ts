/** Decides how long to wait before a process that ended is restarted. */

/** Delay after the first crash: short, because a single crash may be accidental. Milliseconds. */
const FIRST_MS = 250;
/**
 * Maximum delay: long enough that a process that cannot start does not keep a core busy, short enough that deliveries
 * do not wait long for one that is killed repeatedly. Milliseconds.
 */
const LONGEST_MS = 5_000;
/** After running this long, a process counts as healthy, and its next crash as the first. Milliseconds. */
export const LONG_RUN_MS = 10_000;

/**
 * @param failures crashes in a row, the first one being 1
 * @returns milliseconds
 */
export function computeBackoff(failures: number): number {
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.max(0, failures - 1));
}
