/** Finds keywords in the schemas of tools that JSON Schema does not have: they check nothing, and usually are misspelt. */
import { formatLocation } from '../../sdk/contract/errors.ts';
import { isRecord } from '../../sdk/contract/is-record.ts';
import { checkedKeywords, describingKeywords } from '../../sdk/contract/schema-keywords.ts';
import { findNearName } from '../../service/text/near-name.ts';
import type { Introspected } from './discovery.ts';

const KNOWN = [...checkedKeywords, ...describingKeywords];
/** Edits between a keyword and a suggestion, at most. */
const EDITS_MAX = 2;
/** Keywords with one schema, a list of schemas, and schemas by name. */
const SCHEMAS = new Set(['items', 'additionalProperties', 'contains', 'propertyNames', 'not', 'if', 'then', 'else']);
const LISTS = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']);
const MAPS = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);

type Schema = Readonly<Record<string, unknown>>;

/** Returns one sentence for each unknown keyword, with the place of its tool. */
export function findSchemaWarnings({ registrations, placeOf }: Introspected): string[] {
  return Object.entries(registrations.tools).flatMap(([tool, { parameters }]) =>
    findUnknownKeywords(parameters, '').map(({ at, message }) =>
      formatLocation({ ...placeOf(`tools.${tool}`), field: `tools.${tool}.parameters${at}`, message }),
    ),
  );
}

function findUnknownKeywords(schema: unknown, at: string): { at: string; message: string }[] {
  if (!isRecord(schema)) return [];
  return Object.entries(schema).flatMap(([keyword, value]) => {
    const place = `${at}/${keyword}`;
    if (SCHEMAS.has(keyword)) return findUnknownKeywords(value, place);
    if ((LISTS.has(keyword) && Array.isArray(value)) || (MAPS.has(keyword) && isRecord(value)))
      return Object.entries(value).flatMap(([name, inner]) => findUnknownKeywords(inner, `${place}/${name}`));
    if (KNOWN.includes(keyword) || keyword.startsWith('x-')) return [];
    return [
      { at: place, message: `is not a keyword of JSON Schema, so it checks nothing.${suggest(keyword, schema, at)}` },
    ];
  });
}

function suggest(keyword: string, schema: Schema, at: string): string {
  const near = findNearName(keyword, KNOWN, EDITS_MAX);
  if (near !== null) return ` Did you mean “${near}”?`;
  const isParameter = at === '' && schema.properties === undefined && isRecord(schema[keyword]);
  return isParameter ? ` Write the parameter as properties: { ${keyword}: … }.` : '';
}
