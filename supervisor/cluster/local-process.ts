/**
 * Names a process so that others on its machine see when it has ended. After a crash, a restarted supervisor then need not
 * wait for the lease of its predecessor to expire.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { readProcessStat } from '../../service/lifecycle/process-stat.ts';

/** Kernel, PID namespace, process id and its start: the same words name no other process. */
export function nameProcess(): string {
  return `${readMachine() ?? randomUUID()} ${process.pid} ${readProcessStat(process.pid)?.startTicks ?? ''}`;
}

/** Whether a process of this machine has ended. False for those of other machines and containers, which cannot be seen. */
export function hasEnded(name: string): boolean {
  const [boot, namespace, pid, started] = name.split(' ');
  if (`${boot} ${namespace}` !== readMachine()) return false;
  try {
    process.kill(Number(pid), 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
  // Unreadable: a process of another user that hides its own.
  const stat = readProcessStat(Number(pid));
  return stat !== null && (stat.state === 'Z' || stat.startTicks !== started);
}

/** Null: this system does not say. */
function readMachine(): string | null {
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return null;
  }
}
