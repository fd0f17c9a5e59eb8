/** Sends host calls in order, each with the id of its invocation. Bounds how many are in flight. */
import type { ResponseError } from 'vscode-jsonrpc';
import type { z } from 'zod';
import type { control } from '../sdk/contract/protocol.ts';
import { copyAsSent } from './message.ts';
import type { SupervisorConnection } from './supervisor-connection.ts';
import { describeError } from './text.ts';

/** Host calls sent at once, and calls queued behind them. Further calls are refused. */
const CALLS_IN_FLIGHT = 16;
const CALLS_WAITING = 64;

/** A single error, because the stacks of 100,000 refused calls would fill the heap. */
const TOO_MANY = Object.freeze(
  new Error(
    `Too many host calls: ${CALLS_IN_FLIGHT + CALLS_WAITING} are in progress. Await some of them before you make more.`,
  ),
);

type HostCall = z.infer<(typeof control)['hostCall']['params']>;
type SendError = Pick<ResponseError, 'message'> & { readonly data?: { readonly code: string } | undefined };

export class HostCalls {
  readonly #supervisor: SupervisorConnection;
  readonly #queue: (() => void)[] = [];
  #inFlight = 0;

  constructor(supervisor: SupervisorConnection) {
    this.#supervisor = supervisor;
  }

  /** Sends a call and resolves with its result. Rejects with the supervisor's refusal, which has a `code`. */
  send(call: HostCall): Promise<unknown> {
    if (this.#inFlight >= CALLS_IN_FLIGHT && this.#queue.length >= CALLS_WAITING) return Promise.reject(TOO_MANY);
    const site = new Error();
    if (this.#inFlight < CALLS_IN_FLIGHT) return this.#send(call, site);
    return new Promise((resolve) => {
      const copy = copyCall(call, site);
      this.#queue.push(() => resolve(this.#send(copy, site)));
    });
  }

  /**
   * Sends a call past the queue and its bound: reading a response body must not wait for calls that it could unblock.
   *
   * @param site an error made where the plugin called
   */
  async sendAhead(call: HostCall, site = new Error()): Promise<unknown> {
    try {
      const { value } = (await this.#supervisor.request('hostCall', call)) as { value?: unknown };
      return value;
    } catch (error) {
      throw toPluginError(call.member, error as SendError, site);
    }
  }

  async #send(call: HostCall, site: Error): Promise<unknown> {
    this.#inFlight += 1;
    try {
      return await this.sendAhead(call, site);
    } finally {
      this.#inFlight -= 1;
      this.#queue.shift()?.();
    }
  }
}

/** The plugin may change its arguments while the call is queued. */
function copyCall(call: HostCall, site: Error): HostCall {
  try {
    return copyAsSent(call);
  } catch (error) {
    throw toPluginError(call.member, { message: describeError(error).message }, site);
  }
}

/**
 * Copies the error, because a plugin could reach the library through the library's own error object. Without data, the call was not
 * sent: its arguments cannot be encoded.
 *
 * @param site its stack becomes the error's: at the end of a call that the plugin does not await, no frame of the plugin is left
 */
function toPluginError(member: string, { message, data }: SendError, site: Error): Error {
  const error = data
    ? Object.assign(new Error(message), { code: data.code })
    : Object.assign(new Error(`host.${member}: the arguments cannot be sent: ${message}`), { code: 'failed' });
  const value = String(site.stack).replace(/^Error/, () => `Error: ${error.message}`);
  return Object.defineProperty(error, 'stack', { value, configurable: true, writable: true });
}
