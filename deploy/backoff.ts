/** How long to wait before something that ended is started again. */

/** The first crash may be chance: the user should hardly notice it, milliseconds. */
const FIRST_MS = 250;
/**
 * A process that cannot start must not keep a core busy; one that is killed again and again must not be away for long, for
 * what is delivered waits with it. Milliseconds.
 */
const LONGEST_MS = 5_000;
/**
 * Whoever ran for so long is healthy, and its next crash counts as the first: starting it again costs little against what
 * it does in that time, and what is delivered waits for it. Milliseconds.
 */
export const LONG_RUN_MS = 10_000;

/**
 * @param failures crashes in a row, the first one being 1
 * @returns milliseconds
 */
export function backoff(failures: number): number {
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.max(0, failures - 1));
}
