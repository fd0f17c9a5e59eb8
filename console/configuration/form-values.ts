/** The form values of settings and secrets. */
import type { components } from '../rest/schema.d.ts';

export type Fields = components['schemas']['ConfigurationFields'];
export type Values = Readonly<Record<string, string>>;

/** What the user has changed in the form. Every other field shows what the installation has, also when that changes. */
export interface FormValues {
  readonly settings: Values;
  /** New values only: the service never returns stored secrets. */
  readonly secrets: Values;
}

/** What the installation has. */
export interface StoredValues {
  readonly settings: Values;
  readonly secretNames: readonly string[];
}

export const UNCHANGED: FormValues = { settings: {}, secrets: {} };
export const NOTHING_STORED: StoredValues = { settings: {}, secretNames: [] };

export const isChanged = ({ settings, secrets }: FormValues): boolean =>
  Object.keys(settings).length > 0 || Object.values(secrets).some((value) => value !== '');

/** Returns the value that the form shows. */
export function readSetting(
  { name, default: fallback }: Fields['settings'][number],
  filled: FormValues,
  { settings }: StoredValues,
): string {
  return filled.settings[name] ?? settings[name] ?? fallback ?? '';
}

/** Finds the required fields that have no value. */
export function listMissing(fields: Fields, filled: FormValues, stored: StoredValues) {
  return {
    settings: fields.settings.filter(
      (field) => field.required && field.default === null && readSetting(field, filled, stored) === '',
    ),
    secrets: fields.secrets.filter(
      ({ name, required }) => required && !filled.secrets[name] && !stored.secretNames.includes(name),
    ),
  };
}

/** Keeps the values of these fields. Another version may lack some. */
export function pickFields(fields: Fields, { settings, secrets }: FormValues): FormValues {
  const pick = (named: readonly { readonly name: string }[], values: Values) =>
    Object.fromEntries(Object.entries(values).filter(([name]) => named.some((field) => field.name === name)));
  return { settings: pick(fields.settings, settings), secrets: pick(fields.secrets, secrets) };
}
