/**
 * Compares two versions of a JSON Schema. It knows the common widenings; every other change counts as `unclear`, because a value
 * that fitted before may be refused.
 */
import { isDeepStrictEqual } from 'node:util';
import { getOwn } from '../contract/get-own.ts';
import { isRecord } from '../contract/is-record.ts';
import { checkedKeywords } from '../contract/schema-keywords.ts';

/** `unclear`: the comparison cannot tell whether the schema refuses what it took before. */
type Effect = 'wider' | 'narrower' | 'unclear';
interface SchemaChange {
  /** JSON pointer to the keyword or property, such as `/properties/text/minimum`. */
  readonly at: string;
  readonly effect: Effect;
}
type Schema = Readonly<Record<string, unknown>>;

const LOWER_BOUNDS = new Set(['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties']);
const UPPER_BOUNDS = new Set(['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties']);
/** Keywords that stand for themselves: without one of them, a schema takes at least as much. */
const REMOVABLE = new Set(['pattern', 'multipleOf', 'not', 'propertyNames', 'dependentRequired']);

/**
 * Lists the changes that affect which values fit. Empty: the same values fit.
 *
 * @param isCounted whether a schema around it refuses items or properties that this one does not evaluate
 */
export function compareSchemas(before: unknown, after: unknown, at = '', isCounted = false): SchemaChange[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (before === false) return [{ at, effect: 'wider' }];
  if (after === false) return [{ at, effect: 'narrower' }];
  const [old, now] = [toSchema(before), toSchema(after)];
  if (old === null || now === null) return [{ at, effect: 'unclear' }];
  const keywords = new Set([...Object.keys(old), ...Object.keys(now)]);
  const counted = isCounted || refusesUnevaluated(now);
  return [...keywords].flatMap((keyword) => compareKeyword(keyword, old, now, at, counted));
}

const refusesUnevaluated = (schema: Schema): boolean =>
  (getOwn(schema, 'unevaluatedItems') ?? true) !== true || (getOwn(schema, 'unevaluatedProperties') ?? true) !== true;

/** Writes `true` as an empty schema, and `const` as an `enum` of one value. */
function toSchema(value: unknown): Schema | null {
  if (value === true) return {};
  if (!isRecord(value)) return null;
  if (!Object.hasOwn(value, 'const') || Object.hasOwn(value, 'enum')) return value;
  const { const: only, ...rest } = value;
  return { ...rest, enum: [only] };
}

function compareKeyword(keyword: string, old: Schema, now: Schema, parent: string, isCounted: boolean): SchemaChange[] {
  const [before, after] = [getOwn(old, keyword), getOwn(now, keyword)];
  if (!checkedKeywords.has(keyword) || isDeepStrictEqual(before, after)) return [];
  const at = `${parent}/${keyword}`;
  switch (keyword) {
    case '$schema':
      // Only one dialect is accepted.
      return [];
    case 'properties':
      return compareProperties(old, now, at);
    case 'additionalProperties':
    case 'items':
      // Without it, the items or properties that it took are no longer evaluated.
      if (isCounted && after === undefined) return [{ at, effect: 'unclear' }];
      return compareSchemas(before ?? true, after ?? true, at);
    case 'allOf':
      return compareLists(before, after, at, isCounted);
    case 'prefixItems':
      return compareLists(before, after, at, false);
    case 'anyOf':
      return compareAlternatives(before, after, at, isCounted);
    case 'oneOf':
      return keepSame(compareLists(before, after, at, isCounted), at);
    case '$defs':
    case 'definitions':
      return keepSame(compareMaps(before, after, at), at);
    default: {
      const effect = findEffect(keyword, before, after);
      return effect === null ? [] : [{ at, effect }];
    }
  }
}

/** The effect of a changed keyword without schemas in it. Null: none. */
function findEffect(keyword: string, before: unknown, after: unknown): Effect | null {
  const isRemoved = after === undefined;
  if (LOWER_BOUNDS.has(keyword)) return isRemoved || isLess(after, before) ? 'wider' : 'narrower';
  if (UPPER_BOUNDS.has(keyword)) return isRemoved || isLess(before, after) ? 'wider' : 'narrower';
  if (REMOVABLE.has(keyword)) return isRemoved ? 'wider' : 'unclear';
  switch (keyword) {
    case 'type':
      return compareSets(listTypes(before), listTypes(after));
    case 'enum':
      return compareSets(toList(before), toList(after));
    case 'required':
      // The other way round: fewer names take more.
      return compareSets(toList(after) ?? [], toList(before) ?? []);
    case 'uniqueItems':
      return after === true ? 'narrower' : before === true ? 'wider' : null;
    default:
      return 'unclear';
  }
}

/** A new property counts as an addition, also where objects were open and took it with any value. */
function compareProperties(old: Schema, now: Schema, at: string): SchemaChange[] {
  const [before, after] = [toRecord(old.properties), toRecord(now.properties)];
  const others = old.additionalProperties;
  // An empty schema, as Zod writes for an open object, says as much as `true`.
  const open = isRecord(others) && compareSchemas(true, others).length > 0 ? others : false;
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name): SchemaChange[] => {
    const place = `${at}/${name}`;
    // An open object still takes the property, with any value.
    if (!Object.hasOwn(after, name))
      return [{ at: place, effect: now.additionalProperties === false ? 'narrower' : 'unclear' }];
    if (Object.hasOwn(before, name)) return compareSchemas(before[name], after[name], place);
    // Its name may have matched a pattern, whose schema decided until now.
    if (old.patternProperties !== undefined) return [{ at: place, effect: 'unclear' }];
    return after[name] === false ? [{ at: place, effect: 'narrower' }] : compareSchemas(open, after[name], place);
  });
}

function compareLists(before: unknown, after: unknown, at: string, isCounted: boolean): SchemaChange[] {
  const [old, now] = [toList(before), toList(after)];
  if (old === null || now === null || old.length !== now.length) return [{ at, effect: 'unclear' }];
  return old.flatMap((schema, index) => compareSchemas(schema, now[index], `${at}/${index}`, isCounted));
}

/** The schemas have names that any schema may refer to, also one that refuses what they do not evaluate. */
function compareMaps(before: unknown, after: unknown, at: string): SchemaChange[] {
  const [old, now] = [toRecord(before), toRecord(after)];
  if (!isDeepStrictEqual(new Set(Object.keys(old)), new Set(Object.keys(now)))) return [{ at, effect: 'unclear' }];
  return Object.keys(old).flatMap((name) => compareSchemas(old[name], now[name], `${at}/${name}`, true));
}

/** Each old alternative must be taken by one of the new ones. */
function compareAlternatives(before: unknown, after: unknown, at: string, isCounted: boolean): SchemaChange[] {
  const [old, now] = [toList(before), toList(after)];
  if (old === null || now === null) return [{ at, effect: 'unclear' }];
  const changes = old.map((schema) => now.map((other) => compareSchemas(schema, other, '', isCounted)));
  if (!changes.every((row) => row.some((found) => found.every(({ effect }) => effect === 'wider'))))
    return [{ at, effect: 'unclear' }];
  const isSame = old.length === now.length && changes.every((row) => row.some((found) => found.length === 0));
  return isSame ? [] : [{ at, effect: 'wider' }];
}

/** In these places a wider schema may refuse more: two of `oneOf` may fit, and a reference may stand in a `not`. */
const keepSame = (changes: readonly SchemaChange[], at: string): SchemaChange[] =>
  changes.length === 0 ? [] : [{ at, effect: 'unclear' }];

/** Null: everything. */
function compareSets(before: readonly unknown[] | null, after: readonly unknown[] | null): Effect | null {
  const isWithin = (some: readonly unknown[] | null, all: readonly unknown[] | null): boolean =>
    all === null || (some?.every((value) => all.some((other) => isDeepStrictEqual(value, other))) ?? false);
  if (!isWithin(before, after)) return 'narrower';
  return isWithin(after, before) ? null : 'wider';
}

/** A number may be an integer. */
function listTypes(type: unknown): readonly unknown[] | null {
  const types = typeof type === 'string' ? [type] : toList(type);
  return types?.includes('number') ? [...types, 'integer'] : types;
}

const isLess = (one: unknown, other: unknown): boolean =>
  typeof one === 'number' && typeof other === 'number' && one < other;
const toRecord = (value: unknown): Schema => (isRecord(value) ? value : {});
const toList = (value: unknown): readonly unknown[] | null => (Array.isArray(value) ? value : null);
