/** Ends synchronous work on one file when the time of the build is over: timers of its thread do not run meanwhile. */
import { createContext, Script } from 'node:vm';

/** Each use of the limit starts a thread, which costs more than reading a shorter file. Characters. */
const LIMITED_MIN_CHARS = 16_384;

const slot: { work: () => unknown } = Object.assign(createContext({}), { work: () => undefined });
const runWork = new Script('work()');

export class BuildTime {
  readonly #endsAt: number;
  #wasEnded = false;

  constructor(ms: number) {
    this.#endsAt = performance.now() + ms;
  }

  get isOver(): boolean {
    return this.#wasEnded || performance.now() >= this.#endsAt;
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
      return runWork.runInContext(slot, { timeout: Math.max(1, Math.ceil(this.#endsAt - performance.now())) }) as T;
    } catch (error) {
      // It may end the work a moment early.
      this.#wasEnded ||= (error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
      throw error;
    }
  }
}
