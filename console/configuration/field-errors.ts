/** Errors in the fields of a configuration. */
import { Problem } from '../rest/problem.ts';
import { FieldFaultError } from '../shell/form-fields.tsx';
import {
  type Fields,
  type FormValues,
  hasSecrets,
  listChangedSettings,
  listMissing,
  type StoredValues,
} from './form-values.ts';

/**
 * Fields without a value can be filled in later, if there is something else to save.
 *
 * @throws FieldFaultError if a required field has no value and nothing would be saved, or its value would be removed
 */
export function requireValues(fields: Fields, filled: FormValues, stored: StoredValues): void {
  const missing = listMissing(fields, filled, stored);
  const changed = listChangedSettings(filled, stored);
  const isRemoved = ({ name }: { readonly name: string }) => changed.some(([one]) => one === name);
  const isNothingSaved = changed.length === 0 && !hasSecrets(filled);
  const { settings, secrets } = isNothingSaved
    ? missing
    : { settings: missing.settings.filter(isRemoved), secrets: [] };
  const names = [...settings.map(({ name }) => `settings.${name}`), ...secrets.map(({ name }) => `secrets.${name}`)];
  if (names.length > 0) throw new FieldFaultError(names.map((field) => ({ field, message: 'is required' })));
}

/** Names the fields of a refusal by their labels, for where its form is gone. Returns any other error as it is. */
export function labelRefusal(error: unknown, fields: Fields): unknown {
  const places = error instanceof Problem ? (error.body.errors ?? []) : [];
  const sentences = places.map(({ field, message }) => `${findLabel(field ?? '', fields)} ${message}.`);
  return sentences.length === 0 ? error : new Error(sentences.join(' '), { cause: error });
}

function findLabel(field: string, { settings, secrets }: Fields): string {
  const setting = settings.find(({ name }) => `settings.${name}` === field);
  const secret = secrets.find(({ name }) => `secrets.${name}` === field);
  return (setting ?? secret)?.label ?? field;
}
