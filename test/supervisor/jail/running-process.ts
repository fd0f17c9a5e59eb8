import { readFileSync } from 'node:fs';

/** Whether a process exists and is not a zombie: process 1, which reaps orphans, may be slow. */
export function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'));
  } catch {
    return false;
  }
}
