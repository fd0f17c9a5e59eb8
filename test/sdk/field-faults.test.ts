/** What is said of a value that has none of several forms. */
import t from 'tap';
import { z } from 'zod';
import { allowNull, describeFieldFault, locateFault } from '../../sdk/contract/field-faults.ts';

const parts = z.array(z.object({ text: z.string() }));
const content = z.union([z.union([z.string(), parts]), z.null()]);
const price = z.object({ input: z.number(), output: z.number() });
const model = z.union([z.string().min(1).max(5), z.strictObject({ id: z.string().min(1), price: price.optional() })]);
const either = z.union([z.object({ token: z.string() }), z.object({ code: z.string() })]);

const CASES: readonly (readonly [schema: z.ZodType, value: unknown, fault: string])[] = [
  [content, 5, 'must be text or a list or null'],
  [content, undefined, 'is required and must be text or a list or null'],
  [content, [{ text: 5 }], '0.text must be text, not a number'],
  [allowNull(z.string()), 5, 'must be text or null, not a number'],
  [model, 4, 'must be text or an object'],
  [model, '', 'must not be empty'],
  [model, 'abcdef', 'must have at most 5 characters'],
  [model, { name: 'm' }, 'id is required and must be text'],
  [model, { id: 'm', price: { input: 1 } }, 'price.output is required and must be a number'],
  [model, { id: 'm', cost: 1 }, 'must not have “cost”'],
  [either, {}, 'must have one of the forms that the reference lists'],
];

t.test('where the type fits one form, the fault within it is named', async (t) => {
  for (const [schema, value, fault] of CASES) {
    const { error } = z.object({ field: schema }).safeParse({ field: value }, { error: describeFieldFault });
    t.equal(error && locateFault(error), `field: ${fault}`);
  }
});
