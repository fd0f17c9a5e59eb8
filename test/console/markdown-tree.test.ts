/** The tree of a readme, which the page gets as a copy from the worker that parses it. */
import t from 'tap';
import { parseMarkdown } from '../../console/catalog/markdown-tree.ts';

/** Links by reference to one definition, whose title is as long as a readme allows beside them. */
const repeatDefinition = (titleChars: number, links: number): string =>
  `[a]: /x "${'b'.repeat(titleChars)}"\n\n${'[a]\n'.repeat(links)}`;

t.test('a readme whose links repeat a long definition is too complex', async (t) => {
  t.ok(parseMarkdown(repeatDefinition(120_000, 15_000)) === null, 'a title');
  t.equal(
    parseMarkdown(`![a]\n${'[a]\n'.repeat(1_000)}\n[a]: /${'ä'.repeat(10_000)}`),
    null,
    'an address, defined at the end',
  );
});

t.test('a readme with many links to common definitions is formatted', async (t) => {
  const tree = parseMarkdown(repeatDefinition(200, 2_000));
  t.equal(JSON.stringify(tree).split('"tagName":"a"').length - 1, 2_000);
});
