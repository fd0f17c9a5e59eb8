/** Waits until API and supervisor processes of an `npm start` that was killed have ended. */
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { findProcesses } from '../db/postgres/orphaned-servers.ts';
import { STOP_TIMEOUT_MS } from '../service/lifecycle/parent.ts';

/** Longer than a drain on a busy machine: the services start to drain as soon as their parent is gone. Milliseconds. */
const END_TIMEOUT_MS = STOP_TIMEOUT_MS + 30_000;
const POLL_MS = 100;
const MAINS = ['api', 'supervisor'].map((name) => fileURLToPath(new URL(`../${name}/main.ts`, import.meta.url)));

/**
 * Orphans hold the ports until they have drained, so a start right after a kill waits for them.
 *
 * @param onNotice called with one sentence if there are any
 * @throws Error with one sentence when they do not end in time
 */
export async function waitForOrphans(
  dataDir: string,
  onNotice: (sentence: string) => void,
  signal: AbortSignal,
): Promise<void> {
  let orphans = await findOrphans(dataDir);
  if (orphans.length === 0) return;
  onNotice('waiting for the processes of a killed npm start to end');
  for (const until = performance.now() + END_TIMEOUT_MS; orphans.length > 0 && !signal.aborted; ) {
    if (performance.now() > until)
      throw new Error(
        `Processes of a killed npm start still run (process ids ${orphans.join(', ')}). End them, then start again.`,
      );
    await sleep(POLL_MS);
    orphans = await findOrphans(dataDir);
  }
}

const findOrphans = (dataDir: string): Promise<number[]> => findProcesses((pid) => isOrphan(pid, dataDir));

/** Whether it is an API or a supervisor with this DATA_DIR whose parent is not an `npm start`. */
async function isOrphan(pid: string, dataDir: string): Promise<boolean> {
  const words = await readWords(`/proc/${pid}/cmdline`);
  if (!MAINS.some((main) => words.includes(main))) return false;
  const environment = await readWords(`/proc/${pid}/environ`);
  if (!environment.includes(`DATA_DIR=${dataDir}`) || !environment.some((word) => word.startsWith('LISTEN_FDS=')))
    return false;
  const parent = /^PPid:\s+(\d+)/m.exec(await readText(`/proc/${pid}/status`))?.[1];
  const parentWords = await readWords(`/proc/${parent}/cmdline`);
  return !parentWords.some((word) => word.endsWith('deploy/local.ts'));
}

const readWords = async (path: string): Promise<string[]> => (await readText(path)).split('\0');
/** Empty when the process has exited or belongs to another user. */
const readText = (path: string): Promise<string> => readFile(path, 'utf8').catch(() => '');
