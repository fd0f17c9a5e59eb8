/** Why a schema is treated otherwise than the JSON Schema test suite says. */
import type { SchemaResult } from './schemas.ts';

const AGREES = 'as the suite says';
const REASONS: readonly (readonly [RegExp, string])[] = [
  [/^(additionalItems|items): refused/, 'A list of schemas in `items` is `prefixItems` in draft 2020-12.'],
  [/^(maximum|minimum|bignum): refused/, '`exclusiveMaximum` and `exclusiveMinimum` are numbers since draft 6.'],
  [/^(refRemote|definitions): refused/, 'They name schemas at other addresses, and nothing is fetched.'],
  [/^ref: refused/, 'One names an address, and one has a list in `items`, as above.'],
  [/^format: /, 'Formats are notes in draft 2020-12, which no value is checked against.'],
  [/^zeroTerminatedFloats: /, 'Since draft 6, 1.0 is an integer. JSON has one kind of number.'],
  [
    /^unevaluatedItems after contains: /,
    'The validator (ajv) counts all items as evaluated where `contains` is. Say it with `items`.',
  ],
];

export function describeSchema({ keyword, refusal, differing }: SchemaResult): string {
  if (refusal !== null) return `${keyword}: refused when published`;
  return differing.length === 0 ? AGREES : `${keyword}: ${differing.join('; ')}`;
}

/** @returns empty: it needs no reason; null: there is none */
export function explainSchema(kind: string): string | null {
  if (kind === AGREES) return '';
  return REASONS.find(([pattern]) => pattern.test(kind))?.[1] ?? null;
}
