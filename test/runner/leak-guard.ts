/**
 * Importing this file makes the test file fail when, after its last teardown, it still has a timer, socket or worker, a
 * child process or a temporary folder. `npm test` puts it in front of every file; the harness imports it too.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread } from 'node:worker_threads';
import { replaceDomains } from './error-domain.ts';

/** Sockets and processes take a moment to close after their close call has resolved, on a busy machine a long one. Milliseconds. */
const GRACE_MS = 30_000;
const POLL_MS = 25;
/** The process that starts jails, as the kernel shortens its name. Without a child it ends a moment later, or with this one. */
const SPAWNER = 'bulkhead-spawner'.slice(0, 15);
/** Resources that are left open would keep the process alive for ever: it is ended this long after its report. Milliseconds. */
const REPORT_MS = 1_000;

// Threads inherit `--import`, and are no test files: a second tap would end them as hung after a while.
const tap = isMainThread ? await loadTap() : null;
// With what tap itself holds open.
const before = process.getActiveResourcesInfo();
const folders = new Set<string>();
// Teardowns run last registered first: this one, registered at import, is the very last.
tap?.teardown(refuseLeaks);

/**
 * The outermost test of this process, for what its files share. Programs that measure use fixtures, too: a static import of tap there would
 * load its hooks, which see every promise, and take a tenth of the time of a service in that process.
 */
export function getRootTest() {
  if (tap === null) throw new Error('a thread has no tests');
  return tap;
}

async function loadTap() {
  const stop = replaceDomains();
  const { default: tap } = await import('tap');
  stop();
  // tap would end a file after 30 s. The runner ends those that hang, and programs that measure take minutes.
  tap.setTimeout(0);
  return tap;
}

async function refuseLeaks(): Promise<void> {
  for (let waited = 0; waited < GRACE_MS && leftBehind().length > 0; waited += POLL_MS) await sleep(POLL_MS);
  const found = leftBehind();
  if (found.length === 0) return;
  setTimeout(() => process.exit(1), REPORT_MS).unref();
  throw new Error(`left behind: ${found.join(', ')}`);
}

/** Tells the guard of a temporary folder. @returns a function to call when it is gone */
export function watchFolder(path: string): () => void {
  folders.add(path);
  return () => folders.delete(path);
}

function leftBehind(): string[] {
  const resources = process.getActiveResourcesInfo();
  for (const known of before) {
    const at = resources.indexOf(known);
    if (at >= 0) resources.splice(at, 1);
  }
  return [
    ...resources,
    ...children().map((child) => `process ${child}`),
    ...[...folders].map((path) => `folder ${path}`),
  ];
}

/** Direct children of this process that still run. Linux only. */
function children(): string[] {
  const parent = String(process.pid);
  return listCandidates().flatMap((pid) => {
    try {
      // The name stands in brackets and may hold anything; state and parent follow it.
      const [, name, state, ppid] = /^\d+ \((.*)\) (\S) (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
      const isLeft = ppid === parent && state !== 'Z' && !(name === SPAWNER && listChildren(pid)?.length === 0);
      return isLeft ? [`${pid} (${name})`] : [];
    } catch {
      return [];
    }
  });
}

/** Ids of this process's children; of all processes where the kernel does not list a process's children. */
export const listCandidates = (): string[] => listChildren('self') ?? listNumbers('/proc');

/** Ids of the processes that a process has started; null where the kernel does not list them. */
function listChildren(pid: string): string[] | null {
  try {
    const lists = listNumbers(`/proc/${pid}/task`).map((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8'),
    );
    return lists.join(' ').split(' ').filter(Boolean);
  } catch {
    return null;
  }
}

function listNumbers(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}
