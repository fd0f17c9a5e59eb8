import t from 'tap';
import { rewordBuildMessage } from '../../../api/package/build-messages.ts';

t.test('messages of esbuild are reworded', async (t) => {
  const messages: Record<string, string> = {
    'No matching export in "package:a.ts" for import "default"': '“a.ts” has no default export',
    'No matching export in "package:a:b.ts" for import "c"': '“a:b.ts” exports nothing with the name “c”',
    'Expected ";" but found "x"': 'Syntax error: “x” stands where “;” is expected',
    'Transforming const to the configured target environment ("es5") is not supported yet':
      'This syntax is not supported: const',
  };
  for (const [message, words] of Object.entries(messages)) t.equal(rewordBuildMessage(message), words);
});

t.test('a message with a long text of the author is reworded in linear time', async (t) => {
  // Took minutes of processor time or more when each colon was tried as the end of the namespace.
  const message = `No matching export in "${':'.repeat(500_000)}" for`;
  t.match(rewordBuildMessage(message), /^No matching export in “:/);
  t.match(rewordBuildMessage(`Expected ${' but found '.repeat(50_000)}\n`), /^Syntax error/);
});
