/** Decides how long to wait before a process that ended is restarted. */

/** Delay after the first crash. Short, because a single crash may be an accident. Milliseconds. */
const FIRST_MS = 250;
/**
 * Longest delay. A process that cannot start must not keep a core busy with its attempts, and deliveries must not wait long for a
 * process that is killed repeatedly. Milliseconds.
 */
const LONGEST_MS = 5_000;
/** After running this long, a process counts as healthy, and its next crash as the first. Milliseconds. */
export const LONG_RUN_MS = 10_000;

/**
 * @param failures crashes in a row, this one included
 * @returns milliseconds
 */
export function computeBackoff(failures: number): number {
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.max(0, failures - 1));
}
