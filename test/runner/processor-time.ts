/** Processor time of this process and of those that it has waited for. Linux only; elsewhere 0. */
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';

/** `/proc` counts in hundredths of a second. */
const TICK_MS = 10;
/** Positions after the process's name: user and system time, of itself and of ended children. */
const [USER_TIME, SYSTEM_TIME, CHILDREN_USER_TIME, CHILDREN_SYSTEM_TIME] = [11, 12, 13, 14];

let earlier = 0;
let ownEarlier = 0;

/** The CPU time that ended children have added since the last call, in milliseconds: the time of a process, called when it has just exited. */
export function readProcessorTime(): number {
  const total = sumFields(CHILDREN_USER_TIME, CHILDREN_SYSTEM_TIME);
  const added = total - earlier;
  earlier = total;
  return added;
}

/** The CPU time of this process and its ended children since the last call. Milliseconds. */
export function readOwnProcessorTime(): number {
  const total = sumFields(USER_TIME, SYSTEM_TIME, CHILDREN_USER_TIME, CHILDREN_SYSTEM_TIME);
  const added = total - ownEarlier;
  ownEarlier = total;
  return added;
}

/** Measures how much of the time of all processors is not used by anybody. */
export class IdleMeter {
  #before = readProcessors();
  #readAt = performance.now();

  /** The idle share since the last reading, from 0 to 1; 0 where that was less than `leastMs` milliseconds ago. */
  readShare(leastMs: number): number {
    if (performance.now() - this.#readAt < leastMs) return 0;
    const before = this.#before;
    this.#before = readProcessors();
    this.#readAt = performance.now();
    return (this.#before.idle - before.idle) / Math.max(this.#before.total - before.total, 1);
  }
}

function readProcessors(): { readonly idle: number; readonly total: number } {
  const times = cpus().map((processor) => processor.times);
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
  return { idle: sum(times.map(({ idle }) => idle)), total: sum(times.flatMap((each) => Object.values(each))) };
}

function sumFields(...positions: readonly number[]): number {
  try {
    const fields = readFileSync('/proc/self/stat', 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ');
    return positions.reduce((sum, at) => sum + Number(fields[at]), 0) * TICK_MS;
  } catch {
    return 0;
  }
}
