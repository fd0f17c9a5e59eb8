/** Tunes V8's garbage collector for the supervisor process. */
import { setFlagsFromString } from 'node:v8';

/**
 * Heap growth beyond the live objects before a full collection, percent. V8's default is a few megabytes, which log
 * lines on their way to the database fill in a second, and each full collection pauses all hooks for 5 to 20 ms on a
 * busy machine. With four plugins flooding their logs, it reduces the p99 of a hook from 7.0 ms to 4.7
 * (`bench/neighbours.ts`). The cost: a supervisor with 40 MB of live objects may hold 80 MB of garbage.
 */
const GROWTH_PERCENT = 200;

/** Applies to the whole process. */
export const tuneGc = (): void => setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`);
