/** Refuses body fields and query parameters that a route does not declare, and names the nearest declared one. */
import { closest, distance } from 'fastest-levenshtein';
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { ProblemLocation } from '../../sdk/contract/errors.ts';
import { createBadRequest } from './errors.ts';

/** Maximum number of edits between a misspelt name and its suggestion. */
const EDITS_MAX = 3;
/** The shortest part of a name that suggests the whole: `policy` suggests `versionPolicy`. Characters. */
const PART_MIN_CHARS = 3;
/** Characters of an unknown name that are compared and repeated. */
const NAME_MAX_CHARS = 100;

type Schema = z.core.$ZodType;

/** @throws Problem `bad_request` that names every undeclared field and its place */
export function refuseUnknownFields({ routeOptions, query, body }: FastifyRequest): void {
  const { schema } = routeOptions;
  // A route without a schema, or outside the document, answers something else.
  if (schema === undefined || schema.hide) return;
  const parameters = findUnknownFields(schema.querystring as Schema | undefined, query);
  if (parameters.length > 0) throw createBadRequest('query', parameters);
  const fields = findUnknownFields(schema.body as Schema | undefined, body);
  if (fields.length > 0) throw createBadRequest('body', fields);
}

/** Parses a part of a body whose schema depends on the rest. @throws Problem `bad_request` that names the fields */
export function parseInput<Schema extends z.ZodType>(schema: Schema, value: unknown, field: string): z.output<Schema> {
  const unknown = findUnknownFields(schema, value, [field]);
  if (unknown.length > 0) throw createBadRequest('body', unknown);
  const checked = schema.safeParse(value);
  if (checked.success) return checked.data;
  const issues = checked.error.issues.map(({ path, message }) => ({ field: [field, ...path].join('.'), message }));
  throw createBadRequest('body', issues);
}

/**
 * Lists the properties of a value that its schema does not name, at any depth. Without a schema, no property is known.
 * A schema with a catch-all accepts every name.
 */
function findUnknownFields(
  schema: Schema | undefined,
  value: unknown,
  path: readonly string[] = [],
): ProblemLocation[] {
  if (typeof value !== 'object' || value === null) return [];
  if (schema === undefined) return Object.keys(value).map((name) => describeUnknown(path, name, []));
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case 'object':
      return Array.isArray(value) ? [] : findInObject(def, value, path);
    case 'array':
      return Array.isArray(value)
        ? value.flatMap((item, index) => findUnknownFields(def.element, item, [...path, String(index)]))
        : [];
    case 'record':
      return Object.entries(value).flatMap(([name, item]) => findUnknownFields(def.valueType, item, [...path, name]));
    case 'union': {
      const found = def.options.map((option) => findUnknownFields(option, value, path));
      return found.toSorted((a, b) => a.length - b.length)[0] ?? [];
    }
    case 'pipe':
      // `z.preprocess` puts its function first and the schema last.
      return findUnknownFields(isTransform(def.in) ? def.out : def.in, value, path);
    case 'optional':
    case 'nullable':
    case 'default':
    case 'prefault':
    case 'readonly':
    case 'catch':
      return findUnknownFields(def.innerType, value, path);
    default:
      return [];
  }
}

function findInObject(
  { shape, catchall }: z.core.$ZodObjectDef,
  value: object,
  path: readonly string[],
): ProblemLocation[] {
  const isClosed = catchall === undefined || (catchall as z.core.$ZodTypes)._zod.def.type === 'never';
  return Object.entries(value).flatMap(([name, field]) => {
    if (Object.hasOwn(shape, name)) return findUnknownFields(shape[name], field, [...path, name]);
    return isClosed ? [describeUnknown(path, name, Object.keys(shape))] : [];
  });
}

const isTransform = (schema: Schema): boolean => (schema as z.core.$ZodTypes)._zod.def.type === 'transform';

function describeUnknown(path: readonly string[], name: string, known: readonly string[]): ProblemLocation {
  const shown = name.slice(0, NAME_MAX_CHARS);
  return { field: [...path, shown].join('.'), message: `is not known${suggest(shown, known)}` };
}

function suggest(name: string, known: readonly string[]): string {
  if (known.length === 0) return '; leave it out';
  // Some clients write a repeated parameter as `levels[]`.
  const wanted = name.replace(/\[\d*\]$/, '').toLowerCase();
  const isPart = (whole: string, part: string) => part.length >= PART_MIN_CHARS && whole.includes(part);
  const related = known.filter((each) => isPart(each.toLowerCase(), wanted) || isPart(wanted, each.toLowerCase()));
  const near = closest(wanted, related.length > 0 ? related : [...known]);
  const isNear = related.length > 0 || distance(wanted, near.toLowerCase()) <= Math.min(EDITS_MAX, wanted.length - 1);
  return isNear ? `; did you mean “${near}”?` : `; known: ${known.join(', ')}`;
}
