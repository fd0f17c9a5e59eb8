/**
 * Counts the resources that this process holds open, so that a pool's connections to the database, which come and go by themselves,
 * are no matter.
 */
import { readFileSync } from 'node:fs';
import { readdir, readlink } from 'node:fs/promises';

/** A row's state in /proc/net/tcp: TCP_LISTEN. */
const LISTENING = '0A';

/** Descriptors of files and folders. */
export async function openFiles(): Promise<number> {
  const names = await readdir('/proc/self/fd');
  // One that is closed by now is the listed folder's own, or is on its way out.
  const targets = await Promise.all(names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => '')));
  return targets.filter((target) => target.startsWith('/') && !target.startsWith('/proc/')).length;
}

/** Ends of TCP connections with a local port that some process holds; one that is closed for good has no inode left. */
export function connectionEnds(port: number): number {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows = readFileSync('/proc/self/net/tcp', 'utf8').trim().split('\n').slice(1);
  return rows.filter((row) => {
    const [, local = '', remote = '', state, , , , , , inode] = row.trim().split(/\s+/);
    return state !== LISTENING && inode !== '0' && (local.endsWith(suffix) || remote.endsWith(suffix));
  }).length;
}
