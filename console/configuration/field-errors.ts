/** Errors in the fields of a configuration, by field. */
import { Problem } from '../rest/problem.ts';
import type { Fields, FormValues } from './form-values.ts';

/** By `settings.<name>` or `secrets.<name>`, as the service names them. */
export type FieldErrors = Readonly<Record<string, string>>;

/** Finds required fields without a value. @param secretNames secrets that have a value already */
export function findMissing(fields: Fields, filled: FormValues, secretNames: readonly string[]): FieldErrors {
  const settings = fields.settings
    .filter(({ name, required, default: fallback }) => required && !filled.settings[name] && fallback === null)
    .map(({ name }) => `settings.${name}`);
  const secrets = fields.secrets
    .filter(({ name, required }) => required && !filled.secrets[name] && !secretNames.includes(name))
    .map(({ name }) => `secrets.${name}`);
  return Object.fromEntries([...settings, ...secrets].map((field) => [field, 'is required']));
}

/** The service refused values. The message names fields by their labels. */
class RefusedValuesError extends Error {
  readonly fieldErrors: FieldErrors;

  constructor(fieldErrors: FieldErrors, fields: Fields) {
    const sentences = Object.entries(fieldErrors).map(([field, message]) => `${findLabel(field, fields)} ${message}.`);
    super(sentences.join(' '));
    this.fieldErrors = fieldErrors;
  }
}

/** Turns the service's refusal of values into one with labels. Returns any other error as it is. */
export function explainRefusal(error: unknown, fields: Fields): unknown {
  const places = error instanceof Problem ? (error.body.errors ?? []) : [];
  const errors = places.flatMap(({ field, message }) => (field === undefined ? [] : [[field, message] as const]));
  return errors.length === 0 ? error : new RefusedValuesError(Object.fromEntries(errors), fields);
}

export const readFieldErrors = (error: unknown): FieldErrors =>
  error instanceof RefusedValuesError ? error.fieldErrors : {};

function findLabel(field: string, { settings, secrets }: Fields): string {
  const setting = settings.find(({ name }) => `settings.${name}` === field);
  const secret = secrets.find(({ name }) => `secrets.${name}` === field);
  return (setting ?? secret)?.label ?? field;
}
