/**
 * Names a process so that others on its machine see when it has ended. After a crash, a restarted supervisor then need not
 * wait for the lease of its predecessor to expire.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { readProcessStat } from '../../service/lifecycle/process-stat.ts';

/** Kernel, PID namespace, process id and its start: the same words name no other process. The network namespace follows. */
export function nameProcess(): string {
  const started = readProcessStat(process.pid)?.startTicks ?? '';
  return `${readMachine() ?? randomUUID()} ${process.pid} ${started} ${readNetwork() ?? ''}`;
}

/** Whether a loopback address of that process may lead to it from here. False only if it surely does not. */
export function mayShareLoopback(name: string): boolean {
  const [boot, , , , network] = name.split(' ');
  const machine = readMachine();
  if (machine === null) return true;
  if (boot !== machine.split(' ')[0]) return false;
  // Older releases do not name the network.
  return !network || network === readNetwork();
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
function readNetwork(): string | null {
  try {
    return readlinkSync('/proc/self/ns/net');
  } catch {
    return null;
  }
}

/** Null: this system does not say. */
function readMachine(): string | null {
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return null;
  }
}
