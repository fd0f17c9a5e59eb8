/** Whether what tools call their `parameters` is JSON Schema 2020-12. Runs in a worker thread: schemas are a stranger's. */
import { Ajv2020 } from 'ajv/dist/2020.js';
import { KIB } from '../../sdk/limits.ts';

/** A schema goes to the model with every request; a longer one is no tool description. Bytes of JSON. */
export const SCHEMA_MAX_BYTES = 64 * KIB;

export interface SchemaFault {
  readonly tool: string;
  readonly message: string;
}

/** Checks each schema on its own; nothing is fetched, and one schema's `$id` means nothing to the next. */
export function checkToolSchemas(schemas: Readonly<Record<string, unknown>>): SchemaFault[] {
  return Object.entries(schemas).flatMap(([tool, schema]) => {
    const message = schemaFault(schema);
    return message === null ? [] : [{ tool, message }];
  });
}

function schemaFault(schema: unknown): string | null {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return 'must be a JSON Schema object';
  if (Buffer.byteLength(JSON.stringify(schema)) > SCHEMA_MAX_BYTES) return `is larger than ${SCHEMA_MAX_BYTES} bytes`;
  if ('$async' in schema) return 'is no JSON Schema 2020-12: $async is not part of it';
  try {
    // Formats and unknown keywords are annotations in 2020-12, so they are no faults here.
    const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false, addUsedSchema: false });
    ajv.compile(schema);
    return null;
  } catch (error) {
    if (error instanceof RangeError) return 'is nested too deeply';
    return `is no JSON Schema 2020-12: ${error instanceof Error ? error.message.slice(0, 500) : 'it cannot be read'}`;
  }
}
