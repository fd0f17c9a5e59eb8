/** Schemas and values: those of the JSON Schema test suite, and of our own for what drafts after its last one added. */
import suite from 'json-schema-test-suite';

export interface SchemaCase {
  /** The file of the suite, or the keyword. */
  readonly keyword: string;
  readonly description: string;
  readonly schema: unknown;
  readonly tests: readonly { readonly description: string; readonly data: unknown; readonly valid: boolean }[];
}

/** The suite's draft 4, which npm has, with what draft 2020-12 only renamed. */
export function listSchemaCases(): readonly SchemaCase[] {
  const theirs = suite.draft4().flatMap(({ name, schemas }) => schemas.map((one) => ({ ...one, keyword: name })));
  return [...theirs, ...ours];
}

const listed = (
  keyword: string,
  schema: unknown,
  values: { readonly valid: readonly unknown[]; readonly invalid: readonly unknown[] },
): SchemaCase => ({
  keyword,
  description: 'draft 2020-12',
  schema,
  tests: [
    ...values.valid.map((data) => ({ description: JSON.stringify(data), data, valid: true })),
    ...values.invalid.map((data) => ({ description: JSON.stringify(data), data, valid: false })),
  ],
});

const tree = {
  $dynamicAnchor: 'node',
  type: 'object',
  properties: { children: { type: 'array', items: { $dynamicRef: '#node' } } },
  required: ['name'],
};

const ours: readonly SchemaCase[] = [
  listed('true', true, { valid: [null, 0, 'x', [], {}], invalid: [] }),
  listed(
    'const',
    { const: { a: [1, null] } },
    { valid: [{ a: [1, null] }], invalid: [{ a: [1] }, { a: [1, 0] }, null] },
  ),
  listed('const', { const: 1 }, { valid: [1, 1.0], invalid: ['1', true, [1]] }),
  listed('const', { const: { toString: 1 } }, { valid: [{ toString: 1 }], invalid: [{}, { toString: 2 }] }),
  listed('exclusiveMinimum', { exclusiveMinimum: 1.5 }, { valid: [1.6, 'x'], invalid: [1.5, 1] }),
  listed('exclusiveMaximum', { exclusiveMaximum: 3 }, { valid: [2.9], invalid: [3, 4] }),
  listed(
    'prefixItems',
    { prefixItems: [{ type: 'string' }, { type: 'number' }] },
    { valid: [['a', 1], ['a'], [], ['a', 1, null]], invalid: [[1], ['a', 'b']] },
  ),
  listed(
    'items after prefixItems',
    { prefixItems: [true], items: { type: 'null' } },
    { valid: [['x'], ['x', null]], invalid: [['x', 1]] },
  ),
  listed('items: false', { prefixItems: [true], items: false }, { valid: [[], [1]], invalid: [[1, 2]] }),
  listed('contains', { contains: { type: 'number' } }, { valid: [['a', 1]], invalid: [[], ['a']] }),
  listed(
    'minContains',
    { contains: { const: 1 }, minContains: 2, maxContains: 3 },
    {
      valid: [
        [1, 1],
        [1, 0, 1, 1],
      ],
      invalid: [[1], [1, 1, 1, 1]],
    },
  ),
  listed('minContains: 0', { contains: { const: 1 }, minContains: 0 }, { valid: [[], [2]], invalid: [] }),
  listed(
    'propertyNames',
    { propertyNames: { pattern: '^[a-z]+$' } },
    { valid: [{}, { abc: 1 }], invalid: [{ A: 1 }, { '': 1 }] },
  ),
  listed(
    'if',
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    { if: { type: 'string' }, then: { minLength: 2 }, else: { type: 'number' } },
    { valid: ['ab', 1], invalid: ['a', null] },
  ),
  listed('if alone', { if: { const: 0 } }, { valid: [0, 1], invalid: [] }),
  listed(
    'dependentRequired',
    { dependentRequired: { a: ['b'] } },
    { valid: [{}, { b: 1 }, { a: 1, b: 1 }], invalid: [{ a: 1 }] },
  ),
  listed(
    'dependentSchemas',
    { dependentSchemas: { a: { maxProperties: 1 } } },
    { valid: [{ a: 1 }, { b: 1, c: 1 }], invalid: [{ a: 1, b: 1 }] },
  ),
  listed(
    'unevaluatedProperties',
    { allOf: [{ properties: { a: true } }], properties: { b: true }, unevaluatedProperties: false },
    { valid: [{ a: 1, b: 1 }, {}], invalid: [{ c: 1 }] },
  ),
  listed(
    'unevaluatedProperties in anyOf',
    {
      anyOf: [
        { properties: { a: { const: 1 } }, required: ['a'] },
        { properties: { b: true }, required: ['b'] },
      ],
      unevaluatedProperties: false,
    },
    { valid: [{ a: 1 }, { b: 2 }, { a: 1, b: 2 }], invalid: [{ a: 2, b: 2 }] },
  ),
  listed('unevaluatedItems', { prefixItems: [true], unevaluatedItems: false }, { valid: [[1]], invalid: [[1, 2]] }),
  listed(
    'unevaluatedItems after contains',
    { contains: { type: 'string' }, unevaluatedItems: false },
    { valid: [['a', 'b']], invalid: [['a', 1]] },
  ),
  listed('$anchor', { $defs: { one: { $anchor: 'one', const: 1 } }, $ref: '#one' }, { valid: [1], invalid: [2] }),
  listed(
    '$ref beside keywords',
    { $defs: { text: { type: 'string' } }, $ref: '#/$defs/text', minLength: 2 },
    { valid: ['ab'], invalid: ['a', 1] },
  ),
  listed(
    '$ref to a name with / and ~',
    { $defs: { 'a/b~c%d': { type: 'null' } }, $ref: '#/$defs/a~1b~0c%25d' },
    { valid: [null], invalid: [0] },
  ),
  listed('$dynamicRef', tree, {
    valid: [{ name: 'a', children: [{ name: 'b' }] }],
    invalid: [{ name: 'a', children: [{}] }],
  }),
  listed(
    '$comment and examples',
    { $comment: 'x', examples: [1], default: 2, readOnly: true, deprecated: true },
    { valid: [null], invalid: [] },
  ),
  listed('format is a note', { format: 'email' }, { valid: ['no email', 1], invalid: [] }),
  listed(
    'contentEncoding is a note',
    { contentEncoding: 'base64', contentMediaType: 'image/png' },
    { valid: ['%'], invalid: [] },
  ),
  listed('pattern with Unicode', { pattern: '^\\p{Letter}+$' }, { valid: ['äß漢'], invalid: ['a1'] }),
  listed('maxLength counts code points', { maxLength: 2 }, { valid: ['\u{1f600}\u{1f600}'], invalid: ['abc'] }),
  listed(
    'properties of a prototype',
    { properties: { constructor: { type: 'number' }, ['__proto__']: { type: 'string' }, toString: { minLength: 1 } } },
    {
      valid: [{}, { constructor: 1 }, JSON.parse('{"__proto__":"x"}')],
      invalid: [{ constructor: 'x' }, JSON.parse('{"__proto__":1}'), { toString: '' }],
    },
  ),
  listed(
    'required of a prototype',
    { required: ['toString', 'hasOwnProperty'] },
    { valid: [{ toString: 1, hasOwnProperty: 1 }], invalid: [{}] },
  ),
];
