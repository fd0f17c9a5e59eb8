/** A spawned jail as seen from outside: its real process id, its end, and its certain end. */
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LimitedGroup } from './limiter.ts';
import type { Exit, Spawned } from './spawner.ts';

export interface ExitInfo extends Exit {
  /** Ended by the kernel for using more memory than its limit. */
  readonly outOfMemory: boolean;
  /** False where a process was still there after `GONE_WITHIN_MS`; nothing but a kernel fault does that. */
  readonly gone: boolean;
}

/** Milliseconds since its start. */
export interface ProcessorNeed {
  readonly hadMs: number;
  /** Ready to run while others ran. */
  readonly waitedMs: number;
}

export interface BoxedProcess {
  /** Resolves once the process inside is known and under its limits. Nothing of a stranger may be sent before. */
  readonly confined: Promise<void>;
  /** Resolves, and never rejects, when every process of the jail is gone. */
  readonly exited: Promise<ExitInfo>;
  /** Process id on the host of the Node inside; 0 until it is confined. */
  readonly pid: number;
  /** The polite way: closes its stdin, at whose end a child leaves by itself, and sends SIGTERM. It may do neither. */
  terminate(): void;
  /** SIGKILL to everything. Safe at any time, any number of times. */
  kill(): void;
  /** Resident bytes of the Node inside, shared pages included; 0 when it is gone. */
  rss(): number;
  /** Processor time of all its threads, milliseconds, in steps of 10; 0 when it is gone. */
  processorMs(): number;
  /** What it had of the processor, and what its main thread, which runs the plugin, waited for; zeros when it is gone. */
  processorNeed(): ProcessorNeed;
  /** Lets every other process go first, or takes that back. Without a control group it does nothing. */
  yieldProcessor(yields: boolean): void;
}

const GONE_WITHIN_MS = 2_000;
const POLL_MS = 5;
/** For bubblewrap to follow what was inside it, milliseconds; it takes one. */
const REAP_WITHIN_MS = 500;
const PAGE_BYTES = 4096;
/** What the kernel counts processor time in, for everybody, whatever it ticks at itself. */
const TICK_MS = 10;

/** Follows a spawned process to its end. `isJailed`: it is a bubblewrap around the one that counts. */
export function watchProcess(spawned: Spawned, isJailed: boolean, group: LimitedGroup | null): BoxedProcess {
  let inside = 0;
  let born = '';
  let killed = false;
  let asked = false;
  const confined = (async () => {
    const pid = await spawned.inside;
    await group?.add(pid);
    born = startTime(pid);
    inside = pid;
    if (killed) kill();
    else if (asked) terminate();
  })();
  // A child that dies before it is confined is reported by `exited`; the promise is for who waits to send.
  confined.catch(() => kill());
  const alive = () => inside !== 0 && startTime(inside) === born && born !== '';
  function terminate(): void {
    asked = true;
    spawned.pipes.then(({ stdin }) => stdin.end()).catch(() => undefined);
    if (alive()) signal(inside, 'SIGTERM');
  }
  function kill(): void {
    killed = true;
    if (alive()) signal(inside);
    // bubblewrap outlives what is inside by the moment it takes to reap it and to say how it ended. Ended itself, it
    // takes what is inside along, but leaves a zombie to a first process that may not care.
    if (isJailed) setTimeout(spawned.kill, REAP_WITHIN_MS).unref();
    else spawned.kill();
  }
  const exited = (async () => {
    const exit = await spawned.ended;
    const until = performance.now() + GONE_WITHIN_MS;
    while (alive() && performance.now() < until) {
      signal(inside);
      await sleep(POLL_MS);
    }
    const outOfMemory = group?.ranOutOfMemory() ?? false;
    group?.remove();
    return { ...status(exit), outOfMemory, gone: !alive() };
  })();
  return {
    confined,
    exited,
    terminate,
    kill,
    get pid() {
      return inside;
    },
    rss: () => (alive() ? resident(inside) : 0),
    processorMs: () => (inside === 0 ? 0 : processorMs(inside)),
    processorNeed: () => (inside === 0 ? NO_NEED : processorNeed(inside)),
    yieldProcessor: (yields) => group?.yieldProcessor(yields),
  };
}

/** bubblewrap reports the signal that ended its child the way a shell does. */
function status({ code, signal }: Exit): Exit {
  if (code === null || code <= 128) return { code, signal };
  const name = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
  return name === undefined ? { code, signal } : { code: null, signal: name as NodeJS.Signals };
}

function signal(pid: number, name: NodeJS.Signals = 'SIGKILL'): void {
  try {
    process.kill(pid, name);
  } catch {
    // Gone between the look and the blow.
  }
}

/** When a process started, in kernel ticks: with its id, this names one process for ever. Empty if gone or a zombie. */
function startTime(pid: number): string {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ') ?? [];
    return fields[0] === 'Z' || fields[0] === 'X' ? '' : (fields[19] ?? '');
  } catch {
    return '';
  }
}

/** User and system time since its start; 0 if gone. */
function processorMs(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ') ?? [];
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
  } catch {
    return 0;
  }
}

const NANOSECONDS_A_MS = 1e6;
const NO_NEED: ProcessorNeed = { hadMs: 0, waitedMs: 0 };

/** Of all threads in steps of 10 ms, or of the main one alone where that is more, as it is finer. */
function processorNeed(pid: number): ProcessorNeed {
  const ofAllMs = processorMs(pid);
  try {
    const [had = 0, waited = 0] = readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ').map(Number);
    return { hadMs: Math.max(ofAllMs, had / NANOSECONDS_A_MS), waitedMs: waited / NANOSECONDS_A_MS };
  } catch {
    // A kernel that does not count waiting.
    return { hadMs: ofAllMs, waitedMs: 0 };
  }
}

function resident(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')[1]) * PAGE_BYTES;
  } catch {
    return 0;
  }
}
