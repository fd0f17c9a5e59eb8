/** Finds keywords in the schemas of tools that JSON Schema does not have: they check nothing, and usually are misspelt. */
import { formatLocation } from '../../sdk/contract/errors.ts';
import { isRecord } from '../../sdk/contract/is-record.ts';
import { checkedKeywords, describingKeywords } from '../../sdk/contract/schema-keywords.ts';
import { findNearName } from '../../service/text/near-name.ts';
import { cutQuoted } from '../../service/text/quoted-text.ts';
import type { Introspected } from './discovery.ts';
import { WARNINGS_MAX } from './warnings.ts';

const KNOWN = [...checkedKeywords, ...describingKeywords];
/** With three edits, the parameter “content” would be near the keyword “const”. */
const EDITS_MAX = 2;
/** Keywords with one schema, a list of schemas, and schemas by name. */
const SCHEMAS = new Set(['items', 'additionalProperties', 'contains', 'propertyNames', 'not', 'if', 'then', 'else']);
const LISTS = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']);
const MAPS = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);

type Schema = Readonly<Record<string, unknown>>;

interface UnknownKeyword {
  /** JSON pointer in the schema. */
  readonly at: string;
  readonly message: string;
}

/** Returns one sentence for each of the first unknown keywords, with the place of its tool. */
export function findSchemaWarnings({ registrations, placeOf }: Introspected): string[] {
  const warnings: string[] = [];
  for (const [tool, { parameters }] of Object.entries(registrations.tools))
    for (const { at, message } of findUnknownKeywords(parameters, '')) {
      // Schemas may have tens of thousands of them, and each is compared with all known keywords.
      if (warnings.length === WARNINGS_MAX) return warnings;
      const field = cutQuoted(`tools.${tool}.parameters${at}`);
      warnings.push(formatLocation({ ...placeOf(`tools.${tool}`), field, message }));
    }
  return warnings;
}

function* findUnknownKeywords(schema: unknown, at: string): Generator<UnknownKeyword> {
  if (!isRecord(schema)) return;
  for (const [keyword, value] of Object.entries(schema)) {
    const place = `${at}/${keyword}`;
    if (SCHEMAS.has(keyword)) yield* findUnknownKeywords(value, place);
    else if ((LISTS.has(keyword) && Array.isArray(value)) || (MAPS.has(keyword) && isRecord(value)))
      for (const [name, inner] of Object.entries(value)) yield* findUnknownKeywords(inner, `${place}/${name}`);
    else if (!KNOWN.includes(keyword) && !keyword.startsWith('x-'))
      yield {
        at: place,
        message: `is not a keyword of JSON Schema, so it checks nothing.${suggest(keyword, schema, at)}`,
      };
  }
}

function suggest(keyword: string, schema: Schema, at: string): string {
  const near = findNearName(keyword, KNOWN, EDITS_MAX);
  if (near !== null) return ` Did you mean “${near}”?`;
  const isParameter = at === '' && schema.properties === undefined && isRecord(schema[keyword]);
  return isParameter ? ` Write the parameter as properties: { ${cutQuoted(keyword)}: … }.` : '';
}
