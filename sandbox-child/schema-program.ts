/**
 * Compiles and applies JSON Schema 2020-12. Runs in a realm of its own, which plugin code cannot reach; only texts pass in and
 * out.
 */
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import equality from 'ajv/dist/runtime/equal.js';

/** JSON texts pass in; a JSON text of the named type is returned. No member throws. */
export interface SchemaProgram {
  /** Compiles a schema: `Compiled`. */
  compile(schema: string): string;
  /** Applies a schema to a value: `Applied`. */
  apply(schema: string, value: string): string;
  /** Finds why a schema of tool arguments cannot be used: `SchemaFault | null`. */
  findFault(schema: string): string;
}
export type Compiled = { readonly unusable?: string };
export interface Applied extends Compiled {
  /** Empty: the value fits. */
  readonly errors: readonly ValueFault[];
}
export interface ValueFault {
  /** Dots separate the names; empty: the value itself. */
  readonly path: string;
  readonly message: string;
}
export interface SchemaFault {
  /** JSON pointer inside the schema. */
  readonly at: string;
  readonly message: string;
}

// ajv's own comparison calls `valueOf` and `toString` of the compared values, which may be properties of any type.
Object.assign(equality, { default: isEqual });

const OPTIONS = {
  strict: false,
  // Formats and unknown keywords are annotations in JSON Schema 2020-12.
  validateFormats: false,
  validateSchema: false,
  logger: false,
  // One error at a time would nest the generated code as deep as there are properties, which exhausts the stack.
  allErrors: true,
  // Optimizing the code of 2,000 properties takes 3 s.
  code: { optimize: false },
  // A property such as `toString` counts only if the value itself has it.
  ownProperties: true,
} as const;
/** A schema of many choices has an error for each. */
const ERRORS_MAX = 20;
const TEXT_MAX_CHARS = 400;
const PROTO = '__proto__';
/** Subschemas that are searched for what excludes objects. */
const SEARCH_MAX = 1_000;

type SchemaObject = Readonly<Record<string, unknown>>;

/** Compiled schemas by their text. */
const validators = new Map<string, ValidateFunction>();
/** More than a plugin has tools. */
const VALIDATORS_MAX = 200;

const program: SchemaProgram = {
  compile(schema) {
    try {
      getValidator(schema);
      return JSON.stringify({} satisfies Compiled);
    } catch (error) {
      return JSON.stringify({ unusable: describeError(error) } satisfies Compiled);
    }
  },
  apply(schema, value) {
    try {
      return JSON.stringify({ errors: apply(getValidator(schema), JSON.parse(value)) } satisfies Applied);
    } catch (error) {
      return JSON.stringify({ errors: [], unusable: describeError(error) } satisfies Applied);
    }
  },
  findFault: (schema) => JSON.stringify(findFault(schema)),
};
Object.assign(globalThis, { schemas: program });

function getValidator(schema: string): ValidateFunction {
  const known = validators.get(schema);
  if (known) return known;
  const [oldest] = validators.keys();
  if (oldest !== undefined && validators.size >= VALIDATORS_MAX) validators.delete(oldest);
  const validate = compile(schema);
  validators.set(schema, validate);
  return validate;
}

/** Each schema has a compiler of its own, so that equal `$id`s of two schemas do not clash. Nothing is fetched. */
function compile(schema: string): ValidateFunction {
  return new Ajv2020(OPTIONS).compile(separateReferences(parseSchema(schema)) as SchemaObject);
}

/** Their values are data, not schemas. */
const DATA_KEYWORDS: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'examples']);

/** Moves each `$ref` beside an `$id` into `allOf`, where it means the same: ajv compiles it there only. */
function separateReferences(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(separateReferences);
  if (!isObject(schema)) return schema;
  const parts: SchemaObject = Object.fromEntries(
    Object.entries(schema).map(([key, part]) => [key, DATA_KEYWORDS.has(key) ? part : separateReferences(part)]),
  );
  if (typeof parts.$id !== 'string' || typeof parts.$ref !== 'string') return parts;
  const { $ref, allOf, ...rest } = parts;
  return { ...rest, allOf: [{ $ref }, ...toList(allOf)] };
}

/** Parses a schema. ajv ignores a property `__proto__`, so its schema is repeated as that of a pattern. */
function parseSchema(text: string): SchemaObject {
  return JSON.parse(text, function (this: Record<string, unknown>, key, value) {
    if (key === 'properties' && isObject(value) && Object.hasOwn(value, PROTO)) {
      this.patternProperties = { ...(this.patternProperties as SchemaObject), '^(?:__proto__)$': value[PROTO] };
    }
    return value;
  });
}

function apply(validate: ValidateFunction, value: unknown): ValueFault[] {
  if (validate(value)) return [];
  return (validate.errors ?? []).slice(0, ERRORS_MAX).map((error) => ({
    path: error.instancePath.slice(1, TEXT_MAX_CHARS).replaceAll('/', '.'),
    message: describeFault(error).slice(0, TEXT_MAX_CHARS),
  }));
}

/** ajv's messages leave out which property, type or value it is about. */
function describeFault({ keyword, params, message = 'is not valid' }: ErrorObject): string {
  switch (keyword) {
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return `must not have the property “${params.additionalProperty ?? params.unevaluatedProperty}”`;
    case 'enum':
      return `must be one of ${params.allowedValues.map(showValue).join(', ')}`;
    case 'const':
      return `must be ${showValue(params.allowedValue)}`;
    case 'type':
      return `must be ${[params.type].flat().join(' or ')}`;
    case 'false schema':
      return 'must be left out';
    default:
      return message;
  }
}
const showValue = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** Compiles the meta-schema once. */
let metaSchema: Ajv2020 | null = null;

function findFault(text: string): SchemaFault | null {
  try {
    const schema = parseSchema(text);
    if ('$async' in schema) return { at: '', message: 'is not JSON Schema 2020-12: $async is not part of it' };
    metaSchema ??= new Ajv2020(OPTIONS);
    if (namesOtherDialect(metaSchema, schema)) return { at: '/$schema', message: OTHER_DIALECT };
    if (!metaSchema.validateSchema(schema)) return describeInvalid(metaSchema.errors?.[0]);
    return findMissing(schema) ?? findExclusion(schema);
  } catch (error) {
    return { at: '', message: `cannot be used: ${describeError(error)}` };
  }
}

const OTHER_DIALECT = 'names another dialect, and schemas are read as JSON Schema 2020-12: remove $schema';

const namesOtherDialect = (known: Ajv2020, { $schema }: SchemaObject): boolean =>
  typeof $schema === 'string' && known.getSchema($schema) === undefined;

function describeError(error: unknown): string {
  if (error instanceof RangeError)
    return 'it is nested too deeply, or leads back to itself for the same value, without end';
  const message = error instanceof Error ? error.message : 'it cannot be read';
  if (message.startsWith('NOT SUPPORTED: keyword "id"')) return 'it has “id”, which is “$id” since draft 6';
  return message.slice(0, TEXT_MAX_CHARS);
}

function describeInvalid(error: ErrorObject | undefined): SchemaFault {
  const message = `is not JSON Schema 2020-12: it ${error ? describeFault(error) : 'is not valid'}`;
  return { at: error?.instancePath ?? '', message: message.slice(0, TEXT_MAX_CHARS) };
}

/** Compiles a schema and applies it once: a reference that leads back to itself for the same value recurses for every value. */
function findMissing(schema: SchemaObject): SchemaFault | null {
  try {
    compile(JSON.stringify(schema))({});
    return null;
  } catch (error) {
    if (!(error instanceof Ajv2020.MissingRefError)) throw error;
    const { missingRef } = error;
    const name = missingRef.slice(0, TEXT_MAX_CHARS);
    return {
      at: findReference(schema, missingRef, '') ?? '',
      message: `names “${name}”, which is not in this schema: nothing is fetched, use $defs and “#/$defs/…”`,
    };
  }
}

/** @param missing the reference, made absolute where the schema has an `$id` */
function findReference(value: unknown, missing: string, at: string): string | null {
  if (typeof value !== 'object' || value === null) return null;
  for (const [key, part] of Object.entries(value)) {
    const below = `${at}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    const isReference = key === '$ref' || key === '$dynamicRef';
    if (isReference && typeof part === 'string' && missing.endsWith(part)) return below;
    const found = findReference(part, missing, below);
    if (found !== null) return found;
  }
  return null;
}

function findExclusion(schema: SchemaObject): SchemaFault | null {
  const at = new ExclusionSearch(schema).find(schema, '');
  return at === null ? null : { at, message: 'excludes objects, and the arguments of a tool are always an object' };
}

/** Finds what makes a schema refuse every object, as far as `type`, `const` and `enum` show it. */
class ExclusionSearch {
  readonly #root: SchemaObject;
  #searched = 0;

  constructor(root: SchemaObject) {
    this.#root = root;
  }

  /** @returns a JSON pointer to what excludes objects; null if nothing was found */
  find(schema: unknown, at: string): string | null {
    if (schema === false) return at;
    this.#searched += 1;
    if (!isObject(schema) || this.#searched > SEARCH_MAX) return null;
    if (schema.type !== undefined && ![schema.type].flat().includes('object')) return `${at}/type`;
    if (Object.hasOwn(schema, 'const') && !isObject(schema.const)) return `${at}/const`;
    if (Array.isArray(schema.enum) && !schema.enum.some(isObject)) return `${at}/enum`;
    return this.#findInReference(schema.$ref) ?? this.#findInParts(schema, at);
  }

  #findInReference(reference: unknown): string | null {
    if (typeof reference !== 'string' || !reference.startsWith('#/')) return null;
    const pointer = reference.slice(1);
    let target: unknown = this.#root;
    for (const part of pointer.slice(1).split('/')) {
      const key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
      target = (Object(target) as SchemaObject)[key];
    }
    return this.find(target, pointer);
  }

  #findInParts({ allOf, anyOf, oneOf }: SchemaObject, at: string): string | null {
    for (const [index, part] of toList(allOf).entries()) {
      const found = this.find(part, `${at}/allOf/${index}`);
      if (found !== null) return found;
    }
    for (const [keyword, parts] of Object.entries({ anyOf: toList(anyOf), oneOf: toList(oneOf) })) {
      if (parts.length > 0 && parts.every((part) => this.find(part, '') !== null)) return `${at}/${keyword}`;
    }
    return null;
  }
}

function isEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a) !== Array.isArray(b) || !isTree(a) || !isTree(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && isEqual(a[key], b[key]));
}

const isTree = (value: unknown): value is SchemaObject => typeof value === 'object' && value !== null;
const isObject = (value: unknown): value is SchemaObject => isTree(value) && !Array.isArray(value);
const toList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
