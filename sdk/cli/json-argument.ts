/** Parses JSON arguments of the command line. */
import { isRecord } from '../contract/is-record.ts';
import { findInexactNumber } from '../contract/untrusted-json.ts';
import { CommandError } from './failure.ts';

/** @param text a JSON object; undefined or blank for `{}` @param example shown in the error @throws CommandError */
export function parseJsonObject(text: string | undefined, example: string): Readonly<Record<string, unknown>> {
  if (text === undefined || text.trim() === '') return {};
  const message = `“${text}” is not a JSON object. Example: '${example}'.`;
  const fault = new CommandError('usage', message);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw fault;
  }
  if (!isRecord(value)) throw fault;
  const inexact = findInexactNumber(text);
  if (inexact) throw new CommandError('usage', `The JSON object ${inexact.message}. Pass it as a string.`);
  return value;
}
