/** Problems as errors of the Model Context Protocol. Internal words stay inside. */
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import { Problem } from '../../sdk/contract/errors.ts';

/** The protocol's code for a resource that is not there. */
const RESOURCE_NOT_FOUND = -32_002;

/** The error a client is answered. */
export function asMcpError(error: unknown): McpError {
  if (error instanceof McpError) return error;
  if (!(error instanceof Problem)) return new McpError(ErrorCode.InternalError, 'Something went wrong.');
  if (error.code === 'not_found') return new McpError(RESOURCE_NOT_FOUND, error.message);
  const isTheirs = error.status < 500;
  return new McpError(isTheirs ? ErrorCode.InvalidParams : ErrorCode.InternalError, error.message, {
    code: error.code,
  });
}
