/** What the frontmatter of a package's `readme.md` says, and what follows from it for one installation. */
import { z } from 'zod';
import { isDeclarable } from './capabilities.ts';
import { surfaceName } from './payloads.ts';

/** Names are shown on cards and in menus. Characters. */
const NAME_MAX_CHARS = 64;
/** One or two sentences on a card. Characters. */
const DESCRIPTION_MAX_CHARS = 280;
/** More would be no list that a user can read before consenting. */
const CAPABILITIES_MAX = 64;
/** More would be no form that a user can fill in. */
const FIELDS_MAX = 64;
const OPTIONS_MAX = 100;
const LABEL_MAX_CHARS = 200;
/** Setting values travel in every hook context, so they are kept short. Characters. */
export const SETTING_MAX_CHARS = 4096;
/** A private key in PEM fits several times. Characters. */
export const SECRET_MAX_CHARS = 16_384;

/** Control characters, direction overrides and invisible spaces: they make one name look like another. */
const DECEPTIVE = /[\p{Cc}\p{Cs}\p{Co}\u00AD\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u2064\u2066-\u206F\uFEFF]/u;

/** One line of text that people read: no control, direction or invisible characters, no blank ends. */
export const label = (max: number) =>
  z
    .string({ error: (issue) => (issue.input === undefined ? 'is required' : 'must be text; put it in quotes') })
    .min(1, 'must not be empty')
    .max(max, `must be at most ${max} characters`)
    .refine((value) => !DECEPTIVE.test(value), 'must hold no control, direction or invisible characters')
    .refine((value) => value.trim() === value, 'must not start or end with white space');

const setting = z
  .strictObject({
    label: label(LABEL_MAX_CHARS).optional(),
    description: label(1000).optional(),
    default: z.string({ error: 'must be text; put it in quotes' }).max(SETTING_MAX_CHARS).optional(),
    enum: z
      .array(z.string({ error: 'must be text; put it in quotes' }).max(SETTING_MAX_CHARS))
      .min(1)
      .max(OPTIONS_MAX)
      .optional(),
    required: z.boolean().default(false),
  })
  .refine((row) => row.default === undefined || !row.enum || row.enum.includes(row.default), {
    path: ['default'],
    message: 'must be one of the values in enum',
  });
const secret = z.strictObject({
  label: label(LABEL_MAX_CHARS).optional(),
  description: label(1000).optional(),
  required: z.boolean().default(false),
});

const named = <T extends z.ZodType>(row: T) =>
  z
    .record(surfaceName, row)
    .refine((rows) => Object.keys(rows).length <= FIELDS_MAX, `must hold at most ${FIELDS_MAX} entries`);

/** The checked frontmatter. */
export const manifest = z.strictObject({
  name: label(NAME_MAX_CHARS),
  description: label(DESCRIPTION_MAX_CHARS),
  capabilities: z
    .array(
      z.string({ error: 'must be text' }).refine(isDeclarable, {
        error: (issue) =>
          `“${String(issue.input)}” is no capability; they look like host.llm, host.workspace:read or host.http:api.example.com`,
      }),
    )
    .max(CAPABILITIES_MAX, `must hold at most ${CAPABILITIES_MAX} entries`)
    .default([]),
  settings: named(setting).default({}),
  secrets: named(secret).default({}),
});
export type Manifest = z.infer<typeof manifest>;

/**
 * The settings a plugin sees: the user's values over the manifest's defaults. A value that this version no longer knows
 * or allows is left out, so that an update never hands a plugin what its manifest rules out.
 */
export function effectiveSettings(of: Manifest, stored: Readonly<Record<string, string>>): Record<string, string> {
  const values = Object.entries(of.settings).flatMap(([name, row]): [string, string][] => {
    const value = Object.hasOwn(stored, name) ? stored[name] : undefined;
    if (value !== undefined && (!row.enum || row.enum.includes(value))) return [[name, value]];
    return row.default === undefined ? [] : [[name, row.default]];
  });
  return Object.fromEntries(values);
}

/** The labels or names of the required settings and secrets that have no value yet; empty: ready to run. */
export function missingConfiguration(
  of: Manifest,
  stored: Readonly<Record<string, string>>,
  secretNames: readonly string[],
): string[] {
  const values = effectiveSettings(of, stored);
  return [
    ...Object.entries(of.settings).filter(([name, row]) => row.required && !values[name]),
    ...Object.entries(of.secrets).filter(([name, row]) => row.required && !secretNames.includes(name)),
  ].map(([name]) => name);
}
