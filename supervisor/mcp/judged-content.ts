/** Runs the hooks on prompts and resources that a client reads for its model. Plugins see each read as a call of a tool. */
import { randomUUIDv7 } from 'node:crypto';
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import type { ToolResult } from '../../sdk/session/api-types.ts';
import { listHookLinks } from '../children/account-plugins-cache.ts';
import { isPlainText } from '../host/media.ts';
import { callBetweenHooks, HOST_RESULT_MAX_BYTES } from '../sessions/judged-call.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { formatContent } from '../sessions/tool-results.ts';

/** Texts and pictures up to this size fit into the context of a hook. Bytes. */
const JUDGED_MAX_BYTES = MIB;

/** A `blob` is in base64. */
export type Content =
  | { readonly mimeType?: string; readonly text: string }
  | { readonly mimeType?: string; readonly blob: string };

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
 * @returns one content, or each part of what a plugin made of it
 * @throws Problem as `read` does, and McpError where a plugin cancels
 */
export async function readJudged(
  services: SessionServices,
  session: Session,
  reading: Reading,
  read: (args: unknown) => Promise<Content>,
): Promise<readonly Content[]> {
  const links = listHookLinks(await services.pluginsCache.current(session.accountId), 'middleware.toolResult');
  const maxBytes = links.length === 0 ? Number.POSITIVE_INFINITY : JUDGED_MAX_BYTES;
  let found: Content | undefined;
  let shown: ToolResult | undefined;
  const run = async (args: unknown): Promise<ToolResult | Problem> => {
    try {
      found = await read(args);
      shown = { content: [toPart(found, maxBytes)], isError: false };
      return shown;
    } catch (error) {
      // Its text may be that of a plugin.
      if (error instanceof Problem) return error;
      throw error;
    }
  };
  const call = { callId: randomUUIDv7(), ...reading, changedMaxBytes: HOST_RESULT_MAX_BYTES };
  const { problem, result } = await callBetweenHooks(services, session, call, run);
  if (problem) throw problem;
  if (found && result === shown) return [found];
  if (result.isError) throw new McpError(ErrorCode.InvalidRequest, formatContent(result));
  return result.content.map(toContent);
}

function toContent(part: ToolResult['content'][number]): Content {
  if (part.type === 'text') return { mimeType: 'text/plain', text: part.text };
  if (part.type === 'json') return { mimeType: 'application/json', text: JSON.stringify(part.json) };
  return { mimeType: part.mimeType, blob: part.data };
}

/**
 * Plugins see texts and pictures, and of other files what they are.
 *
 * @throws Problem `too_large` for a text or picture that is larger than they can judge
 */
function toPart(content: Content, maxBytes: number): ToolResult['content'][number] {
  if ('text' in content) return { type: 'text', text: content.text };
  const { blob, mimeType = 'application/octet-stream' } = content;
  const bytes = Buffer.from(blob, 'base64');
  const isPicture = mimeType.startsWith('image/');
  const isText = !isPicture && isPlainText(bytes);
  if (!isPicture && !isText) return { type: 'text', text: `A file of ${bytes.byteLength} bytes, of type ${mimeType}.` };
  if (bytes.byteLength > maxBytes)
    throw new Problem('too_large', `The file is larger than ${maxBytes} bytes, so plugins cannot judge it.`);
  return isPicture ? { type: 'image', data: blob, mimeType } : { type: 'text', text: bytes.toString() };
}
