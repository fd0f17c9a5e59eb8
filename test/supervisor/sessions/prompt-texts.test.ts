/** The texts of prompt commands and skills. */
import t from 'tap';
import { TEXT_MAX_CHARS } from '../../../sdk/contract/payloads.ts';
import { belowFrontmatter, fillPrompt } from '../../../supervisor/sessions/prompt-texts.ts';

t.test('a text is what follows the frontmatter', async (t) => {
  for (const [file, text] of [
    ['---\ndescription: a\n---\n\nDo it.\n', 'Do it.\n'],
    ['\uFEFF--- \r\ndescription: a\r\n---\t\r\nDo it.', 'Do it.'],
    ['---\n---\nDo it.', 'Do it.'],
    ['Do it.', 'Do it.'],
    ['---\na: b\n---', ''],
  ] as const)
    t.equal(belowFrontmatter(file), text);
});

t.test('the rules of a text stay, with what is between them', async (t) => {
  const text = 'First:\n\n---\nDo it.\n---\n\nThen stop.';
  t.equal(belowFrontmatter(text), text, 'without frontmatter');
  t.equal(belowFrontmatter(`---\ndescription: a\n---\n${text}`), text);
});

t.test('the input replaces each placeholder as it is, or follows the prompt', async (t) => {
  t.equal(
    fillPrompt('Say $ARGUMENTS and $ARGUMENTS.', '$& or $ARGUMENTS'),
    'Say $& or $ARGUMENTS and $& or $ARGUMENTS.',
  );
  t.equal(fillPrompt('Say it.', 'loudly'), 'Say it.\n\nloudly');
  t.equal(fillPrompt('Say it.', ''), 'Say it.');
});

t.test('a prompt of many placeholders is cut before it fills the memory', async (t) => {
  const input = 'x'.repeat(TEXT_MAX_CHARS);
  // Whole, the text would be longer than a string may be.
  t.equal(fillPrompt('$ARGUMENTS'.repeat(20_000), input), input);
});

t.test('a cut leaves no half of a character', async (t) => {
  const cut = fillPrompt('$ARGUMENTS', `x${'😀'.repeat(TEXT_MAX_CHARS / 2)}`);
  t.equal(cut.length, TEXT_MAX_CHARS);
  t.ok(cut.isWellFormed());
});
