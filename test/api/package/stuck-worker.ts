/** In place of bundler-worker.ts: a thread that never ends the build of an account in the first threads. */
import type { BuildResult, BuildTask } from '../../../api/package/bundler-worker.ts';

/** The name of a file that the build is stuck at. */
export const STUCK_AT = 'stuck.ts';
/** The time limit of the builds that are stuck. Milliseconds. */
export const QUICK_MS = 250;

export async function build({ files, timeMs }: BuildTask): Promise<BuildResult> {
  // The event loop of the thread stops. A loop would take a processor until the bundler ends the thread.
  if (STUCK_AT in files && timeMs === QUICK_MS) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  return { outcome: 'built', bundle: `built with ${timeMs} ms`, sourceMap: '{}', warnings: [] };
}
