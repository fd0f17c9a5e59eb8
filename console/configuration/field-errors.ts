/** Errors in the fields of a configuration. */
import { Problem } from '../rest/problem.ts';
import { FieldFaultError } from '../shell/form-fields.tsx';
import { type Fields, type FormValues, listMissing, type StoredValues } from './form-values.ts';

/** @throws FieldFaultError if a required field has no value */
export function requireValues(fields: Fields, filled: FormValues, stored: StoredValues): void {
  const missing = listMissing(fields, filled, stored);
  const names = [
    ...missing.settings.map(({ name }) => `settings.${name}`),
    ...missing.secrets.map(({ name }) => `secrets.${name}`),
  ];
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
