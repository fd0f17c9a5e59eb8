/** Refuses body fields and query parameters that a route does not declare, and names the nearest declared one. Refuses parameters that are given twice. */
import { closest, distance } from 'fastest-levenshtein';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { Problem, type ProblemLocation } from '../../sdk/contract/errors.ts';
import { getOwn } from '../../sdk/contract/get-own.ts';
import { createBadRequest, LOCATIONS_MAX } from './errors.ts';

/** Maximum number of edits between a misspelt name and its suggestion. */
const EDITS_MAX = 3;
/** The shortest part of a name that suggests the whole: `policy` suggests `versionPolicy`. Characters. */
const PART_MIN_CHARS = 3;
/** Characters of an unknown name that are compared and repeated. */
const NAME_MAX_CHARS = 100;

/** Maximum number of parameters of a query. Far more than any route declares. */
const PARAMETERS_MAX = 100;

type Schema = z.core.$ZodType;

interface Search {
  /** Where the search is: names and indexes. */
  readonly path: (string | number)[];
  readonly found: ProblemLocation[];
}

/** @throws Problem `bad_request`. Parsing, checking and refusing thousands of parameters takes milliseconds. */
export function refuseLongQuery(url: string): void {
  const start = url.indexOf('?');
  if (start < 0) return;
  let parameters = 1;
  for (let at = url.indexOf('&', start); at >= 0; at = url.indexOf('&', at + 1)) {
    parameters += 1;
    if (parameters > PARAMETERS_MAX)
      throw new Problem('bad_request', `The query has more than ${PARAMETERS_MAX} parameters. Send fewer.`);
  }
}

/** @throws Problem `bad_request` that names undeclared fields and their places, as many as a response shows */
export function refuseUnknownFields({ routeOptions, query, body }: FastifyRequest): void {
  const { schema } = routeOptions;
  // A route without a schema, or outside the document, answers something else.
  if (schema === undefined || schema.hide) return;
  const parameters = [
    ...findUnknownFields(schema.querystring as Schema | undefined, query),
    ...findRepeated(schema.querystring as Schema | undefined, query),
  ];
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
  const issues = checked.error.issues
    .slice(0, LOCATIONS_MAX)
    .map(({ path, message }) => ({ field: [field, ...path].join('.'), message }));
  throw createBadRequest('body', issues);
}

/**
 * Lists properties of a value that its schema does not name, at any depth: the first ones, as many as a response shows.
 * Without a schema, no property is known. A schema with a catch-all accepts every name.
 */
function findUnknownFields(
  schema: Schema | undefined,
  value: unknown,
  path: readonly string[] = [],
): readonly ProblemLocation[] {
  const search: Search = { path: [...path], found: [] };
  searchValue(schema, value, search);
  return search.found;
}

/** Lists parameters of a query that are given several times and may be given once: their values come as a list. */
function findRepeated(schema: Schema | undefined, query: unknown): readonly ProblemLocation[] {
  const def = (schema as z.core.$ZodTypes | undefined)?._zod.def;
  if (def?.type !== 'object') return [];
  return Object.entries(query ?? {}).flatMap(([field, values]) => {
    const parameter = getOwn(def.shape, field);
    if (parameter === undefined || !Array.isArray(values)) return [];
    const isOnce = !z.core.safeParse(parameter, values).success && z.core.safeParse(parameter, values[0]).success;
    return isOnce ? [{ field, message: 'must be given once' }] : [];
  });
}

const isFull = ({ found }: Search): boolean => found.length >= LOCATIONS_MAX;

function searchValue(schema: Schema | undefined, value: unknown, search: Search): void {
  if (typeof value !== 'object' || value === null) return;
  if (schema === undefined) {
    searchObject({}, true, value, search);
    return;
  }
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case 'object':
      if (!Array.isArray(value)) searchObject(def.shape, isClosedSchema(def), value, search);
      return;
    case 'array':
      // A longer list is refused for its length.
      if (Array.isArray(value) && value.length <= findItemsMax(def)) searchList(def.element, value, search);
      return;
    case 'record':
      searchRecord(def.valueType, value, search);
      return;
    case 'union':
      searchUnion(def.options, value, search);
      return;
    case 'pipe':
      // `z.preprocess` puts its function first and the schema last.
      searchValue(isTransform(def.in) ? def.out : def.in, value, search);
      return;
    case 'optional':
    case 'nullable':
    case 'default':
    case 'prefault':
    case 'readonly':
    case 'catch':
      searchValue(def.innerType, value, search);
      return;
    default:
      return;
  }
}

function searchPart(schema: Schema | undefined, value: unknown, name: string | number, search: Search): void {
  search.path.push(name);
  searchValue(schema, value, search);
  search.path.pop();
}

function searchObject(shape: Shape, isClosed: boolean, value: object, search: Search): void {
  const fields = value as Readonly<Record<string, unknown>>;
  // Listing the names of a large object takes milliseconds.
  for (const name in isClosed ? fields : shape) {
    if (isFull(search)) return;
    if (!Object.hasOwn(shape, name)) search.found.push(describeUnknown(search.path, name, Object.keys(shape)));
    else if (Object.hasOwn(fields, name)) searchPart(shape[name], fields[name], name, search);
  }
}

function searchList(item: Schema, value: readonly unknown[], search: Search): void {
  for (let index = 0; index < value.length && !isFull(search); index += 1)
    searchPart(item, value[index], index, search);
}

function searchRecord(item: Schema, value: object, search: Search): void {
  const entries = value as Readonly<Record<string, unknown>>;
  for (const name in entries) {
    if (isFull(search)) return;
    searchPart(item, entries[name], name.slice(0, NAME_MAX_CHARS), search);
  }
}

/** Reports what the option that knows most fields does not know. */
function searchUnion(options: readonly Schema[], value: object, search: Search): void {
  const attempts = options.map((option) => {
    const attempt: Search = { path: search.path, found: [] };
    searchValue(option, value, attempt);
    return attempt.found;
  });
  const fewest = attempts.toSorted((a, b) => a.length - b.length)[0] ?? [];
  search.found.push(...fewest);
}

type Shape = Readonly<Record<string, Schema>>;

const isClosedSchema = ({ catchall }: z.core.$ZodObjectDef): boolean =>
  catchall === undefined || (catchall as z.core.$ZodTypes)._zod.def.type === 'never';

function findItemsMax({ checks = [] }: z.core.$ZodArrayDef): number {
  const maxima = checks.map(({ _zod: { def } }) => ('maximum' in def ? Number(def.maximum) : Number.POSITIVE_INFINITY));
  return Math.min(...maxima);
}

const isTransform = (schema: Schema): boolean => (schema as z.core.$ZodTypes)._zod.def.type === 'transform';

function describeUnknown(path: Search['path'], name: string, known: readonly string[]): ProblemLocation {
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
