/**
 * Packages of this machine's Debian or Ubuntu release, unpacked without installing them. The work is done by
 * `fetch-debian.sh`, a shell script because `node.sh` needs it where Node cannot start yet.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { findProgram } from '../service/settings/search-path.ts';

const SCRIPT = fileURLToPath(new URL('fetch-debian.sh', import.meta.url));
/** Where root keeps them. */
export const PROJECT_FOLDER = fileURLToPath(new URL('../node_modules/.cache/debian', import.meta.url));

interface FetchOptions {
  /** Receives progress, and one sentence for each package that cannot be had. */
  onNotice(sentence: string): void;
  /** Ends apt. */
  readonly signal?: AbortSignal;
}

/** Whether this machine has the programs that fetching takes. */
export function canFetchPackages(): boolean {
  return ['sh', 'apt-get', 'dpkg-deb'].every((name) => findProgram(name) !== null);
}

/**
 * Unpacks packages that are not there yet. Any number of processes may do so at once.
 *
 * @returns the folders of the packages that are there then; of those that are not, `onNotice` says why
 */
export async function fetchPackages(
  folder: string,
  names: readonly string[],
  { onNotice, signal }: FetchOptions,
): Promise<string[]> {
  // A process group of its own, so that one signal ends apt-get and its downloaders.
  const child = spawn('sh', [SCRIPT, folder, ...names], { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const stop = (): void => {
    if (child.pid && child.exitCode === null && child.signalCode === null) process.kill(-child.pid, 'SIGTERM');
  };
  signal?.addEventListener('abort', stop);
  createInterface({ input: child.stderr }).on('line', onNotice);
  try {
    const [printed] = await Promise.all([text(child.stdout), once(child, 'close')]);
    return printed.split('\n').filter((folder) => folder !== '');
  } catch (error) {
    onNotice(`Cannot fetch packages: ${error instanceof Error ? error.message : String(error)}.`);
    return [];
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}

/**
 * Gets bubblewrap where it is not installed.
 *
 * @returns the folder of the program; null where it is installed, or cannot be had
 */
export async function fetchBubblewrap(dataDir: string, options: FetchOptions): Promise<string | null> {
  if (findProgram('bwrap') !== null || !canFetchPackages()) return null;
  // The children of a supervisor that runs as root are started as a user of their own, whom DATA_DIR keeps out.
  const folder = process.getuid?.() === 0 ? PROJECT_FOLDER : join(dataDir, 'debian');
  const [found] = await fetchPackages(folder, ['bubblewrap'], options);
  return found === undefined ? null : join(found, 'usr', 'bin');
}
