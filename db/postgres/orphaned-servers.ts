/** PostgreSQL processes that outlived a killed service. */
import { existsSync } from 'node:fs';
import { readdir, readFile, readlink, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Politely, then at once, then by force; each with the time it is given, milliseconds. */
const ladder = [
  ['SIGINT', 30_000],
  ['SIGQUIT', 10_000],
  ['SIGKILL', 5_000],
] as const;
const POLL_MS = 50;

/**
 * Ends every PostgreSQL process still at work in a cluster, then removes its stale pid file. PostgreSQL itself would
 * refuse to start while the number in that file is alive, even as another program's. Only call it holding the
 * DATA_DIR lock: then every such process is an orphan.
 *
 * @param cluster PostgreSQL's data directory
 */
export async function stopOrphans(cluster: string): Promise<void> {
  // Without /proc nothing is known about other processes: PostgreSQL's own, more timid check has to do.
  if (!existsSync('/proc/self/cwd') || !existsSync(cluster)) return;
  const real = await realpath(cluster);
  for (const [signal, patience] of ladder) {
    const orphans = await processesIn(real);
    if (orphans.length === 0) break;
    for (const pid of orphans) sendSignal(pid, signal);
    for (let waited = 0; waited < patience && (await processesIn(real)).length > 0; waited += POLL_MS) {
      await sleep(POLL_MS);
    }
  }
  await rm(join(real, 'postmaster.pid'), { force: true });
}

/** PostgreSQL makes the cluster its working directory, which no other program has reason to. */
async function processesIn(cluster: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(pids.map(async (pid) => ((await worksIn(pid, cluster)) ? Number(pid) : null)));
  return found.filter((pid) => pid !== null);
}

async function worksIn(pid: string, cluster: string): Promise<boolean> {
  try {
    return (
      (await readlink(`/proc/${pid}/cwd`)) === cluster && /postgres/.test(await readFile(`/proc/${pid}/comm`, 'utf8'))
    );
  } catch {
    // Gone, or another user's. A postmaster under another user id (see the launcher) still shows its command line.
    const words = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    return /\/postgres\0-D\0/.test(words) && words.includes(`\0${cluster}\0`);
  }
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended between the look and the signal.
  }
}
