/** Prints zod schemas as TypeScript types, and values as TypeScript expressions. */
import { z } from 'zod';
import * as payloads from '../contract/payloads.ts';

const INDENT = '  ';
/** Kinds of payloads that are printed by name. An alias of `string` would only hide its type in an editor. */
const NAMED_KINDS = new Set(['object', 'enum', 'union', 'record']);

export const capitalize = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);
const readTsType = (schema: z.core.$ZodType): unknown => z.globalRegistry.get(schema)?.tsType;
/** Prints a literal, strings in single quotes. */
export const printLiteral = (value: unknown): string =>
  typeof value === 'string' && !/['\\\n]/.test(value) ? `'${value}'` : `${JSON.stringify(value)}`;
const isName = (key: string): boolean => /^[A-Za-z_$][\w$]*$/.test(key);
/** Prints a property key, quoted only where necessary. */
export const printKey = (key: string): string => (isName(key) ? key : printLiteral(key));

/** Prints types and collects the named payloads they mention, so that exactly those are declared. */
export class TypePrinter {
  readonly #names = new Map<z.core.$ZodType, string>();
  readonly #used = new Set<z.core.$ZodType>();

  constructor() {
    for (const [key, schema] of Object.entries(payloads)) {
      if (!(schema instanceof z.ZodType) || readTsType(schema) !== undefined) continue;
      if (NAMED_KINDS.has(schema._zod.def.type)) this.#names.set(schema, capitalize(key));
    }
  }

  /** Prints a schema, by name where it has one. */
  print(schema: z.core.$ZodType, depth = 0): string {
    const tsType = readTsType(schema);
    if (typeof tsType === 'string') return tsType;
    const name = this.#names.get(schema);
    if (name === undefined) return this.#structure(schema, depth);
    this.#used.add(schema);
    return name;
  }

  /** Prints the declarations of all named payloads mentioned so far, in the order of `payloads.ts`. */
  printDeclarations(): string[] {
    const printed = new Map<z.core.$ZodType, string>();
    // A printed declaration may mention further payloads.
    while (printed.size < this.#used.size) {
      for (const schema of [...this.#used].filter((used) => !printed.has(used))) {
        printed.set(schema, `type ${this.#names.get(schema)} = ${this.#structure(schema, 0)};`);
      }
    }
    return [...this.#names.keys()].flatMap((schema) => printed.get(schema) ?? []);
  }

  /** Prints the properties of an object type, one line each. */
  printProperties(shape: Readonly<Record<string, z.core.$ZodType>>, depth: number): string[] {
    return Object.entries(shape).map(([key, schema]) => {
      const mark = isOptional(schema) ? '?' : '';
      return `${INDENT.repeat(depth)}${printKey(key)}${mark}: ${this.print(schema, depth)};`;
    });
  }

  #structure(schema: z.core.$ZodType, depth: number): string {
    const { def } = (schema as z.core.$ZodTypes)._zod;
    switch (def.type) {
      case 'optional':
      case 'default':
        return this.print(def.innerType, depth);
      case 'nullable':
        return `${this.print(def.innerType, depth)} | null`;
      case 'array':
        return printArray(this.print(def.element, depth));
      case 'tuple':
        return `[${def.items.map((item) => this.print(item, depth)).join(', ')}]`;
      case 'record':
        return `{ [name: string]: ${this.print(def.valueType, depth)} }`;
      case 'union':
        return def.options.map((option) => this.print(option, depth)).join(' | ');
      case 'object':
        return this.#object(def.shape, depth);
      default:
        return printPrimitive(def);
    }
  }

  #object(shape: Readonly<Record<string, z.core.$ZodType>>, depth: number): string {
    const lines = this.printProperties(shape, depth + 1);
    return lines.length === 0 ? '{}' : `{\n${lines.join('\n')}\n${INDENT.repeat(depth)}}`;
  }
}

/** Whether a property of this schema may be absent. A plugin always gets one that has a default. */
export const isOptional = (schema: z.core.$ZodType): boolean => schema._zod.optout === 'optional';

const printArray = (element: string): string => (/[|{]/.test(element) ? `Array<${element}>` : `${element}[]`);

function printPrimitive(def: z.core.$ZodTypes['_zod']['def']): string {
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
      return Object.values(def.entries).map(printLiteral).join(' | ');
    case 'literal':
      return def.values.map(printLiteral).join(' | ');
    default:
      throw new Error(`Cannot print the schema kind "${def.type}". Add it to sdk/generate/printer.ts or set a tsType.`);
  }
}

/** Prints a value on one line: `{ city: 'Bern' }`, `new Uint8Array([104, 105])`. Omits undefined properties. */
export function printValue(value: unknown): string {
  if (value instanceof Uint8Array) return `new Uint8Array([${value.join(', ')}])`;
  if (Array.isArray(value)) return `[${value.map(printValue).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return printLiteral(value);
  const present = Object.entries(value).filter(([, member]) => member !== undefined);
  const members = present.map(([key, member]) => `${printKey(key)}: ${printValue(member)}`);
  return members.length === 0 ? '{}' : `{ ${members.join(', ')} }`;
}
