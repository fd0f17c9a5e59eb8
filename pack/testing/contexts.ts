/** Contexts of hooks and data of events: what the test says, the row's example for the rest, checked as the service does. */
import { isDeepStrictEqual } from 'node:util';
import { closest } from 'fastest-levenshtein';
import type { z } from 'zod';
import { type HookName, hooks } from '../../sdk/contract/protocol.ts';

type Fields = Readonly<Record<string, unknown>>;

/** The hook of a name, with or without `middleware.`. @throws Error that offers the nearest */
export function hookNamed(name: string): HookName {
  for (const full of [name, `middleware.${name}`]) if (Object.hasOwn(hooks, full)) return full as HookName;
  throw new Error(`There is no hook ${name}; did you mean ${closest(name, Object.keys(hooks))}?`);
}

/**
 * Fills a context up.
 *
 * @param what names it in errors
 * @throws Error: a field is unknown or does not fit
 */
export function filled(what: string, schema: z.ZodObject, example: Fields, given: Fields): Fields {
  const unknown = Object.keys(given).find((key) => !Object.hasOwn(schema.shape, key));
  if (unknown !== undefined)
    throw new Error(`${what} has no field ${unknown}; it has ${Object.keys(schema.shape).join(', ')}.`);
  const context: Record<string, unknown> = { ...example };
  for (const [key, value] of Object.entries(given)) {
    const field = schema.shape[key] as z.ZodType;
    // A field that is whole stays as it is; of one that is not, the rest is the example's.
    context[key] = field.safeParse(value).success ? value : merged(example[key], value);
  }
  const checked = schema.safeParse(context);
  if (checked.success) return checked.data;
  const issue = checked.error.issues[0];
  throw new Error(`${what}: ${issue?.path.join('.')}: ${issue?.message}.`);
}

function merged(example: unknown, given: unknown): unknown {
  if (!isFields(example) || !isFields(given)) return given;
  const whole: Record<string, unknown> = { ...example };
  for (const [key, value] of Object.entries(given))
    whole[key] = isDeepStrictEqual(example[key], value) ? value : merged(example[key], value);
  return whole;
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
