/** JSON that was typed on a command line. */
import { CommandError } from './failure.ts';

/**
 * @param text JSON, or nothing for `{}`
 * @param example shown to whoever typed something else
 * @throws CommandError
 */
export function typedObject(text: string | undefined, example: string): Readonly<Record<string, unknown>> {
  if (text === undefined || text.trim() === '') return {};
  const fault = new CommandError('usage', `“${text}” is no JSON object: write it like '${example}'.`, {
    exit: 'usage',
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw fault;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw fault;
  return value as Record<string, unknown>;
}
