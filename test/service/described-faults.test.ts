/** A refusal costs what it shows: faults beyond those are neither looked for nor described. */
import t from 'tap';
import { z } from 'zod';
import { publishBody } from '../../api/plugins/plugin-input.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import '../../service/http/application.ts';
import { toProblem } from '../../service/http/errors.ts';
import { parseInput, refuseLongQuery, refuseUnknownFields } from '../../service/http/unknown-fields.ts';

/** Faults that a response shows. */
const SHOWN = 50;

/** A list that counts the items that are read. */
function countReads<Item>(items: Item[]): { list: Item[]; reads(): number } {
  const read = new Set<PropertyKey>();
  const list = new Proxy(items, {
    get(target, name, receiver) {
      if (typeof name === 'string' && /^\d+$/.test(name)) read.add(name);
      return Reflect.get(target, name, receiver);
    },
  });
  return { list, reads: () => read.size };
}

function refuse(schema: object, request: object): Problem {
  try {
    refuseUnknownFields({ routeOptions: { schema }, ...request } as never);
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

const item = z.object({ text: z.string() });
const wrongItems = (count: number) => Array.from({ length: count }, () => ({ text: 'x', txt: 'x' }));

t.test('the search for unknown fields ends at the last one that is shown', async (t) => {
  const { list, reads } = countReads(wrongItems(1_000));
  const { errors = [] } = refuse({ body: z.object({ items: z.array(item).max(1_000) }) }, { body: { items: list } });
  t.equal(errors.length, SHOWN);
  t.match(errors[1], { field: 'items.1.txt', message: 'is not known; did you mean “text”?' });
  t.equal(reads(), SHOWN);

  const nested = { body: { rows: { a: [{ b: list }] } } };
  const shape = z.object({
    rows: z.record(z.string(), z.array(z.object({ b: z.array(item) }))),
  });
  t.match(refuse({ body: shape }, nested).errors, [{ field: 'rows.a.0.b.0.txt' }]);
  t.equal(reads(), SHOWN);
});

t.test('a list that is longer than its schema allows is not searched', async (t) => {
  const { list, reads } = countReads(wrongItems(1_001));
  refuseUnknownFields({
    routeOptions: { schema: { body: z.object({ items: z.array(item).max(1_000) }) } },
    body: { items: list },
  } as never);
  t.equal(reads(), 0);
});

t.test('names beyond those that are shown are not described', async (t) => {
  const names = Array.from({ length: 4_000 }, (_, index) => `limit${index}`);
  const query = Object.fromEntries(names.map((name) => [name, '']));
  const compared = t.capture(String.prototype, 'toLowerCase', String.prototype.toLowerCase);
  const { errors = [] } = refuse({ querystring: z.object({ limit: z.string() }) }, { query });
  t.equal(errors.length, SHOWN);
  const { length } = compared();
  t.ok(length <= 10 * SHOWN, `${length} texts are compared`);
  const { errors: unnamed = [] } = refuse({}, { query });
  t.equal(unnamed.length, SHOWN);
});

t.test('issues of a schema beyond those that are shown are not described', async (t) => {
  let described = 0;
  const issue = {
    message: 'must be text',
    get instancePath() {
      described += 1;
      return '/a/0';
    },
  };
  const issues = Array.from({ length: 1_000 }, () => issue);
  const symbol = Symbol.for('ZodFastifySchemaValidationError');
  const error = Object.assign(new Error('x'), { validation: [{ ...issue, [symbol]: true }, ...issues] });
  t.equal(toProblem(error).errors?.length, SHOWN);
  t.ok(described <= SHOWN + 1, `${described} issues are described`);
  const numbers = Array.from({ length: 1_000 }, () => 0);
  t.throws(() => parseInput(z.array(z.string()), numbers, 'data'), { message: 'data.0: must be text, not a number' });
});

t.test('a list of files is refused at its first fault', async (t) => {
  const check = (count: number) =>
    publishBody.safeParse({ semVer: '1.0.0', files: Array(count).fill(0) }).error?.issues.map(({ message }) => message);
  t.same(check(10_000), ['must be an object, not a number']);
  t.same(check(10_001), ['must have at most 10000 entries']);
});

t.test('a query has few parameters', async (t) => {
  const query = (count: number) => Array.from({ length: count }, (_, index) => `a${index}`).join('&');
  t.doesNotThrow(() => refuseLongQuery('/sessions'));
  t.doesNotThrow(() => refuseLongQuery(`/sessions/${query(200)}?${query(100)}`));
  t.throws(() => refuseLongQuery(`/sessions?${query(101)}`), {
    code: 'bad_request',
    message: 'The query has more than 100 parameters. Send fewer.',
  });
});

t.test('a disk that takes no writes is no internal error', (t) => {
  for (const code of ['ENOSPC', 'EDQUOT', 'EROFS'])
    t.match(toProblem(Object.assign(new Error('/a/path'), { code })), {
      code: 'unavailable',
      retryAfter: 5,
      message: 'The disk of the service takes no writes. Retry shortly.',
    });
  t.end();
});
