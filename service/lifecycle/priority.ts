/** Priorities of the threads that compete for the processors of one machine. */
import { setPriority } from 'node:os';

/** About three ordinary weights: what a request or a hook costs this thread is short, and everything waits for it. */
const OF_REQUESTS = -5;
/** About half of one: it takes long in any case. */
const OF_BACKGROUND = 3;

/** Raises the priority of the calling thread, if the system permits it: to root, or with CAP_SYS_NICE. */
export const preferThread = (): void => trySetPriority(OF_REQUESTS);

/** Lowers the priority of the calling thread, and of the processes that it starts. */
export const yieldThread = (): void => trySetPriority(OF_BACKGROUND);

/** Without a process id, Linux changes the calling thread only. */
function trySetPriority(priority: number): void {
  try {
    setPriority(priority);
  } catch {
    // Not permitted.
  }
}
