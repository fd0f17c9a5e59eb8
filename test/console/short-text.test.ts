/** Texts of any length stand for a thing in labels of buttons. */
import t from 'tap';
import { shortenText } from '../../console/style/short-text.ts';

t.test('a long text of several lines is shortened to the beginning of the first', async (t) => {
  t.equal(shortenText('Turn the oven on'), 'Turn the oven on');
  t.equal(shortenText(' Turn the oven on\n'), 'Turn the oven on');
  t.equal(shortenText('Read the calendar.\r\nThen write to Ann.'), 'Read the calendar.…');
  t.equal(shortenText('🥖'.repeat(80)), '🥖'.repeat(80));
  t.equal(shortenText('🥖'.repeat(10_000)), `${'🥖'.repeat(80)}…`);
});
