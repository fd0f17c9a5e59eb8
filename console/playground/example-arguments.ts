/** Composes arguments of a tool that its user then fills in. */
import type { Json } from '../../sdk/session/api-types.ts';

type Schema = Readonly<Record<string, Json>>;

const EMPTY: Readonly<Record<string, Json>> = { string: '', number: 0, integer: 0, boolean: false, array: [] };

/** @returns JSON text with the required properties of the schema */
export const composeArguments = (schema: Schema): string => JSON.stringify(composeObject(schema), null, 2);

function composeObject({ properties, required }: Schema): Schema {
  const names = Array.isArray(required) ? required.filter((name) => typeof name === 'string') : [];
  return Object.fromEntries(names.map((name) => [name, composeValue(isSchema(properties) ? properties[name] : null)]));
}

function composeValue(schema: Json | undefined): Json {
  if (!isSchema(schema)) return null;
  const { type, default: fallback, enum: options, const: constant } = schema;
  const given = fallback ?? constant ?? (Array.isArray(options) ? options[0] : undefined);
  if (given !== undefined) return given;
  return type === 'object' ? composeObject(schema) : (EMPTY[String(type)] ?? null);
}

const isSchema = (value: Json | undefined): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
