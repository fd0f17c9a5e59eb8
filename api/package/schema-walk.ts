/** Collects the subschemas of a JSON Schema 2020-12 and which of them apply to the same value, without recursion. */

/** Keywords that contain one schema; those in `IN_PLACE` apply to the same value as the surrounding schema. */
const ONE = [
  ...['additionalProperties', 'propertyNames', 'items', 'contains', 'unevaluatedItems', 'unevaluatedProperties'],
  ...['contentSchema', 'not', 'if', 'then', 'else'],
];
const LIST = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
const MAP = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'];
const REFERENCES = ['$ref', '$dynamicRef'];
const IN_PLACE = new Set(['not', 'if', 'then', 'else', 'allOf', 'anyOf', 'oneOf', 'dependentSchemas', ...REFERENCES]);
/** The base URI of a schema without an `$id`. */
const NO_BASE = 'https://schema.invalid/';

export type SchemaObject = Readonly<Record<string, unknown>>;
export interface Subschema {
  /** JSON pointer from the root, such as `/properties/city`. */
  readonly at: string;
  readonly schema: SchemaObject;
  /** Applied to the same value. */
  readonly inPlace: Subschema[];
}
interface Found extends Subschema {
  readonly base: string;
}

/**
 * Lists all subschemas, the root first, including the target of every `$ref`. A `$ref` with no target in the schema is
 * skipped.
 *
 * @param root a schema of bounded size
 */
export function collectSubschemas(root: SchemaObject): Subschema[] {
  const known = new Map<SchemaObject, Found>();
  const resources = new Map<string, SchemaObject>();
  const anchors = new Map<string, SchemaObject>();
  const found: Found[] = [];
  const visit = (schema: unknown, at: string, base: string): Found | null => {
    if (!isObject(schema)) return null;
    const before = known.get(schema);
    if (before) return before;
    const own = typeof schema.$id === 'string' ? absolute(schema.$id, base) : base;
    const node: Found = { at, schema, inPlace: [], base: own };
    known.set(schema, node);
    found.push(node);
    if (!resources.has(own)) resources.set(own, schema);
    for (const key of ['$anchor', '$dynamicAnchor'])
      if (typeof schema[key] === 'string') anchors.set(`${own}#${schema[key]}`, schema);
    return node;
  };
  visit(root, '', NO_BASE);
  // Collect anchors and ids first, because a reference may precede its target. The list grows during the walk.
  for (const node of found) descend(node, visit);
  for (const node of found) {
    for (const target of targetsOf(node, resources, anchors)) {
      const fresh = !known.has(target.schema);
      const to = visit(target.schema, target.at, node.base);
      if (to) node.inPlace.push(to);
      if (to && fresh) descend(to as Found, visit);
    }
  }
  return found;
}

function descend(node: Found, visit: (schema: unknown, at: string, base: string) => Found | null): void {
  const add = (keyword: string, schema: unknown, at: string) => {
    const child = visit(schema, at, node.base);
    if (child && IN_PLACE.has(keyword)) node.inPlace.push(child);
  };
  for (const [keyword, value] of Object.entries(node.schema)) {
    const at = `${node.at}/${keyword}`;
    if (ONE.includes(keyword)) add(keyword, value, at);
    else if (LIST.includes(keyword) && Array.isArray(value))
      for (const [index, item] of value.entries()) add(keyword, item, `${at}/${index}`);
    else if (MAP.includes(keyword) && isObject(value))
      for (const [name, item] of Object.entries(value)) add(keyword, item, `${at}/${escapePointer(name)}`);
  }
}

function targetsOf(
  { schema, base }: Found,
  resources: ReadonlyMap<string, SchemaObject>,
  anchors: ReadonlyMap<string, SchemaObject>,
): { schema: SchemaObject; at: string }[] {
  return REFERENCES.flatMap((keyword) => {
    const reference = schema[keyword];
    if (typeof reference !== 'string') return [];
    const url = absolute(reference, base);
    const hash = url.indexOf('#');
    const resource = resources.get(hash < 0 ? url : url.slice(0, hash));
    const fragment = hash < 0 ? '' : decode(url.slice(hash + 1));
    const isPointer = fragment === '' || fragment.startsWith('/');
    const target = isPointer ? resource && follow(resource, fragment) : anchors.get(url);
    return isObject(target) ? [{ schema: target, at: fragment }] : [];
  });
}

function follow(root: SchemaObject, pointer: string): unknown {
  let value: unknown = root;
  for (const part of pointer.split('/').slice(1)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** Escapes a name for a JSON pointer. */
export const escapePointer = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1');
const isObject = (value: unknown): value is SchemaObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const absolute = (reference: string, base: string): string =>
  URL.canParse(reference, base) ? new URL(reference, base).href.replace(/#$/, '') : reference;

function decode(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}
