/** Converts problems to errors of the Model Context Protocol, without internal texts. */
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import { Problem } from '../../sdk/contract/errors.ts';

/** The protocol's error code for an unknown resource. */
const RESOURCE_NOT_FOUND = -32_002;

/** Converts an error for the client. */
export function asMcpError(error: unknown): McpError {
  if (error instanceof McpError) return error;
  if (!(error instanceof Problem)) return new McpError(ErrorCode.InternalError, 'Internal error.');
  if (error.code === 'not_found') return new McpError(RESOURCE_NOT_FOUND, error.message);
  const isTheirs = error.status < 500;
  return new McpError(isTheirs ? ErrorCode.InvalidParams : ErrorCode.InternalError, error.message, {
    code: error.code,
  });
}
