/** Watches a spawned jail from outside: process id, memory, CPU time, and the verified end of its processes. */
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { readProcessStat } from '../../service/lifecycle/process-stat.ts';
import type { CpuClasses, LimitedGroup } from './limiter.ts';
import { SessionPriority } from './session-priority.ts';
import type { Exit, Spawned } from './spawner.ts';

export interface ExitInfo extends Exit {
  /** Whether the kernel or the resident watch killed the process because it exceeded a memory limit. */
  readonly outOfMemory: boolean;
  /** Whether that was the limit of its account, of which it was the largest process. Unknown with control groups. */
  readonly accountOutOfMemory?: boolean;
  /** False if a process still existed `GONE_WITHIN_MS` after the end of the jail, which only a fault of the kernel can cause. */
  readonly gone: boolean;
}

/** The CPU time that a process has used and waited for since its start. Milliseconds. */
export interface CpuDemand {
  readonly hadMs: number;
  /** Time in which the main thread was ready to run but not scheduled. The kernel adds a wait when it ends. */
  readonly waitedMs: number;
  /** Whether the main thread runs or waits for a processor. `waitedMs` may then lack a wait of any length. */
  readonly isRunnable: boolean;
}

export interface WatchedProcess {
  /** Resolves when the process inside has its limits. Do not send it plugin code earlier. */
  readonly confined: Promise<void>;
  /** Resolves when every process of the jail is gone. Never rejects. */
  readonly exited: Promise<ExitInfo>;
  /** Process id of the Node inside, in the namespace of the host. 0 until the process is confined. */
  readonly pid: number;
  /** Asks the process to exit: closes its stdin and sends SIGTERM. The process may ignore both. */
  terminate(): void;
  /** Sends SIGKILL to every process of the jail. Idempotent. */
  kill(): void;
  /** Resident bytes of the Node inside, including shared pages. 0 after its end. */
  rss(): number;
  /** Resident bytes that no file backs: without Node's code, whose pages all processes share. 0 after its end. */
  unsharedBytes(): number;
  /** CPU time of all threads, in steps of 10 ms. After the end of the process, includes the CPU time of its jail. */
  processorMs(): number;
  /** The CPU time that the process used and its main thread, which runs the plugin, waited for. Zeros after its end. */
  cpuDemand(): CpuDemand;
  /** Sets the CPU classes of the process and its account, with control groups or, without them, the priority of its session. */
  setCpuClasses(classes: CpuClasses): void;
}

const GONE_WITHIN_MS = 2_000;
const POLL_MS = 5;
/**
 * Time in which bubblewrap must reap the killed process inside. It usually takes 1 ms; on a busy machine the killed process
 * waits for a processor until it can exit. Milliseconds.
 */
const REAP_WITHIN_MS = 5_000;
/** Time in which bubblewrap must finish a jail whose process is not known yet. Milliseconds. */
const BUILD_WITHIN_MS = 500;
/** The unit of `/proc/<pid>/status`. */
const KILOBYTE = 1024;

/** Watches a spawned process until its end. `isJailed`: the spawned process is a bubblewrap that runs the Node inside. */
export function watchProcess(spawned: Spawned, isJailed: boolean, group: LimitedGroup | null): WatchedProcess {
  let inside = 0;
  let startedAt = '';
  let killed = false;
  let isTerminating = false;
  let totalMs = 0;
  const priority = new SessionPriority(() => (isAlive() ? inside : 0));
  const confined = (async () => {
    const pid = await spawned.inside;
    await group?.add(pid);
    startedAt = readStartTime(pid);
    inside = pid;
    if (killed) kill();
    else if (isTerminating) terminate();
  })();
  // `exited` reports a child that dies before it is confined.
  confined.catch(() => kill());
  const isAlive = () => inside !== 0 && readStartTime(inside) === startedAt && startedAt !== '';
  function terminate(): void {
    isTerminating = true;
    spawned.pipes.then(({ stdin }) => stdin.end()).catch(() => undefined);
    if (isAlive()) sendSignal(inside, 'SIGTERM');
  }
  function kill(): void {
    killed = true;
    if (isAlive()) sendSignal(inside);
    // bubblewrap needs a moment to reap the process inside and to report its exit. If bubblewrap is killed first, the process
    // inside dies too but may stay a zombie, because process 1 of a container may not reap it.
    if (isJailed) setTimeout(spawned.kill, inside === 0 ? BUILD_WITHIN_MS : REAP_WITHIN_MS).unref();
    else spawned.kill();
  }
  const exited = (async () => {
    const exit = await spawned.ended;
    totalMs = exit.processorMs;
    const until = performance.now() + GONE_WITHIN_MS;
    while (isAlive() && performance.now() < until) {
      sendSignal(inside);
      await sleep(POLL_MS);
    }
    const outOfMemory = group?.ranOutOfMemory() ?? false;
    group?.remove();
    return { ...translateExit(exit), outOfMemory, gone: !isAlive() };
  })();
  return {
    confined,
    exited,
    terminate,
    kill,
    get pid() {
      return inside;
    },
    rss: () => (isAlive() ? readResidentBytes(inside) : 0),
    unsharedBytes: () => (isAlive() ? readUnsharedBytes(inside) : 0),
    processorMs: () => Math.max(totalMs, inside === 0 ? 0 : readProcessorMs(inside)),
    cpuDemand: () => (inside === 0 ? NO_DEMAND : readCpuDemand(inside)),
    setCpuClasses: (classes) => (group ?? priority).setCpuClasses(classes),
  };
}

/** If a signal ended the child of bubblewrap, bubblewrap exits with 128 plus the signal's number, as a shell does. */
function translateExit({ code, signal }: Exit): Exit {
  if (code === null || code <= 128) return { code, signal };
  const name = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
  return name === undefined ? { code, signal } : { code: null, signal: name as NodeJS.Signals };
}

function sendSignal(pid: number, name: NodeJS.Signals = 'SIGKILL'): void {
  try {
    process.kill(pid, name);
  } catch {
    // The process exited between the check and the kill.
  }
}

/** Start time of a process in kernel ticks. Id and start time identify a process. Empty if it has exited or is a zombie. */
function readStartTime(pid: number): string {
  const stat = readProcessStat(pid);
  return stat === null || stat.state === 'Z' || stat.state === 'X' ? '' : stat.startTicks;
}

const readProcessorMs = (pid: number): number => readProcessStat(pid)?.processorMs ?? 0;

const NANOSECONDS_A_MS = 1e6;
const NO_DEMAND: CpuDemand = { hadMs: 0, waitedMs: 0, isRunnable: false };

/** `hadMs` is the CPU time of all threads in steps of 10 ms, or that of the main thread, which is exact, if it is larger. */
function readCpuDemand(pid: number): CpuDemand {
  const stat = readProcessStat(pid);
  const ofAllMs = stat?.processorMs ?? 0;
  const isRunnable = stat?.state === 'R';
  try {
    const [had = 0, waited = 0] = readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ').map(Number);
    return { hadMs: Math.max(ofAllMs, had / NANOSECONDS_A_MS), waitedMs: waited / NANOSECONDS_A_MS, isRunnable };
  } catch {
    // The process has exited, or this kernel does not count waiting time.
    return { hadMs: ofAllMs, waitedMs: 0, isRunnable };
  }
}

/** Linux has both fields since 4.5; other kernels may not. */
const readUnsharedBytes = (pid: number): number =>
  readStatusBytes(pid, ['RssAnon', 'RssShmem']) ?? readResidentBytes(pid);

/** Not from `statm`, which counts pages: their size differs between machines. */
const readResidentBytes = (pid: number): number => readStatusBytes(pid, ['VmRSS']) ?? 0;

/** Returns the sum of fields of `/proc/<pid>/status`. Null: one is missing, or the process has exited. */
function readStatusBytes(pid: number, names: readonly string[]): number | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    const readField = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]);
    const sum = names.reduce((total, name) => total + readField(name), 0);
    return Number.isNaN(sum) ? null : sum * KILOBYTE;
  } catch {
    return null;
  }
}
