/** The bytes of one request's body in memory: from the first one until the response is closed and the work on them has ended. */
import type { ByteBudget } from './byte-budget.ts';

export class BodyInFlight {
  /** Size of what has arrived. */
  bytes = 0;
  readonly #budget: ByteBudget;
  /** Whose share of the budget they use. */
  #sender = '';
  #reserved = 0;
  #isClosed = false;
  #isInWork = false;
  #isHandled = false;

  constructor(budget: ByteBudget) {
    this.#budget = budget;
  }

  /** @throws Problem where the sender, or the process, has too many bytes in flight */
  add(sender: string, bytes: number): void {
    this.#budget.reserve(sender, bytes);
    this.#sender = sender;
    this.#reserved += bytes;
    this.bytes += bytes;
  }

  /** Reads the body. Its value is in work until `handle` has ended, or `endUnhandled` is called. */
  async read<T>(work: () => Promise<T>): Promise<T> {
    this.#isInWork = true;
    try {
      return await work();
    } catch (error) {
      this.#endWork();
      throw error;
    }
  }

  /** @returns what the handler returns */
  handle<T>(handler: () => T): T {
    this.#isHandled = true;
    const end = () => this.#endWork();
    try {
      const result = handler();
      void Promise.resolve(result).then(end, end);
      return result;
    } catch (error) {
      end();
      throw error;
    }
  }

  /** Ends the work on a body that was refused before its handler. */
  endUnhandled(): void {
    if (!this.#isHandled) this.#endWork();
  }

  /** A client may leave at any time, and the work goes on. */
  closeResponse(): void {
    this.#isClosed = true;
    this.#release();
  }

  #endWork(): void {
    this.#isInWork = false;
    this.#release();
  }

  #release(): void {
    if (!this.#isClosed || this.#isInWork || this.#reserved === 0) return;
    this.#budget.release(this.#sender, this.#reserved);
    this.#reserved = 0;
  }
}
