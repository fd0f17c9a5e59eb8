/** The arguments of a tool are checked in bounded time, whatever its schema is. */
import t from 'tap';
import { ArgumentChecker } from '../../../supervisor/calls/argument-checks.ts';

const choices = Array.from({ length: 1_800 }, (_, index) => ({ const: index }));
const schema = { type: 'object', properties: { items: { type: 'array', items: { anyOf: choices } } } };
const itemsOf = (length: number) => ({ items: Array.from({ length }, () => 1_799) });

t.test('a schema with many alternatives checks few values, and stops at the limit for many', (t) => {
  const checker = new ArgumentChecker();
  checker.check('v1 run', schema, itemsOf(20));
  t.throws(() => checker.check('v1 run', schema, { items: ['none'] }), { code: 'invalid_arguments' });
  t.throws(() => checker.check('v1 run', schema, itemsOf(100_000)), {
    code: 'plugin_failed',
    message: 'The tool’s schema takes too long to check these arguments.',
  });
  t.end();
});

t.test('many values are no matter for a small schema', (t) => {
  const numbers = { type: 'object', properties: { items: { type: 'array', items: { type: 'number' } } } };
  const checker = new ArgumentChecker();
  checker.check('v2 run', numbers, itemsOf(20_000));
  t.throws(() => checker.check('v2 run', numbers, { items: ['1'] }), { code: 'invalid_arguments' });
  t.end();
});
