/** Host calls on their way: in order, a bounded number at once, each with the invocation it was made in. */
import type { ResponseError } from 'vscode-jsonrpc';
import type { SupervisorConnection } from './supervisor-connection.ts';

/** Calls on their way, and behind them waiting here. More are refused at once: nobody reads 100,000 answers. */
const CALLS_IN_FLIGHT = 16;
const CALLS_WAITING = 64;

/** One for all: whoever makes 100,000 calls at once would fill the heap with their stacks. */
const TOO_MANY = Object.freeze(
  new Error(`${CALLS_IN_FLIGHT + CALLS_WAITING} host calls are on their way, wait for some`),
);

interface HostCall {
  readonly member: string;
  readonly args: unknown[];
  readonly invocationId: string | null;
}

export class HostCalls {
  readonly #supervisor: SupervisorConnection;
  readonly #queue: (() => void)[] = [];
  #inFlight = 0;

  constructor(supervisor: SupervisorConnection) {
    this.#supervisor = supervisor;
  }

  /** Sends one call and answers what the supervisor answers. Rejects with its refusal, which has its `code`. */
  send(call: HostCall): Promise<unknown> {
    if (this.#inFlight < CALLS_IN_FLIGHT) return this.#send(call);
    if (this.#queue.length >= CALLS_WAITING) return Promise.reject(TOO_MANY);
    return new Promise((resolve) => {
      this.#queue.push(() => resolve(this.#send(call)));
    });
  }

  async #send(call: HostCall): Promise<unknown> {
    this.#inFlight += 1;
    try {
      const { value } = (await this.#supervisor.request('hostCall', call)) as { value?: unknown };
      return value;
    } catch (error) {
      throw pluginError(error as ResponseError<{ readonly code: string } | undefined>);
    } finally {
      this.#inFlight -= 1;
      this.#queue.shift()?.();
    }
  }
}

/** A plugin gets a plain error: the library's leads to the library. */
function pluginError({ message, data }: ResponseError<{ readonly code: string } | undefined>): Error {
  const error = new Error(message);
  return data ? Object.assign(error, { code: data.code }) : error;
}
