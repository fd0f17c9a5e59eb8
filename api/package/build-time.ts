/**
 * The time of one build. It ends synchronous work on a file, too: timers of its thread do not run meanwhile. On a busy machine, where a
 * build gets a processor late, the build has up to twice the time, but such work ends after what was left of it when the work began.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createContext, Script } from 'node:vm';
import { readProcessStat } from '../../service/lifecycle/process-stat.ts';
import { within } from '../../service/timing/within.ts';

/** Each use of the limit starts a thread, which costs more than reading a shorter file. Characters. */
const LIMITED_MIN_CHARS = 16_384;
/** A build ends after this many times its time, even if it had no processor meanwhile. */
export const WAIT_FACTOR = 2;
/** The processes that this thread started and that have not ended. */
const CHILDREN = '/proc/thread-self/children';
/** A build that had a processor for this share of its time was not kept from ending. */
const COMPUTING_SHARE = 0.8;

const slot: { work: () => unknown } = Object.assign(createContext({}), { work: () => undefined });
const runWork = new Script('work()');

interface Clocks {
  /** Monotonic. Milliseconds. */
  now(): number;
  /** Processor time of this thread and of the processes that it started, such as esbuild. Where it is unknown, the same as `now`. */
  processorMs(): number;
}
const realClocks: Clocks = { now: () => performance.now(), processorMs: readProcessorTime };

export class BuildTime {
  readonly #ms: number;
  readonly #clocks: Clocks;
  readonly #startedAt: number;
  readonly #processorMsBefore: number;
  #wasEnded = false;

  constructor(ms: number, clocks: Clocks = realClocks) {
    this.#ms = ms;
    this.#clocks = clocks;
    this.#startedAt = clocks.now();
    this.#processorMsBefore = clocks.processorMs();
  }

  get isOver(): boolean {
    return this.#wasEnded || this.#leftMs() <= 0;
  }

  /** Whether the build waited for a processor. One that only computes has a little less than its time, too. */
  get isStarved(): boolean {
    return this.#processorMs() < this.#ms * COMPUTING_SHARE;
  }

  /** Resolves with the value, or with undefined when the time is over. */
  async limit<T>(work: Promise<T>): Promise<T | undefined> {
    let value: T | undefined;
    for (let left = this.#leftMs(); left > 0 && value === undefined; left = this.#leftMs())
      value = await within(work, left);
    return value;
  }

  /**
   * Runs work that reads `code`. Parsers take the square of its length for some code.
   *
   * @throws Error when the time is over; `isOver` then is true
   */
  run<T>(code: string, work: () => T): T {
    if (code.length < LIMITED_MIN_CHARS) return work();
    slot.work = work;
    try {
      return runWork.runInContext(slot, { timeout: Math.max(1, Math.ceil(this.#leftMs())) }) as T;
    } catch (error) {
      // It may end the work a moment early.
      this.#wasEnded ||= (error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
      throw error;
    }
  }

  #leftMs(): number {
    const elapsedMs = this.#clocks.now() - this.#startedAt;
    if (elapsedMs < this.#ms) return this.#ms - elapsedMs;
    return Math.min(this.#ms - this.#processorMs(), this.#ms * WAIT_FACTOR - elapsedMs);
  }

  #processorMs(): number {
    return this.#clocks.processorMs() - this.#processorMsBefore;
  }
}

function readProcessorTime(): number {
  // An author's machine may have an older Node, or another system than Linux.
  if (!('threadCpuUsage' in process) || !existsSync(CHILDREN)) return performance.now();
  const { user, system } = process.threadCpuUsage();
  const pids = readFileSync(CHILDREN, 'latin1').match(/\d+/g) ?? [];
  return pids.reduce((sum, pid) => sum + (readProcessStat(Number(pid))?.processorMs ?? 0), (user + system) / 1_000);
}
