/** Stops PostgreSQL processes that outlived a killed service. */
import { existsSync } from 'node:fs';
import { readdir, readFile, readlink, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Signals in order, each with the time that the server has to stop. Milliseconds. */
const stopSignals = [
  ['SIGINT', 30_000],
  ['SIGQUIT', 10_000],
  ['SIGKILL', 5_000],
] as const;
const POLL_MS = 50;

/**
 * Stops every PostgreSQL process that still runs in a cluster, then removes its stale pid file: PostgreSQL refuses to
 * start while a process of that id exists, even if it is another program. Call it only while holding the DATA_DIR lock,
 * which makes every such process an orphan.
 *
 * @param cluster PostgreSQL's data directory
 */
export async function stopOrphans(cluster: string): Promise<void> {
  // Without /proc (macOS), only PostgreSQL's own check of the pid file remains.
  if (!existsSync('/proc/self/cwd') || !existsSync(cluster)) return;
  const real = await realpath(cluster);
  for (const [signal, timeoutMs] of stopSignals) {
    const orphans = await findServers(real);
    if (orphans.length === 0) break;
    for (const pid of orphans) sendSignal(pid, signal);
    for (let waited = 0; waited < timeoutMs && (await findServers(real)).length > 0; waited += POLL_MS) {
      await sleep(POLL_MS);
    }
  }
  await rm(join(real, 'postmaster.pid'), { force: true });
}

const findServers = (cluster: string): Promise<number[]> => findProcesses((pid) => runsIn(pid, cluster));

/** Finds processes of this machine. Without /proc (macOS), none is found. */
export async function findProcesses(isWanted: (pid: string) => Promise<boolean>): Promise<number[]> {
  const names = await readdir('/proc').catch(() => []);
  const pids = names.filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(pids.map(async (pid) => ((await isWanted(pid)) ? Number(pid) : null)));
  return found.filter((pid) => pid !== null);
}

/** PostgreSQL's working directory is the cluster. */
async function runsIn(pid: string, cluster: string): Promise<boolean> {
  try {
    return (
      (await readlink(`/proc/${pid}/cwd`)) === cluster && /postgres/.test(await readFile(`/proc/${pid}/comm`, 'utf8'))
    );
  } catch {
    // The process exited or belongs to another user (see the launcher), whose command line is still readable.
    const commandLine = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    return /\/postgres\0-D\0/.test(commandLine) && commandLine.includes(`\0${cluster}\0`);
  }
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // The process exited between the check and the signal.
  }
}
