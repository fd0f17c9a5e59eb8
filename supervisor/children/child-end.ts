/** How a child ended, in words. */
import type { ExitInfo } from '../jail/boxed-process.ts';

export interface ChildEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** One sentence for the log and the console. */
  readonly reason: string;
  /** Somebody here ended it; false: it ended itself, or the kernel did. */
  readonly asked: boolean;
  readonly outOfMemory: boolean;
  /** Killed by neither us nor its own limits: by somebody on the machine, or by a kernel that is short of memory. */
  readonly interrupted: boolean;
  /** Every process is verified gone. */
  readonly gone: boolean;
  /** The last 8 kB of stderr. */
  readonly stderr: string;
  readonly ranMs: number;
}

/** What V8 says when the heap cap is reached. */
const HEAP_FULL = /JavaScript heap out of memory|Reached heap limit|allocation failed/i;

/** Puts an exit into words. `why`: the reason of who ended it, null where nobody did. */
export function describeEnd(
  exit: ExitInfo,
  { why, stderr, ranMs }: { why: string | null; stderr: string; ranMs: number },
): ChildEnd {
  const outOfMemory = why === null && (exit.outOfMemory || HEAP_FULL.test(stderr));
  const how = exit.signal === null ? `ended with code ${exit.code ?? 'unknown'}` : `was ended by ${exit.signal}`;
  const reason = why ?? (outOfMemory ? 'it used more memory than it may' : `it ${how}`);
  const interrupted = why === null && !outOfMemory && exit.signal === 'SIGKILL';
  return { ...exit, outOfMemory, reason, asked: why !== null, interrupted, stderr, ranMs };
}
