/** Builds contexts of hooks and data of events from given fields and the row's example, and validates them. */
import type { z } from 'zod';
import { describeFieldFault, locateFault } from './field-faults.ts';
import { isRecord } from './is-record.ts';

type Fields = Readonly<Record<string, unknown>>;

/**
 * Adds missing fields from the example.
 *
 * @param what the hook or event in errors
 * @throws Error when a field is unknown or invalid
 */
export function completeFields(what: string, schema: z.ZodObject, example: Fields, given: Fields): Fields {
  const unknown = Object.keys(given).find((key) => !Object.hasOwn(schema.shape, key));
  if (unknown !== undefined)
    throw new Error(`${what} has no field ${unknown}; it has ${Object.keys(schema.shape).join(', ')}.`);
  const context: Record<string, unknown> = { ...example };
  for (const [key, value] of Object.entries(given)) {
    const field = schema.shape[key] as z.ZodType;
    // A complete field stays as it is; an incomplete one gets the example's fields, too.
    context[key] = field.safeParse(value).success ? value : mergeFields(example[key], value);
  }
  const checked = schema.safeParse(context, { error: describeFieldFault });
  if (checked.success) return checked.data;
  throw new Error(`${what}: ${locateFault(checked.error)}.`);
}

function mergeFields(example: unknown, given: unknown): unknown {
  if (!isFields(example) || !isFields(given)) return given;
  const whole: Record<string, unknown> = { ...example };
  for (const [key, value] of Object.entries(given)) whole[key] = mergeFields(example[key], value);
  return whole;
}

const isFields = (value: unknown): value is Fields => isRecord(value) && !(value instanceof Uint8Array);
