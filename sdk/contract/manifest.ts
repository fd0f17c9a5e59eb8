/** The schema of the frontmatter in a package's `readme.md`, and the configuration it asks of an installation. */
import { z } from 'zod';
import { findCapabilityFault, findMissingCapabilities, findSecretUseFault } from './capabilities.ts';
import { getOwn } from './get-own.ts';
import { surfaceName } from './payloads.ts';
import { describeHiddenCharacter, type TextShape } from './visible-text.ts';

/** Characters. Cards and menus show the name. */
const NAME_MAX_CHARS = 64;
/** Characters. Cards show one or two sentences. */
const DESCRIPTION_MAX_CHARS = 280;
/** A user must be able to read the whole list before consenting. */
const CAPABILITIES_MAX = 64;
/** A user must be able to fill in the form. */
export const FIELDS_MAX = 64;
const OPTIONS_MAX = 100;
const SECRET_USES_MAX = 16;
const LABEL_MAX_CHARS = 200;
/** Characters. Every hook context carries all settings, so they are kept short. */
export const SETTING_MAX_CHARS = 4096;
/** Characters. Fits several private keys in PEM. */
export const SECRET_MAX_CHARS = 16_384;

/** A check for text of authors that people or models read. */
export const refuseHidden = (shape: TextShape) => refuseFaulty((value) => describeHiddenCharacter(value, shape));

/** A check by a function that returns what is wrong with a text. */
function refuseFaulty(findFault: (value: string) => string | null) {
  return (value: string, context: z.core.$RefinementCtx<string>): void => {
    const message = findFault(value);
    if (message !== null) context.addIssue(message);
  };
}

export const ONE_LINE = 'must be one line';
/** One line of display text, without hidden characters or surrounding white space. */
export const label = (max: number) =>
  z
    .string({ error: (issue) => (issue.input === undefined ? 'is required' : 'must be a string; put it in quotes') })
    .min(1, 'must not be empty')
    .max(max, `must be at most ${max} characters`)
    .refine((value) => !value.includes('\n'), { error: ONE_LINE, abort: true })
    .superRefine(refuseHidden('line'))
    .refine((value) => value.trim() === value, 'must not start or end with white space');

const settingValue = z
  .string({ error: 'must be a string; put it in quotes' })
  .max(SETTING_MAX_CHARS)
  .superRefine(refuseHidden('lines'));
const setting = z
  .strictObject({
    label: label(LABEL_MAX_CHARS).optional().describe('The name of the field in forms. Default: its key.'),
    description: label(1000).optional().describe('Help below the field.'),
    default: settingValue
      .optional()
      .describe('The value of an installation whose user set none. One of `enum`, if there is one.'),
    enum: z.array(settingValue).min(1).max(OPTIONS_MAX).optional().describe('The values that can be chosen.'),
    required: z.boolean().default(false).describe('The plugin runs only with a value.'),
  })
  .refine((row) => row.default === undefined || !row.enum || row.enum.includes(row.default), {
    path: ['default'],
    message: 'must be one of the values in enum',
  });
const secret = z.strictObject({
  label: label(LABEL_MAX_CHARS).optional().describe('The name of the field in forms. Default: its key.'),
  description: label(1000).optional().describe('Help below the field.'),
  required: z.boolean().default(false).describe('The plugin runs only with a value.'),
  use: z
    .array(z.string({ error: 'must be a string; put it in quotes' }).superRefine(refuseFaulty(findSecretUseFault)))
    .min(1, 'must name at least one use; leave it out if the plugin must read the value')
    .max(SECRET_USES_MAX, `must have at most ${SECRET_USES_MAX} entries`)
    .refine((uses) => new Set(uses).size === uses.length, 'must not name a use twice')
    .optional()
    .describe(
      'The uses of the secret by the host. The plugin then gets a handle instead of the value: `webhooks`, `http:<host>`.',
    ),
});

const fieldsSchema = <T extends z.ZodType>(row: T) =>
  z
    .record(surfaceName, row)
    .refine((rows) => Object.keys(rows).length <= FIELDS_MAX, `must have at most ${FIELDS_MAX} entries`);

const fields = z.strictObject({
  name: label(NAME_MAX_CHARS).describe('The plugin’s name, on one line.'),
  description: label(DESCRIPTION_MAX_CHARS).describe('One or two sentences for its card, on one line.'),
  capabilities: z
    .array(z.string({ error: 'must be a string' }).superRefine(refuseFaulty(findCapabilityFault)))
    .max(CAPABILITIES_MAX, `must have at most ${CAPABILITIES_MAX} entries`)
    .default([])
    .describe('The capabilities of the code: see below.'),
  settings: fieldsSchema(setting).default({}).describe(`The settings of the user, at most ${FIELDS_MAX} fields.`),
  secrets: fieldsSchema(secret).default({}).describe(`Passwords and keys that the user gives, at most ${FIELDS_MAX}.`),
});
export const manifest = fields.superRefine(({ capabilities, secrets }, context) => {
  for (const [name, { use = [] }] of Object.entries(secrets)) {
    for (const [index, one] of use.entries()) {
      if (!one.startsWith('http:') || findMissingCapabilities([`host.${one}`], capabilities).length === 0) continue;
      const message = `needs the capability host.${one}, without which host.http.fetch cannot reach the host`;
      context.addIssue({ code: 'custom', path: ['secrets', name, 'use', index], message });
    }
  }
});
export type Manifest = z.infer<typeof manifest>;

/** A stored setting or secret. */
interface Placed {
  /** Its place among those of its kind in the frontmatter, from 0: the database sorts the keys of an object. Missing in versions of older releases. */
  readonly place?: number;
}

/** Lists settings or secrets in the order of the frontmatter. */
export const listFields = <Row>(fields: Readonly<Record<string, Row & Placed>>): [name: string, row: Row][] =>
  Object.entries(fields).toSorted(([, a], [, b]) => (a.place ?? 0) - (b.place ?? 0));

/** Returns settings or secrets with their places, to store them. */
export const placeFields = <Row>(fields: Readonly<Record<string, Row>>): Record<string, Row & Placed> =>
  Object.fromEntries(Object.entries(fields).map(([name, row], place) => [name, { ...row, place }]));

/**
 * Merges the user's settings over the manifest's defaults. Skips values that this version does not declare or allow, so
 * that an update never passes a plugin a value its manifest rejects.
 */
export function resolveSettings(manifest: Manifest, stored: Readonly<Record<string, string>>): Record<string, string> {
  const values = Object.entries(manifest.settings).flatMap(([name, row]): [string, string][] => {
    const value = getOwn(stored, name);
    if (value !== undefined && (!row.enum || row.enum.includes(value))) return [[name, value]];
    return row.default === undefined ? [] : [[name, row.default]];
  });
  return Object.fromEntries(values);
}

/** By secret, how the host uses it for the plugin. Null: the plugin reads it itself. */
export const listSecretUses = ({ secrets }: Manifest): Record<string, readonly string[] | null> =>
  Object.fromEntries(Object.entries(secrets).map(([name, { use }]) => [name, use ?? null]));

/** The capabilities that follow from a version's secrets, or from one of them: to read it, or to have the host use it. */
export const listSecretCapabilities = ({ secrets }: Manifest, only?: string): string[] =>
  Object.entries(secrets)
    .filter(([name]) => only === undefined || name === only)
    .flatMap(([name, { use }]) => (use ? use.map((one) => `secrets.${name}:${one}`) : [`secrets.${name}`]));

/** Lists required settings and secrets without a value. A setting and a secret may have the same name. */
export function listMissingFields(
  manifest: Manifest,
  stored: Readonly<Record<string, string>>,
  secretNames: readonly string[],
): [name: string, row: { readonly label?: string | undefined }][] {
  const values = resolveSettings(manifest, stored);
  // A setting may be named like a member of every object, such as `constructor`.
  const hasValue = (name: string): boolean => Object.hasOwn(values, name) && values[name] !== '';
  return [
    ...listFields(manifest.settings).filter(([name, row]) => row.required && !hasValue(name)),
    ...listFields(manifest.secrets).filter(([name, row]) => row.required && !secretNames.includes(name)),
  ];
}

/** The names of required settings and secrets without a value. Empty when the installation can run. */
export const findMissingConfiguration = (...values: Parameters<typeof listMissingFields>): string[] =>
  listMissingFields(...values).map(([name]) => name);

/** The names of a version's settings, and of all that a new installation needs to run. */
export const nameFields = (manifest: Manifest): { settings: string[]; requiredFields: string[] } => ({
  settings: listFields(manifest.settings).map(([name]) => name),
  requiredFields: findMissingConfiguration(manifest, {}, []),
});
