/** Describes how a child ended. */
import type { ExitInfo } from '../jail/watched-process.ts';

export interface ChildEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** One sentence for the log and the console. */
  readonly reason: string;
  /** Whether the supervisor ended it. False: the process exited or was killed by the kernel or another process. */
  readonly requested: boolean;
  readonly outOfMemory: boolean;
  /** Killed from outside: by another process on the machine, or by the kernel when the machine is out of memory. */
  readonly interrupted: boolean;
  /** Whether every process of the jail is verified gone. */
  readonly gone: boolean;
  /** The last 8 kB of stderr. */
  readonly stderr: string;
  readonly ranMs: number;
}

/** V8's messages when the heap cap is reached. */
const HEAP_FULL = /JavaScript heap out of memory|Reached heap limit|allocation failed/i;

const ACCOUNT_EXCEEDED = 'the plugins of its account together exceeded their memory limit, and it used the most';

const VIOLATION = 'it broke the protocol: ';
/** The reason of ending a child through no fault of the plugin: the calls that still run in it are interrupted. */
export const STOPPED = 'it was stopped';
/** The reason of ending a child that violated the protocol. */
export const describeViolation = (reason: string): string => `${VIOLATION}${reason}`;

/**
 * A child that runs out of memory is late first, so its memory is the reason also when the supervisor ended it. A violation of
 * the protocol stays the reason: the child that broke it chose the text of its stderr, too.
 *
 * @param why the supervisor's reason for ending the child; null if it did not
 */
export function describeEnd(
  exit: ExitInfo,
  { why, stderr, ranMs }: { why: string | null; stderr: string; ranMs: number },
): ChildEnd {
  const isViolation = why?.startsWith(VIOLATION) === true;
  const outOfMemory = !isViolation && (exit.outOfMemory || HEAP_FULL.test(stderr));
  const how = exit.signal === null ? `ended with code ${exit.code ?? 'unknown'}` : `was ended by ${exit.signal}`;
  const exceeded = exit.accountOutOfMemory ? ACCOUNT_EXCEEDED : 'it exceeded its memory limit';
  const reason = outOfMemory ? exceeded : (why ?? `it ${how}`);
  const interrupted = why === null && !outOfMemory && exit.signal === 'SIGKILL';
  return { ...exit, outOfMemory, reason, requested: why !== null, interrupted, stderr, ranMs };
}
