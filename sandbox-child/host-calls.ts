/** Host calls on their way: in order, a bounded number at once, each with the invocation it was made in. */
import type { Message } from './frame.ts';
import type { Wire } from './wire.ts';

/** Calls on their way, and behind them waiting here. More are refused at once: nobody reads 100,000 answers. */
const CALLS_IN_FLIGHT = 16;
const CALLS_WAITING = 64;

/** One for all: whoever makes 100,000 calls at once would fill the heap with their stacks. */
const TOO_MANY = Object.freeze(
  new Error(`${CALLS_IN_FLIGHT + CALLS_WAITING} host calls are on their way, wait for some`),
);

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

export class HostCalls {
  readonly #wire: Wire;
  readonly #answers = new Map<number, Waiting>();
  readonly #queue: (() => void)[] = [];
  #serial = 0;

  constructor(wire: Wire) {
    this.#wire = wire;
  }

  /** Sends one call and answers what the supervisor answers. Rejects with its refusal, which has its `code`. */
  send(member: string, args: unknown[], invocationId: string | null): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const start = (): void => {
        this.#serial += 1;
        try {
          this.#wire.send({ id: this.#serial, method: 'hostCall', params: { member, invocationId, args } });
          this.#answers.set(this.#serial, { resolve, reject });
        } catch (error) {
          // The arguments are no JSON: the caller's mistake, and nothing was sent.
          reject(error as Error);
          this.#next();
        }
      };
      if (this.#answers.size < CALLS_IN_FLIGHT) start();
      else if (this.#queue.length < CALLS_WAITING) this.#queue.push(start);
      else reject(TOO_MANY);
    });
  }

  /** The supervisor's answer to a call. */
  settle(id: number, result: unknown, error: Message['error']): void {
    const call = this.#answers.get(id);
    this.#answers.delete(id);
    if (error) call?.reject(Object.assign(new Error(error.message), { code: error.code }));
    else call?.resolve(result);
    this.#next();
  }

  #next(): void {
    if (this.#answers.size < CALLS_IN_FLIGHT) this.#queue.shift()?.();
  }
}
