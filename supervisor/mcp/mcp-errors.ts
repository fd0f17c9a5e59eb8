/** Converts problems to errors of the Model Context Protocol, without internal texts. */
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import { Problem } from '../../sdk/contract/errors.ts';
import { toProblem } from '../../service/http/errors.ts';

/** The protocol's error code for an unknown resource. */
const RESOURCE_NOT_FOUND = -32_002;

/** Wraps a handler. The library would send the text of any error to the client. */
export type HandlerWrapper = <Args extends unknown[], Result>(
  handle: (...args: Args) => Promise<Result>,
) => (...args: Args) => Promise<Result>;

/** @param onError receives the errors whose texts are internal */
export const wrapHandlers =
  (onError: (error: unknown) => void): HandlerWrapper =>
  (handle) =>
  async (...args) => {
    try {
      return await handle(...args);
    } catch (error) {
      if (!(error instanceof McpError || error instanceof Problem)) onError(error);
      throw toMcpError(error);
    }
  };

function toMcpError(error: unknown): McpError {
  if (error instanceof McpError) return error;
  const { code, status, message } = toProblem(error);
  if (code === 'not_found') return new McpError(RESOURCE_NOT_FOUND, message);
  return new McpError(status < 500 ? ErrorCode.InvalidParams : ErrorCode.InternalError, message, { code });
}
