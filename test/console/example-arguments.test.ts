/** The arguments with which the form for calling a tool starts. */
import t from 'tap';
import { composeArguments } from '../../console/playground/example-arguments.ts';

t.test('arguments start with what the schema requires', async (t) => {
  const compose = (schema: Parameters<typeof composeArguments>[0]) => JSON.parse(composeArguments(schema));
  t.same(compose({ type: 'object' }), {});
  t.same(compose({ type: 'object', required: ['a', 7, 'unknown'], properties: { a: true } }), {
    a: null,
    unknown: null,
  });
  const properties = {
    city: { type: 'string' },
    days: { type: 'integer', default: 3 },
    unit: { enum: ['C', 'F'] },
    kind: { const: 'forecast' },
    at: { type: 'object', required: ['lat'], properties: { lat: { type: 'number' }, lon: { type: 'number' } } },
    tags: { type: 'array' },
    isShort: { type: 'boolean' },
    notes: { type: 'string' },
  };
  const required = ['city', 'days', 'unit', 'kind', 'at', 'tags', 'isShort'];
  const expected = { city: '', days: 3, unit: 'C', kind: 'forecast', at: { lat: 0 }, tags: [], isShort: false };
  t.same(compose({ type: 'object', properties, required }), expected);
});
