/** Prints zod schemas as TypeScript types, naming the payloads that `sdk/contract/payloads.ts` names. */
import { z } from 'zod';
import * as payloads from '../contract/payloads.ts';

const INDENT = '  ';
/** Payload kinds worth a name of their own in an author's editor; a named `string` would only hide what it is. */
const NAMED_KINDS = new Set(['object', 'enum', 'union', 'record']);

const pascal = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);
const tsTypeOf = (schema: z.core.$ZodType): unknown => z.globalRegistry.get(schema)?.tsType;
/** A literal type; strings in single quotes, as the house writes them. */
export const literal = (value: unknown): string =>
  typeof value === 'string' && !/['\\\n]/.test(value) ? `'${value}'` : `${JSON.stringify(value)}`;
const isName = (key: string): boolean => /^[A-Za-z_$][\w$]*$/.test(key);
/** A property key as TypeScript writes it. */
export const propertyKey = (key: string): string => (isName(key) ? key : literal(key));

/** Prints types and remembers which named payloads they mention, so that exactly those are declared. */
export class TypePrinter {
  readonly #names = new Map<z.core.$ZodType, string>();
  readonly #used = new Set<z.core.$ZodType>();

  constructor() {
    for (const [key, schema] of Object.entries(payloads)) {
      if (!(schema instanceof z.ZodType) || tsTypeOf(schema) !== undefined) continue;
      if (NAMED_KINDS.has(schema._zod.def.type)) this.#names.set(schema, pascal(key));
    }
  }

  /** The type of a schema at a nesting depth, by name where it has one. */
  print(schema: z.core.$ZodType, depth = 0): string {
    const tsType = tsTypeOf(schema);
    if (typeof tsType === 'string') return tsType;
    const name = this.#names.get(schema);
    if (name === undefined) return this.#structure(schema, depth);
    this.#used.add(schema);
    return name;
  }

  /** Declarations of every named payload printed so far, in the order of `payloads.ts`. */
  declarations(): string[] {
    const printed = new Map<z.core.$ZodType, string>();
    // Printing one declaration may use further names, hence until nothing is new.
    while (printed.size < this.#used.size) {
      for (const schema of [...this.#used].filter((used) => !printed.has(used))) {
        printed.set(schema, `type ${this.#names.get(schema)} = ${this.#structure(schema, 0)};`);
      }
    }
    return [...this.#names.keys()].flatMap((schema) => printed.get(schema) ?? []);
  }

  /** The `name: type;` lines of an object type, one per property. */
  properties(shape: Readonly<Record<string, z.core.$ZodType>>, depth: number): string[] {
    return Object.entries(shape).map(([key, schema]) => {
      const mark = isOptional(schema) ? '?' : '';
      return `${INDENT.repeat(depth)}${propertyKey(key)}${mark}: ${this.print(schema, depth)};`;
    });
  }

  #structure(schema: z.core.$ZodType, depth: number): string {
    const { def } = (schema as z.core.$ZodTypes)._zod;
    switch (def.type) {
      case 'optional':
        return this.print(def.innerType, depth);
      case 'nullable':
        return `${this.print(def.innerType, depth)} | null`;
      case 'array':
        return arrayOf(this.print(def.element, depth));
      case 'tuple':
        return `[${def.items.map((item) => this.print(item, depth)).join(', ')}]`;
      case 'record':
        return `{ [name: string]: ${this.print(def.valueType, depth)} }`;
      case 'union':
        return def.options.map((option) => this.print(option, depth)).join(' | ');
      case 'object':
        return this.#object(def.shape, depth);
      default:
        return atom(def);
    }
  }

  #object(shape: Readonly<Record<string, z.core.$ZodType>>, depth: number): string {
    const lines = this.properties(shape, depth + 1);
    return lines.length === 0 ? '{}' : `{\n${lines.join('\n')}\n${INDENT.repeat(depth)}}`;
  }
}

/** Whether a property of this schema may be left out. */
export const isOptional = (schema: z.core.$ZodType): boolean => schema._zod.optin === 'optional';

const arrayOf = (element: string): string => (/[|{]/.test(element) ? `Array<${element}>` : `${element}[]`);

function atom(def: z.core.$ZodTypes['_zod']['def']): string {
  switch (def.type) {
    case 'string':
    case 'number':
    case 'boolean':
    case 'null':
    case 'unknown':
      return def.type;
    case 'undefined':
      return 'void';
    case 'enum':
      return Object.values(def.entries).map(literal).join(' | ');
    case 'literal':
      return def.values.map(literal).join(' | ');
    default:
      // A row with a kind this printer does not know must not turn into a wrong type silently.
      throw new Error(`sdk/generate/printer.ts cannot print the schema kind "${def.type}"; add it or give it a tsType`);
  }
}
