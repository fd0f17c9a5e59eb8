/** Reads what the kernel says about a process, proc_pid_stat(5). */
import { readFileSync } from 'node:fs';

/** Unit of CPU times in /proc on every kernel, whatever its own tick rate. */
const TICK_MS = 10;

interface ProcessStat {
  /** Of the executable, at most 15 characters. */
  readonly name: string;
  /** `R`, `S`, `D`, …; `Z` is a zombie, `X` a process that is being removed. */
  readonly state: string;
  /** Process id of the parent. */
  readonly parent: number;
  /** Id of the session, which is the id of the process that created it. */
  readonly session: number;
  /** Ticks since the machine started. With the process id it identifies the process. */
  readonly startTicks: string;
  /** CPU time of all threads. */
  readonly processorMs: number;
  /** CPU time of the children that have ended and were waited for. */
  readonly childrenProcessorMs: number;
}

/** Null if the process has exited, or belongs to another user and is hidden. */
export function readProcessStat(pid: number): ProcessStat | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name in parentheses may itself contain spaces and parentheses.
    const nameEnd = text.lastIndexOf(')');
    const fields = text.slice(nameEnd + 2).split(' ');
    return {
      name: text.slice(text.indexOf('(') + 1, nameEnd),
      state: fields[0] ?? '',
      parent: Number(fields[1]),
      session: Number(fields[3]),
      startTicks: fields[19] ?? '',
      processorMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS,
      childrenProcessorMs: (Number(fields[13]) + Number(fields[14])) * TICK_MS,
    };
  } catch {
    return null;
  }
}
