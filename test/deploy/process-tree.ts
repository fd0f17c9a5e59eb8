/**
 * Lists the processes below a process, those that name a path, and which of them still run. A process is known by id and start
 * time, since ids are reused.
 */
import { readdir, readFile, readlink } from 'node:fs/promises';

export interface Seen {
  readonly pid: number;
  /** In kernel ticks: with the id, the name of one process for ever. */
  readonly born: string;
  readonly parent: number;
  readonly command: string;
}

/** The process and everything below it. Zombies are gone: only their parent has not looked yet. */
export async function processTree(root: number): Promise<Seen[]> {
  const all = await allProcesses();
  const below = (pid: number): number[] =>
    [...all].filter(([, { parent }]) => parent === pid).flatMap(([child]) => [child, ...below(child)]);
  const found = [root, ...below(root)].map(async (pid) => {
    const stat = all.get(pid);
    return stat && { pid, ...stat, command: await commandOf(pid) };
  });
  return (await Promise.all(found)).filter((seen) => seen !== undefined);
}

/** The other processes that have the path in their command, their environment or their working folder. */
export async function processesNaming(path: string): Promise<Seen[]> {
  const others = [...(await allProcesses())].filter(([pid]) => pid !== process.pid);
  const found = others.map(async ([pid, stat]) => {
    const [command, environment, folder] = await Promise.all([
      commandOf(pid),
      readFile(`/proc/${pid}/environ`, 'latin1').catch(() => ''),
      readlink(`/proc/${pid}/cwd`).catch(() => ''),
    ]);
    return [command, environment, folder].some((text) => namesPath(text, path)) ? { pid, ...stat, command } : null;
  });
  return (await Promise.all(found)).filter((seen) => seen !== null);
}

/** Not a path that only begins like this one. */
const namesPath = (text: string, path: string): boolean =>
  text
    .split(path)
    .slice(1)
    .some((rest) => !/^[\w.-]/.test(rest));

/** Returns the processes that still run. */
export async function stillRunning(seen: Iterable<Seen>): Promise<Seen[]> {
  const all = await allProcesses();
  return [...seen].filter(({ pid, born }) => all.get(pid)?.born === born);
}

async function allProcesses(): Promise<Map<number, { parent: number; born: string }>> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const stats = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '')));
  const found = new Map<number, { parent: number; born: string }>();
  for (const [at, stat] of stats.entries()) {
    // The name stands in brackets and may hold anything; state, parent and more follow it.
    const [state = 'X', parent, ...rest] = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
    if (stat !== '' && !/[ZX]/.test(state))
      found.set(Number(pids[at]), { parent: Number(parent), born: rest[17] ?? '' });
  }
  return found;
}

const commandOf = async (pid: number): Promise<string> =>
  (await readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')).replaceAll('\0', ' ').trim();
