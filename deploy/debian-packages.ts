/**
 * Unpacks packages of this machine's Debian or Ubuntu release without installing them, with `fetch-debian.sh`. That is a shell
 * script because `node.sh` runs it before Node can start.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { findProgram } from '../service/settings/search-path.ts';

const SCRIPT = fileURLToPath(new URL('fetch-debian.sh', import.meta.url));
/** Where packages are unpacked if root runs this. */
export const PROJECT_FOLDER = fileURLToPath(new URL('../node_modules/.cache/debian', import.meta.url));

interface FetchOptions {
  /** Receives progress, and one sentence for each package that is not available. */
  onNotice(sentence: string): void;
  /** Its abort stops apt. */
  readonly signal?: AbortSignal;
}

/** Whether this machine has the programs that fetching needs. */
export function canFetchPackages(): boolean {
  return ['sh', 'apt-get', 'dpkg-deb'].every((name) => findProgram(name) !== null);
}

/**
 * Unpacks missing packages. Safe for concurrent processes.
 *
 * @returns the folders of the available packages; `onNotice` gives the reason for all others. None after an abort
 */
export async function fetchPackages(
  folder: string,
  names: readonly string[],
  { onNotice, signal }: FetchOptions,
): Promise<string[]> {
  if (signal?.aborted) return [];
  // A separate process group, so that one signal stops apt-get and its downloaders.
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
 * Unpacks bubblewrap if it is not installed.
 *
 * @returns the folder of the program; null: it is installed, or not available
 */
export async function fetchBubblewrap(dataDir: string, options: FetchOptions): Promise<string | null> {
  if (findProgram('bwrap') !== null || !canFetchPackages()) return null;
  // Children of a supervisor that runs as root have another user id, which cannot read DATA_DIR.
  const folder = process.getuid?.() === 0 ? PROJECT_FOLDER : join(dataDir, 'debian');
  const [found] = await fetchPackages(folder, ['bubblewrap'], options);
  return found === undefined ? null : join(found, 'usr', 'bin');
}

/** Returns the PATH of a supervisor. If bubblewrap is not installed, the folder of the unpacked one is at its end. */
export async function completeSearchPath(dataDir: string, options: FetchOptions): Promise<string> {
  const folder = await fetchBubblewrap(dataDir, options);
  return [process.env.PATH ?? '', ...(folder === null ? [] : [folder])].join(delimiter);
}
