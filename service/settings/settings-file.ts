/** Reads a JSON file that a setting names. */
import { readFile } from 'node:fs/promises';
import type { z } from 'zod';
import { describeFieldFault } from '../../sdk/contract/field-faults.ts';
import { SettingsError } from './settings.ts';

/** @throws SettingsError that names the setting and the fault, without values of the file, which may be keys */
export async function readSettingsFile<Schema extends z.ZodType>(
  setting: string,
  path: string,
  schema: Schema,
): Promise<z.output<Schema>> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new SettingsError(`${setting} cannot be read: ${path} (${error.code}).`);
  });
  const parsed = schema.safeParse(parseJson(setting, text), { error: describeFieldFault });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new SettingsError(`${setting}: ${issue?.path.join('.') || 'the file'}: ${issue?.message ?? 'is not valid'}.`);
}

function parseJson(setting: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new SettingsError(`${setting} is not valid JSON.`);
  }
}
