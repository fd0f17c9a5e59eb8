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

export const hasSecrets = ({ secrets }: FormValues): boolean => Object.values(secrets).some((value) => value !== '');

export const isChanged = (values: FormValues): boolean => Object.keys(values.settings).length > 0 || hasSecrets(values);

type Setting = Fields['settings'][number];

/** An empty value resets the setting to its default. The form offers that only where there is no default to choose. */
const isAllowed = ({ enum: options, default: fallback }: Setting, value: string): boolean =>
  options === null || options.includes(value) || (value === '' && fallback === null);

/**
 * Returns the value that the form shows. Like the service, it skips a value of another version that this one does not allow: a
 * select without that option would show its first one, which is not in force.
 */
export function readSetting(field: Setting, filled: FormValues, { settings }: StoredValues): string {
  const values = [filled.settings[field.name], settings[field.name]];
  return values.find((value) => value !== undefined && isAllowed(field, value)) ?? field.default ?? '';
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

/** Keeps the values that these fields allow. Another version may lack some fields or options. */
export function pickFields(fields: Fields, { settings, secrets }: FormValues): FormValues {
  const pick = (values: Values, isKept: (name: string, value: string) => boolean) =>
    Object.fromEntries(Object.entries(values).filter(([name, value]) => isKept(name, value)));
  return {
    settings: pick(settings, (name, value) =>
      fields.settings.some((field) => field.name === name && isAllowed(field, value)),
    ),
    secrets: pick(secrets, (name) => fields.secrets.some((field) => field.name === name)),
  };
}
