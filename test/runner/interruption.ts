/** Ends a run at Ctrl-C and at SIGTERM, with all that it has started. */
import { processTree, stillRunning } from '../deploy/process-tree.ts';
import { INTERRUPTED_GRACE_MS, signalAll } from './strays.ts';

/**
 * Ends this process at the first SIGINT or SIGTERM, which may reach it alone, as when a CI cancels a job.
 *
 * @param prepared resolves with what must be removed before the end; rejects if it is removed already
 * @returns a signal that aborts when the run ends
 */
export function endOnSignals(prepared: Promise<{ end(graceMs: number): Promise<unknown> }>): AbortSignal {
  const interrupted = new AbortController();
  const end = async (): Promise<void> => {
    interrupted.abort();
    const run = await prepared.catch(() => null);
    const below = (await processTree(process.pid)).filter(({ pid }) => pid !== process.pid);
    signalAll(below, 'SIGINT');
    await run?.end(INTERRUPTED_GRACE_MS);
    signalAll(await stillRunning(below), 'SIGKILL');
    process.exit(1);
  };
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => void end());
  return interrupted.signal;
}
