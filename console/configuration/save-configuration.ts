/** Saves the form values of settings and secrets. */
import { rest } from '../rest/client.ts';
import { explainRefusal } from './field-errors.ts';
import type { Fields, FormValues, Values } from './form-values.ts';

/** Where values are saved. */
interface Target {
  /** Id of the installation. */
  readonly id: string;
  readonly fields: Fields;
  /** The settings that it has. */
  readonly stored: Values;
}

/** Saves the values that differ from the stored ones. @throws RefusedValuesError, or a Problem about something else */
export async function saveConfiguration({ id, fields, stored }: Target, filled: FormValues): Promise<void> {
  // An empty field resets the setting to its default.
  const changed = Object.entries(filled.settings).filter(([name, value]) => value !== (stored[name] ?? ''));
  const settings = Object.fromEntries(changed.map(([name, value]) => [name, value === '' ? null : value]));
  const secrets = Object.fromEntries(Object.entries(filled.secrets).filter(([, value]) => value !== ''));
  if (changed.length === 0 && Object.keys(secrets).length === 0) return;
  const request = { params: { path: { id } }, body: { settings, secrets } };
  await rest.POST('/installations/{id}/configure', request).catch((error: unknown) => {
    throw explainRefusal(error, fields);
  });
}
