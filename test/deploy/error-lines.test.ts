import t from 'tap';
import { isErrorLine } from '../../deploy/error-lines.ts';

t.test('a line with an error and its reason is recognized', async (t) => {
  for (const line of ['Error: full', 'TypeError [ERR_X]: no', 'at 10:00 SyntaxError: x']) t.ok(isErrorLine(line), line);
  for (const line of ['', 'a: b', 'at 10:00 an Error', 'Errors: 2', '    at new Error (x)'])
    t.notOk(isErrorLine(line), line);
});

t.test('a line of many errors without a reason is read in linear time', async (t) => {
  // Took minutes of processor time when the rest of the line was searched behind each.
  t.notOk(isErrorLine('Error '.repeat(200_000)));
});
