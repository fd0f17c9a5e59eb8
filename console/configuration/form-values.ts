/** The form values of settings and secrets, and how to save them. */
import { rest } from '../rest/client.ts';
import type { components } from '../rest/schema.d.ts';

export type Fields = components['schemas']['ConfigurationFields'];
type Values = Readonly<Record<string, string>>;
export interface FormValues {
  readonly settings: Values;
  /** New values only: the service never returns stored secrets. */
  readonly secrets: Values;
}

/** Creates initial form values from stored values and defaults. */
export function createFormValues(fields: Fields, stored: Values): FormValues {
  const settings = fields.settings.map((field) => [field.name, stored[field.name] ?? field.default ?? '']);
  return { settings: Object.fromEntries(settings), secrets: {} };
}

/** Saves the values that differ from `stored`. */
export async function saveConfiguration(id: string, filled: FormValues, stored: Values): Promise<void> {
  // An empty field resets the setting to its default.
  const changed = Object.entries(filled.settings).filter(([name, value]) => value !== (stored[name] ?? ''));
  const settings = Object.fromEntries(changed.map(([name, value]) => [name, value === '' ? null : value]));
  const secrets = Object.fromEntries(Object.entries(filled.secrets).filter(([, value]) => value !== ''));
  if (changed.length === 0 && Object.keys(secrets).length === 0) return;
  await rest.POST('/installations/{id}/configure', { params: { path: { id } }, body: { settings, secrets } });
}
