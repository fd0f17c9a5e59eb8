/**
 * Checks that the `parameters` of tools are JSON Schema 2020-12. Runs in a worker thread, because schemas are
 * untrusted.
 */
import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import { KIB } from '../../sdk/contract/limits.ts';
import { compileSchema, findSchemaFault } from './schema-compiler.ts';
import { type CostFault, findReferenceFault, PatternChecks } from './schema-costs.ts';
import { collectSubschemas, type SchemaObject, type Subschema } from './schema-walk.ts';

/** Maximum size of a schema, which is sent to the model with every request. Bytes of JSON. */
const SCHEMA_MAX_BYTES = 64 * KIB;
const MESSAGE_MAX_CHARS = 500;

export interface SchemaFault extends CostFault {
  readonly tool: string;
}

/** Checks each schema separately. Fetches nothing, and an `$id` has no effect on other schemas. */
export async function checkToolSchemas(schemas: Readonly<Record<string, unknown>>): Promise<SchemaFault[]> {
  const patterns = new PatternChecks();
  const faults: SchemaFault[] = [];
  for (const [tool, schema] of Object.entries(schemas)) {
    for (const fault of await faultsOf(schema, patterns)) faults.push({ tool, ...fault });
  }
  return faults;
}

async function faultsOf(schema: unknown, patterns: PatternChecks): Promise<CostFault[]> {
  const whole = (message: string): CostFault[] => [{ at: '', message }];
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) {
    return whole('must be a JSON Schema object');
  }
  if (Buffer.byteLength(JSON.stringify(schema)) > SCHEMA_MAX_BYTES) {
    return whole(`is larger than ${SCHEMA_MAX_BYTES} bytes`);
  }
  if ('$async' in schema) return whole('is not JSON Schema 2020-12: $async is not part of it');
  const nodes = collectSubschemas(schema as SchemaObject);
  const endless = findReferenceFault(nodes);
  if (endless) return [endless];
  const fault = compileFault(schema as SchemaObject, nodes);
  return fault ? [fault] : patterns.faults(nodes);
}

function compileFault(schema: SchemaObject, nodes: readonly Subschema[]): CostFault | null {
  try {
    const fault = findSchemaFault(schema);
    if (fault) return invalid(fault);
    compileSchema(schema);
    return null;
  } catch (error) {
    if (error instanceof RangeError) return { at: '', message: 'is nested too deeply' };
    if (error instanceof Ajv2020.MissingRefError) return remote(error.missingRef, nodes);
    const why = error instanceof Error ? error.message.slice(0, MESSAGE_MAX_CHARS) : 'it cannot be read';
    return { at: '', message: `is not JSON Schema 2020-12: ${why}` };
  }
}

const invalid = (error: ErrorObject): CostFault => ({
  at: error.instancePath,
  message: `is not JSON Schema 2020-12: it ${reasonOf(error)}`.slice(0, MESSAGE_MAX_CHARS),
});

/** Adds the allowed values, which ajv's message does not contain. */
function reasonOf(error: ErrorObject): string {
  const allowed: unknown = error.keyword === 'enum' ? error.params.allowedValues : undefined;
  if (Array.isArray(allowed)) return `must be one of ${allowed.join(', ')}`;
  return error.message ?? 'is not valid';
}

/** @param missing the reference, made absolute where the schema has an `$id` */
function remote(missing: string, nodes: readonly Subschema[]): CostFault {
  const names = (reference: unknown): boolean => typeof reference === 'string' && missing.endsWith(reference);
  const node = nodes.find(({ schema }) => names(schema.$ref) || names(schema.$dynamicRef));
  const at = node ? `${node.at}/${names(node.schema.$ref) ? '$ref' : '$dynamicRef'}` : '';
  const what = missing.slice(0, MESSAGE_MAX_CHARS);
  return { at, message: `names “${what}”, which is not in this schema: nothing is fetched, use $defs and “#/$defs/…”` };
}
