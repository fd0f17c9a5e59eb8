/** Tunes V8's garbage collector for the supervisor process. */
import { setFlagsFromString } from 'node:v8';

/**
 * How far the heap may grow beyond its live objects before a full collection, percent. By default V8 allows a few
 * megabytes, which log lines on their way to the database fill in a second, and each full collection pauses all hooks for
 * 5 to 20 ms on a busy machine: with four plugins flooding their logs, the p99 of a hook drops from 7.0 ms to 4.7
 * (`bench/neighbours.ts`). The cost: a supervisor with 40 MB of live objects may hold 80 MB of garbage.
 */
const GROWTH_PERCENT = 200;

/** Applies to the whole process from now on. */
export const tuneGc = (): void => setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`);
