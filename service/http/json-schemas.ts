/** From zod schemas to the JSON Schemas of an OpenAPI 3.1 document. Schemas with an id become components. */
import { z } from 'zod';

export type JsonSchema = z.core.JSONSchema.JSONSchema;
export type Direction = 'request' | 'answer';

const COMPONENTS = '#/components/schemas/';

export interface SchemaBook {
  /** The JSON Schema of a zod schema, with references to components. */
  convert(schema: z.ZodType, direction: Direction): JsonSchema;
  /** Every component that was referred to, by its id. */
  readonly components: Readonly<Record<string, JsonSchema>>;
}

/** Starts a book of components. One id stands for one schema. */
export function openSchemaBook(): SchemaBook {
  const components: Record<string, JsonSchema> = {};
  return {
    components,
    convert(schema, direction) {
      const io = direction === 'request' ? 'input' : 'output';
      const {
        $schema: _,
        $defs,
        ...converted
      } = z.toJSONSchema(schema, { io, unrepresentable: 'any', override: tidy });
      for (const [id, definition] of Object.entries($defs ?? {})) components[id] ??= refer(definition);
      const { id, ...inline } = converted;
      if (id === undefined) return refer(inline);
      components[id] ??= refer(inline);
      return { $ref: `${COMPONENTS}${id}` };
    },
  };
}

/** Takes out what only our own generators read. */
function tidy({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  delete jsonSchema.tsType;
}

/** Turns references into a schema's own definitions into references to components. */
function refer(schema: JsonSchema): JsonSchema {
  const text = JSON.stringify(schema, (key, value) => (key === 'id' && typeof value === 'string' ? undefined : value));
  return JSON.parse(text.replaceAll('"#/$defs/', `"${COMPONENTS}`));
}
