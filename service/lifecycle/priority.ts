/**
 * Priorities of the threads that compete for the processors of one machine. Outside control groups Linux gives every session
 * the same CPU time ("autogroups", sched(7)): a thread's priority counts inside its session only, and sessions have one of their
 * own. So eight plugins, each a session, had eight times the CPU time of the supervisor, whatever the supervisor's priority.
 */
import { writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { readProcessStat } from './process-stat.ts';

/** About three ordinary weights: what a request or a hook costs this thread is short, and everything waits for it. */
const OF_REQUESTS = -5;
/** About half of one: it takes long in any case. */
const OF_BACKGROUND = 3;
/** Without CAP_SYS_ADMIN, the kernel accepts one change of a session in this time on the whole machine. Milliseconds. */
export const SESSION_CHANGE_MS = 100;

/**
 * Raises the priority of the calling thread, if the system permits it: to root, or with CAP_SYS_NICE. So does that of the
 * process's session, if no other process created it: `npm start` and service managers give each process its own.
 */
export function preferThread(): void {
  trySetPriority(OF_REQUESTS);
  preferSession();
}

function preferSession(): void {
  try {
    if (readProcessStat(process.pid)?.session === process.pid) setSessionPriority(process.pid, OF_REQUESTS);
  } catch (error) {
    // Anything else: not permitted, or a kernel without priorities of sessions.
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') setTimeout(preferSession, SESSION_CHANGE_MS).unref();
  }
}

/** Lowers the priority of the calling thread, and of the processes that it starts. */
export const yieldThread = (): void => trySetPriority(OF_BACKGROUND);

/**
 * Sets the priority of the session of a process. Has no effect on members of control groups.
 *
 * @throws Error with code `EAGAIN` without CAP_SYS_ADMIN within 100 ms of anybody's last change on this machine
 */
export const setSessionPriority = (pid: number, priority: number): void =>
  writeFileSync(`/proc/${pid}/autogroup`, String(priority), { flag: 'r+' });

/** Without a process id, Linux changes the calling thread only. */
function trySetPriority(priority: number): void {
  try {
    setPriority(priority);
  } catch {
    // Not permitted.
  }
}
