/** Answers of tool handlers: a text is enough, and what is no result is the plugin's fault. */
import { z } from 'zod';
import { Problem } from '../../sdk/contract/errors.ts';
import { toolResult } from '../../sdk/contract/payloads.ts';
import type { ToolResult } from '../../sdk/session/api-types.ts';

/** Handlers may leave out `isError`. */
const answered = toolResult.extend({ isError: z.boolean().default(false) });

/** A tool that failed, as an agent reads it. */
export const failedTool = (text: string): ToolResult => ({ content: [{ type: 'text', text }], isError: true });

/** What a handler answered, as a tool’s result. @throws Problem `plugin_failed`: it is none, or too large */
export function readToolResult(name: string, answer: unknown, maxBytes: number): ToolResult {
  const given = typeof answer === 'string' ? { content: [{ type: 'text', text: answer }] } : answer;
  const checked = answered.safeParse(given);
  if (!checked.success) {
    const issue = checked.error.issues[0];
    const where = issue?.path.length ? `${issue.path.join('.')}: ` : '';
    throw new Problem(
      'plugin_failed',
      `${name} answered with no tool result: ${where}${issue?.message ?? 'not valid'}.`,
    );
  }
  if (Buffer.byteLength(JSON.stringify(checked.data)) > maxBytes)
    throw new Problem('plugin_failed', `${name} answered with more than ${maxBytes} bytes.`);
  return checked.data;
}
