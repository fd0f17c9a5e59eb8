/** Ends the processes that a run leaves: they have left its process tree, where no file's leak guard sees them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { processesNaming, type Seen } from '../deploy/process-tree.ts';

/** A service that a test has stopped takes a moment to end. Milliseconds. */
const GRACE_MS = 10_000;
/** The same of an interrupted run, whose user waits. Milliseconds. */
export const INTERRUPTED_GRACE_MS = 2_000;
const POLL_MS = 100;
/** Orphans become children of process 1. */
const FIRST_PROCESS = 1;

/**
 * @param folder where all processes of the run keep their files
 * @param checkout whose Node runs in the jails of the run
 * @returns the processes that had to be ended
 */
export async function endStrays(folder: string, checkout: string, graceMs = GRACE_MS): Promise<Seen[]> {
  // A jail that was half built when its supervisor was killed waits for ever. Its next supervisor would end it: `stuck-jails.ts`.
  const jails = (await processesNaming(checkout)).filter(
    ({ parent, command }) => parent === FIRST_PROCESS && /^\S*bwrap /.test(command),
  );
  signalAll(jails, 'SIGKILL');
  let strays = await processesNaming(folder);
  for (let waited = 0; waited < graceMs && strays.length > 0; waited += POLL_MS) {
    await sleep(POLL_MS);
    strays = await processesNaming(folder);
  }
  signalAll(strays, 'SIGKILL');
  return strays;
}

/** Those that have ended meanwhile get none. */
export function signalAll(processes: readonly Seen[], signal: NodeJS.Signals): void {
  for (const { pid } of processes)
    try {
      process.kill(pid, signal);
    } catch {
      // It has ended.
    }
}
