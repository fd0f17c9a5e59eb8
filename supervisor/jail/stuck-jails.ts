/**
 * A supervisor that is killed while bubblewrap builds a jail leaves the inner bubblewrap waiting for ever: it has not yet
 * asked to end with its parent, and no plugin code is in it. Found at the next start and ended.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';

const MARK = 'BULKHEAD_JAIL';
const MARK_CHARS = 32;
/** Who has lost his parent belongs to the first process. */
const FIRST_PROCESS = 1;

/** `bwrap` arguments that say whose jail it is and change nothing: set and unset inside. */
export function jailMark(directory: string): string[] {
  return ['--setenv', MARK, markOf(directory), '--unsetenv', MARK];
}

const markOf = (directory: string): string =>
  createHash('sha256').update(resolve(directory)).digest('hex').slice(0, MARK_CHARS);

/** Ends what killed supervisors of this directory left half built. @returns how many there were */
export function sweepStuckJails(directory: string): number {
  // The first process of a container has children of its own there, and nobody's orphans from before it.
  if (process.pid === FIRST_PROCESS) return 0;
  const mark = `${MARK}\0${markOf(directory)}\0`;
  let ended = 0;
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid <= FIRST_PROCESS || !isOrphanedBubblewrap(pid)) continue;
    if (!read(pid, 'cmdline').includes(mark)) continue;
    try {
      process.kill(pid, 'SIGKILL');
      ended += 1;
    } catch {
      // Gone by itself, or another user's, whose supervisor sweeps it.
    }
  }
  return ended;
}

function isOrphanedBubblewrap(pid: number): boolean {
  const stat = read(pid, 'stat');
  const [, comm, rest = ''] = /^\d+ \((.*)\) (.*)$/s.exec(stat) ?? [];
  // Once it has become Node it has asked to end with its parent.
  return comm === 'bwrap' && Number(rest.split(' ')[1]) === FIRST_PROCESS;
}

function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return '';
  }
}
