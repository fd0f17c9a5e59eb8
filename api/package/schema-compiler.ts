/** Compiles JSON Schema 2020-12 that plugins bring. The meta-schema, which validates every schema, is compiled once. */
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';

// Formats and unknown keywords are annotations in 2020-12, so they are valid.
const OPTIONS = { strict: false, validateFormats: false, logger: false, addUsedSchema: false } as const;
const DIALECT = 'https://json-schema.org/draft/2020-12/schema';
const metaSchema = new Ajv2020(OPTIONS);

/** @returns the first violation of the meta-schema, or null */
export function findSchemaFault(schema: object): ErrorObject | null {
  const named = '$schema' in schema ? schema.$schema : undefined;
  // The shared instance would keep every name that a plugin chooses.
  const ajv = named === undefined || named === DIALECT ? metaSchema : new Ajv2020(OPTIONS);
  return ajv.validateSchema(schema) ? null : (ajv.errors?.[0] ?? null);
}

/** Each schema has an instance of its own, so that equal `$id`s of two plugins do not clash. */
export function compileSchema(schema: object): ValidateFunction {
  return new Ajv2020({ ...OPTIONS, validateSchema: false }).compile(schema);
}
