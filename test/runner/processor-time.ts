/** Processor time of this process and of those that it has waited for. Linux only; elsewhere 0. */
import { readFileSync } from 'node:fs';

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
