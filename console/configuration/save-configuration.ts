/** Saves the form values of settings and secrets. */
import { readBody, rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { Problem } from '../rest/problem.ts';
import { type FormValues, listChangedSettings, type StoredValues } from './form-values.ts';

interface Target extends Pick<StoredValues, 'settings'> {
  /** Id of the installation. */
  readonly id: string;
  /** The version whose secrets the form showed. Null: none. */
  readonly versionId: string | null;
}

/**
 * Saves what the user changed, and nothing else: another browser may have changed the rest.
 *
 * @returns what the installation has now; null: nothing was changed
 * @throws Problem
 */
export async function saveConfiguration(target: Target, filled: FormValues): Promise<Installation | null> {
  // An empty field resets the setting to its default.
  const changed = listChangedSettings(filled, target);
  const settings = Object.fromEntries(changed.map(([name, value]) => [name, value === '' ? null : value]));
  const secrets = Object.fromEntries(Object.entries(filled.secrets).filter(([, value]) => value !== ''));
  if (changed.length === 0 && Object.keys(secrets).length === 0) return null;
  const params = { path: { id: target.id } };
  const body = { settings, secrets, ...(target.versionId === null ? {} : { versionId: target.versionId }) };
  return readBody(rest.POST('/installations/{id}/configure', { params, body }));
}

/** Whether values were refused because another version runs than the one that was shown. Only this refusal names no field. */
export const isForOtherVersion = (error: unknown): boolean =>
  error instanceof Problem && error.code === 'bad_request' && !error.body.errors?.length;
