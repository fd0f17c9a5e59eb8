/** The form values of settings and secrets. */
import type { components } from '../rest/schema.d.ts';

export type Fields = components['schemas']['ConfigurationFields'];
export type Values = Readonly<Record<string, string>>;
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
