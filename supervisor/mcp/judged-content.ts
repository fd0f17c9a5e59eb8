/** Judges what a client reads for its model besides results of tools: plugins see it as the call of a tool. */
import { randomUUIDv7 } from 'node:crypto';
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { ToolResult } from '../../sdk/session/api-types.ts';
import { callBetweenHooks } from '../sessions/judged-call.ts';
import type { SessionServices } from '../sessions/session-services.ts';

export interface Text {
  readonly mimeType?: string;
  readonly text: string;
}
interface Blob {
  readonly mimeType?: string;
  /** In base64. */
  readonly blob: string;
}
export type Content = Text | Blob;

interface Reading {
  /** The name of the tool as which plugins see it. */
  readonly name: string;
  readonly arguments: unknown;
  readonly signal: AbortSignal;
}

/**
 * Reads between `middleware.toolCall` and `middleware.toolResult`.
 *
 * @param read gets the arguments that passed
 * @throws Problem as `read` does, and McpError where a plugin cancels
 */
export async function readJudged<Read extends Content>(
  services: SessionServices,
  session: Session,
  reading: Reading,
  read: (args: unknown) => Promise<Read>,
): Promise<Read | Text> {
  let found: Read | undefined;
  let shown: ToolResult | undefined;
  const run = async (args: unknown): Promise<ToolResult | Problem> => {
    try {
      found = await read(args);
    } catch (error) {
      // Its text may be that of a plugin.
      if (error instanceof Problem) return error;
      throw error;
    }
    shown = { content: [toPart(found, services.toolResultBytes)], isError: false };
    return shown;
  };
  const { problem, result } = await callBetweenHooks(services, session, { callId: randomUUIDv7(), ...reading }, run);
  if (problem) throw problem;
  if (found && result === shown) return found;
  const text = result.content.map((part) => (part.type === 'text' ? part.text : JSON.stringify(part))).join('\n');
  if (result.isError) throw new McpError(ErrorCode.InvalidRequest, text);
  return { mimeType: 'text/plain', text };
}

/** Plugins see texts and pictures, and of other files what they are. */
function toPart(content: Content, maxBytes: number): ToolResult['content'][number] {
  if ('text' in content) return { type: 'text', text: content.text };
  const { blob, mimeType = 'application/octet-stream' } = content;
  if (mimeType.startsWith('image/') && blob.length <= maxBytes) return { type: 'image', data: blob, mimeType };
  const bytes = Buffer.from(blob, 'base64');
  if (mimeType.startsWith('text/') && bytes.byteLength <= maxBytes) return { type: 'text', text: bytes.toString() };
  return { type: 'text', text: `A file of ${bytes.byteLength} bytes, of type ${mimeType}.` };
}
