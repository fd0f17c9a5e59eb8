/** Reads what the control groups of a process say. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The folder of a process's control group. `controller`: empty in version 2, where one group has all controllers. */
export function groupPath(pid: number, controller: string): string {
  const lines = readFileSync(`/proc/${pid}/cgroup`, 'latin1').split('\n');
  const rows = lines.map((line) => line.split(':'));
  const [, names = '', path = ''] = rows.find(([, of = '']) => of.split(',').includes(controller)) ?? [];
  return join('/sys/fs/cgroup', names === '' ? '' : controller, path);
}

export const groupFile = (pid: number, controller: string, file: string): string =>
  readFileSync(join(groupPath(pid, controller), file), 'latin1').trim();
