/** Events that are formatted in pieces are the same as those that are formatted whole. */
import t from 'tap';
import { JsonText } from '../../db/postgres/row-tail.ts';
import { formatEvent, formatEvents, PIECE_CHARS } from '../../service/http/event-text.ts';

const join = (data: unknown): string => [...formatEvents([{ id: '1', type: 'x', data }])].join('');

t.test('every JSON value', async (t) => {
  for (const data of [
    null,
    0,
    '',
    'a "quoted" text\n',
    [],
    [1, { a: 'b' }, null],
    {},
    { a: undefined, b: null, 'c"': true, d: { e: ['f'], g: {} } },
    '\u0001'.repeat(100_000),
    `${'x'.repeat(4_095)}${'😀'.repeat(10_000)}`,
    `${'x'.repeat(4_096)}${'😀'.repeat(10_000)}`,
  ])
    t.equal(join(data), formatEvent({ id: '1', type: 'x', data }), String(JSON.stringify(data)).slice(0, 40));
});

t.test('JSON that the database holds stays on one line', async (t) => {
  const value = { a: 'b\nc', list: Array.from({ length: 5_000 }, () => '😀') };
  const data = { before: 1, value: new JsonText(JSON.stringify(value, null, 2)), after: 2 };
  const [head, id, rest] = [...join(data).split('\ndata: ')];
  t.equal(head, 'id: 1\nevent: x');
  t.equal(rest, undefined);
  t.equal(id?.indexOf('\n\n'), (id?.length ?? 0) - 2);
  t.same(JSON.parse(id ?? ''), { before: 1, value, after: 2 });
});

t.test('characters at which some readers end a line are escaped', async (t) => {
  const value = { '\u2028': 'a\u0085b\u2028c\u2029d', list: ['\u2029'] };
  for (const data of [value, { value: new JsonText(JSON.stringify(value)) }]) {
    const text = join(data);
    t.notMatch(text, /[\u0085\u2028\u2029]/);
    const json = text.slice(text.indexOf('data: ') + 'data: '.length);
    t.same(JSON.parse(json), 'value' in data ? { value } : value);
  }
  t.equal(formatEvent({ type: 'x', data: value }), join(value).replace('id: 1\n', ''));
});

t.test('pieces are of limited size, each well-formed, and small events share one', async (t) => {
  const small = { id: '1', type: 'x', data: 'x' };
  t.equal([...formatEvents(Array.from({ length: 10 }, () => small))].length, 1);
  t.equal([...formatEvents([])].length, 0);
  for (const data of ['\u0001'.repeat(262_144), '😀'.repeat(131_072), new JsonText(`"x${'😀'.repeat(131_072)}"`)]) {
    const pieces = [...formatEvents([{ id: '1', type: 'x', data }])];
    t.ok(pieces.length > 3);
    t.ok(pieces.every((piece) => piece.length < 2 * PIECE_CHARS && piece.isWellFormed()));
  }
});
