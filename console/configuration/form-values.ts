/** The form values of settings and secrets. */
import type { components } from '../../sdk/rest/schema.d.ts';

export type Fields = components['schemas']['ConfigurationFields'];
export type Values = Readonly<Record<string, string>>;

/** What the user has changed in the form. Every other field shows what the installation has, also when that changes. */
export interface FormValues {
  readonly settings: Values;
  /** What was stored in these settings when the user began to change them. */
  readonly replaced: Values;
  /** New values only: the service never returns stored secrets. */
  readonly secrets: Values;
}

/** What the installation has. */
export interface StoredValues {
  readonly settings: Values;
  readonly secretNames: readonly string[];
}

export const UNCHANGED: FormValues = { settings: {}, replaced: {}, secrets: {} };
export const NOTHING_STORED: StoredValues = { settings: {}, secretNames: [] };

/** Undefined: it has no value. A field may be named like a member of every object, such as `constructor`. */
export const findValue = (values: Values, name: string): string | undefined =>
  Object.hasOwn(values, name) ? values[name] : undefined;

export const hasSecrets = ({ secrets }: FormValues): boolean => Object.values(secrets).some((value) => value !== '');

export const isChanged = (values: FormValues): boolean => Object.keys(values.settings).length > 0 || hasSecrets(values);

/** @param stored what is stored now, which remains known as what the first change replaces */
export const changeSetting = (filled: FormValues, stored: StoredValues, name: string, value: string): FormValues => ({
  ...filled,
  settings: { ...filled.settings, [name]: value },
  replaced: { [name]: findValue(stored.settings, name) ?? '', ...filled.replaced },
});

/** Lists names and values of the settings that a save changes. */
export const listChangedSettings = ({ settings }: FormValues, stored: Pick<StoredValues, 'settings'>) =>
  Object.entries(settings).filter(([name, value]) => value !== (findValue(stored.settings, name) ?? ''));

/** Returns what was saved elsewhere in a setting since the user began to change it. Null: nothing else. */
export function findConflict(name: string, filled: FormValues, stored: StoredValues): string | null {
  const typed = findValue(filled.settings, name);
  const before = findValue(filled.replaced, name);
  const now = findValue(stored.settings, name) ?? '';
  return typed === undefined || before === now || typed === now ? null : now;
}

/** Returns the changes that the user made during a save, to what is stored since. */
export const rebase = (changed: FormValues, stored: StoredValues): FormValues => ({
  ...changed,
  replaced: Object.fromEntries(
    Object.keys(changed.settings).map((name) => [name, findValue(stored.settings, name) ?? '']),
  ),
});

export const mergeValues = (first: FormValues, second: FormValues): FormValues => ({
  settings: { ...first.settings, ...second.settings },
  replaced: { ...second.replaced, ...first.replaced },
  secrets: { ...first.secrets, ...second.secrets },
});

type Setting = Fields['settings'][number];

/** An empty value resets the setting to its default. The form offers that only where there is no default to choose. */
const isAllowed = ({ enum: options, default: fallback }: Setting, value: string): boolean =>
  options === null || options.includes(value) || (value === '' && fallback === null);

/**
 * Returns the value that the form shows. Like the service, it skips a value of another version that this one does not allow: a
 * select without that option would show its first one, which is not in force.
 */
export function readSetting(field: Setting, filled: FormValues, { settings }: StoredValues): string {
  const values = [findValue(filled.settings, field.name), findValue(settings, field.name)];
  return values.find((value) => value !== undefined && isAllowed(field, value)) ?? field.default ?? '';
}

/** Finds the required fields that have no value. */
export function listMissing(fields: Fields, filled: FormValues, stored: StoredValues) {
  return {
    settings: fields.settings.filter(
      // An empty default is no value.
      (field) => field.required && !field.default && readSetting(field, filled, stored) === '',
    ),
    secrets: fields.secrets.filter(
      ({ name, required }) => required && !findValue(filled.secrets, name) && !stored.secretNames.includes(name),
    ),
  };
}

/** Keeps the values that these fields allow. Another version may lack some fields or options. */
export function pickFields(fields: Fields, { settings, replaced, secrets }: FormValues): FormValues {
  const pick = (values: Values, isKept: (name: string, value: string) => boolean) =>
    Object.fromEntries(Object.entries(values).filter(([name, value]) => isKept(name, value)));
  return {
    settings: pick(settings, (name, value) =>
      fields.settings.some((field) => field.name === name && isAllowed(field, value)),
    ),
    replaced,
    secrets: pick(secrets, (name) => fields.secrets.some((field) => field.name === name)),
  };
}
