/** Why the JSON of a body is treated in another way than the JSON test suite says, or than a reader might expect. */

/** Outcomes that are what the suite says. */
const AGREED = [
  'JSON in the suite: read alike',
  'not JSON in the suite: refused. The body is not valid JSON.',
  'either in the suite: read alike',
];
const REASONS: readonly (readonly [RegExp, string])[] = [
  [
    /must not contain U\+0000/,
    'PostgreSQL stores no U+0000, and UTF-8 has no lone surrogates. The answer names the field.',
  ],
  [/holds the number/, 'Another number, or null, would be stored in its place.'],
  [/nests deeper/, 'The levels are limited, so that no code that walks JSON overflows its stack.'],
  [
    /^either in the suite: refused/,
    'UTF-16, or a mark of the byte order in the middle of a body. At its beginning the mark is skipped.',
  ],
  [/read otherwise/, 'A number with a fraction or an exponent is rounded to the nearest double.'],
];

/** @returns empty: it needs no reason; null: there is none */
export function explainJson(kind: string): string | null {
  if (AGREED.includes(kind)) return '';
  return REASONS.find(([pattern]) => pattern.test(kind))?.[1] ?? null;
}
