/** Validates the results of tool handlers: a list of parts, a string, or any JSON value. */
import { z } from 'zod';
import { Problem, type ProblemLocation } from '../../sdk/contract/errors.ts';
import { describeFieldFault, locateFault } from '../../sdk/contract/field-faults.ts';
import { isRecord } from '../../sdk/contract/is-record.ts';
import { KIB } from '../../sdk/contract/limits.ts';
import { toolResult } from '../../sdk/contract/payloads.ts';
import type { ToolResult } from '../../sdk/session/api-types.ts';

/** Longer names of fields, which the plugin chooses, are cut in errors. */
const FIELD_SHOWN_CHARS = 100;
const BYTES_ADVICE =
  'Return a text made by new TextDecoder().decode(bytes), or a picture as { content: [{ type: "image", mimeType: "image/png", data }] } with its base64 text as data.';

/** Handlers may leave out `isError`. */
const answered = toolResult.extend({ isError: z.boolean().default(false) });

export const failedTool = (text: string): ToolResult => ({ content: [{ type: 'text', text }], isError: true });

/** The text of a problem for the agent, with the places that its detail does not name. */
export function describeProblem(detail: string, errors: readonly ProblemLocation[] = []): string {
  // The detail often states the first error.
  const others = errors.filter(({ message }, index) => index > 0 || !detail.includes(message));
  return [detail, ...others.map(({ field, message }) => `${field ?? 'arguments'}: ${message}`)].join('\n');
}

/** Validates a handler's result. @throws Problem `plugin_failed` when it is malformed or too large */
export function readToolResult(name: string, answer: unknown, maxBytes: number): ToolResult {
  if (answer === undefined)
    throw new Problem('plugin_failed', `${name} returned nothing. Return a string or a JSON value.`);
  const checked = answered.safeParse(
    hasContent(answer) ? answer : { content: [{ type: 'text', text: toText(name, answer, maxBytes) }] },
    { error: describeFieldFault },
  );
  if (!checked.success) {
    const fault = locateFault(checked.error);
    throw new Problem('plugin_failed', `${name} returned a malformed tool result: ${fault}.`);
  }
  if (Buffer.byteLength(JSON.stringify(checked.data)) > maxBytes)
    throw new Problem('plugin_failed', `${name} returned more than ${maxBytes} bytes.`);
  return checked.data;
}

/** A result as one text, with the type and size of each picture instead of its bytes. */
export const formatContent = ({ content }: ToolResult): string => content.map(formatPart).join('\n');

function formatPart(part: ToolResult['content'][number]): string {
  if (part.type === 'text') return part.text;
  if (part.type === 'json') return JSON.stringify(part.json);
  return `[${part.mimeType}, ${Math.ceil(Buffer.byteLength(part.data, 'base64') / KIB)} KB]`;
}

/** Whether it is a list of parts. Answers of vendors often have a text `content`: with `isError`, it is a mistake of the author. */
const hasContent = (answer: unknown): boolean =>
  isRecord(answer) &&
  Object.hasOwn(answer, 'content') &&
  (Array.isArray(answer.content) || Object.hasOwn(answer, 'isError'));

function toText(name: string, answer: unknown, maxBytes: number): string {
  if (typeof answer === 'string') return answer;
  const text = JSON.stringify(answer);
  // A longer one is refused for its length.
  if (text.length <= maxBytes) refuseBytes(name, answer);
  return text;
}

/** @throws Problem `plugin_failed` for bytes: an agent would read them as a list of numbers, each with its place */
function refuseBytes(name: string, answer: unknown): void {
  JSON.stringify(answer, function (this: unknown, key: string, value: unknown) {
    if (!(value instanceof Uint8Array)) return value;
    const field = Array.isArray(this)
      ? `item ${key} of a list`
      : `its field ${JSON.stringify(key.slice(0, FIELD_SHOWN_CHARS))}`;
    throw new Problem('plugin_failed', `${name} returned bytes${key === '' ? '' : ` in ${field}`}. ${BYTES_ADVICE}`);
  });
}
