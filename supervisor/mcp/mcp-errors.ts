/** Converts problems to errors of the Model Context Protocol, without internal texts. */
import { addAbortListener } from 'node:events';
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import { Problem } from '../../sdk/contract/errors.ts';
import { toProblem } from '../../service/http/errors.ts';

/** The protocol's error code for an unknown resource. */
const RESOURCE_NOT_FOUND = -32_002;

/** Wraps a handler. The library would send the text of any error to the client. */
export type HandlerWrapper = <Args extends unknown[], Result>(
  handle: (...args: Args) => Promise<Result>,
) => (...args: Args) => Promise<Result>;

const STOPPED =
  'The supervisor stopped before the request ended. A call may have taken effect: check before you repeat it.';

/**
 * @param onError receives the errors whose texts are internal
 * @param drainOver ends handlers that still run when it aborts, with an error for their clients
 */
export const wrapHandlers =
  (onError: (error: unknown) => void, drainOver: AbortSignal): HandlerWrapper =>
  (handle) =>
  async (...args) => {
    const { promise: stopped, reject } = Promise.withResolvers<never>();
    using _listening = addAbortListener(drainOver, () => reject(new McpError(ErrorCode.InternalError, STOPPED)));
    try {
      return await Promise.race([handle(...args), stopped]);
    } catch (error) {
      if (!(error instanceof McpError || error instanceof Problem)) onError(error);
      throw toMcpError(error);
    }
  };

function toMcpError(error: unknown): McpError {
  if (error instanceof McpError) return error;
  const { code, status, message } = toProblem(error);
  if (code === 'not_found') return new McpError(RESOURCE_NOT_FOUND, message);
  // The protocol has no code for calls that succeed later. `InvalidParams` would make a client change its arguments.
  const isFaultOfCaller = status < 500 && code !== 'rate_limited';
  return new McpError(isFaultOfCaller ? ErrorCode.InvalidParams : ErrorCode.InternalError, message, { code });
}
