/**
 * Kills jails that were left half built. If a supervisor is killed while bubblewrap builds a jail, the inner bubblewrap waits
 * forever, because it has not yet set its parent-death signal. It contains no plugin code.
 */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { readProcessStat } from '../../service/lifecycle/process-stat.ts';
import { listFolder } from './list-folder.ts';

const MARK = 'BULKHEAD_JAIL';
const MARK_CHARS = 32;
/** Orphans become children of process 1. */
const FIRST_PROCESS = 1;

/** `bwrap` arguments that mark the jail's owner. They have no effect inside: the variable is set and unset. */
export function jailMark(directory: string): string[] {
  return ['--setenv', MARK, hashDirectory(directory), '--unsetenv', MARK];
}

const hashDirectory = (directory: string): string => hash('sha256', resolve(directory)).slice(0, MARK_CHARS);

/** Kills the half-built jails of killed supervisors of this directory. @returns how many there were */
export function sweepStuckJails(directory: string): number {
  // If this is process 1 of a container, its own bubblewraps would look like orphans, and no older ones can exist.
  if (process.pid === FIRST_PROCESS) return 0;
  const mark = `${MARK}\0${hashDirectory(directory)}\0`;
  let ended = 0;
  for (const name of listFolder('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid <= FIRST_PROCESS || !isOrphanedBubblewrap(pid)) continue;
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(mark)) continue;
      process.kill(pid, 'SIGKILL');
      ended += 1;
    } catch {
      // It has exited, or belongs to another user, whose supervisor kills it.
    }
  }
  return ended;
}

function isOrphanedBubblewrap(pid: number): boolean {
  const stat = readProcessStat(pid);
  // Once it has become Node, its parent-death signal is set.
  return stat?.name === 'bwrap' && stat.parent === FIRST_PROCESS;
}
