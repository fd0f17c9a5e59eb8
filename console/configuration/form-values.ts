/** What a user has filled in for a plugin's settings and secrets, and how it is saved. */
import { rest } from '../rest/client.ts';
import type { components } from '../rest/schema.d.ts';

export type Fields = components['schemas']['ConfigurationFields'];
export type Values = Readonly<Record<string, string>>;
export interface FormValues {
  readonly settings: Values;
  /** Only what is new: a secret never comes back. */
  readonly secrets: Values;
}

/** The form as it opens: what is set, else the defaults. */
export function createFormValues(fields: Fields, stored: Values): FormValues {
  const settings = fields.settings.map((field) => [field.name, stored[field.name] ?? field.default ?? '']);
  return { settings: Object.fromEntries(settings), secrets: {} };
}

/** Saves what differs from `stored`; without a difference nothing is sent */
export async function saveConfiguration(id: string, filled: FormValues, stored: Values): Promise<void> {
  // An empty field is no value: the plugin's default holds.
  const changed = Object.entries(filled.settings).filter(([name, value]) => value !== (stored[name] ?? ''));
  const settings = Object.fromEntries(changed.map(([name, value]) => [name, value === '' ? null : value]));
  const secrets = Object.fromEntries(Object.entries(filled.secrets).filter(([, value]) => value !== ''));
  if (changed.length === 0 && Object.keys(secrets).length === 0) return;
  await rest.POST('/installations/{id}/configure', { params: { path: { id } }, body: { settings, secrets } });
}
