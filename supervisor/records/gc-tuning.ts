/** How the supervisor's own heap grows. */
import { setFlagsFromString } from 'node:v8';

/**
 * How far the heap may grow beyond what lives in it before all of it is looked through, percent. V8 would let it grow by a
 * few megabytes, which log lines on their way to the database fill in a second, and each look stops every hook for 5 to
 * 20 ms on a busy machine: beside four floods of log lines the p99 of a hook was 7.0 ms, and is 4.7 (`bench/neighbours.ts`).
 * In exchange a supervisor of 40 MB may hold up to 80 MB of garbage.
 */
const GROWTH_PERCENT = 200;

/** For this process, from now on. */
export const growHeap = (): void => setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`);
