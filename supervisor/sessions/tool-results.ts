/** Validates the results of tool handlers. A string is a valid result. */
import { z } from 'zod';
import { Problem } from '../../sdk/contract/errors.ts';
import { toolResult } from '../../sdk/contract/payloads.ts';
import type { ToolResult } from '../../sdk/session/api-types.ts';

/** Handlers may leave out `isError`. */
const answered = toolResult.extend({ isError: z.boolean().default(false) });

/** The result of a failed tool, for the agent. */
export const failedTool = (text: string): ToolResult => ({ content: [{ type: 'text', text }], isError: true });

/** Validates a handler's result. @throws Problem `plugin_failed` when it is malformed or too large */
export function readToolResult(name: string, answer: unknown, maxBytes: number): ToolResult {
  const given = typeof answer === 'string' ? { content: [{ type: 'text', text: answer }] } : answer;
  const checked = answered.safeParse(given);
  if (!checked.success) {
    const issue = checked.error.issues[0];
    const where = issue?.path.length ? `${issue.path.join('.')}: ` : '';
    throw new Problem(
      'plugin_failed',
      `${name} returned a malformed tool result: ${where}${issue?.message ?? 'not valid'}.`,
    );
  }
  if (Buffer.byteLength(JSON.stringify(checked.data)) > maxBytes)
    throw new Problem('plugin_failed', `${name} returned more than ${maxBytes} bytes.`);
  return checked.data;
}
