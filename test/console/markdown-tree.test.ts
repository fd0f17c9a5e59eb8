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

t.test('a readme whose long definition is used once, beside many short ones, is formatted', async (t) => {
  const logo = `[logo]: data:image/png;base64,${'A'.repeat(20_000)}`;
  const tree = parseMarkdown(`![logo]\n\n${'[Docs] [b]\n'.repeat(105)}\n${logo}\n[docs]: /docs\n[b]: /b`);
  const formatted = JSON.stringify(tree);
  t.equal(formatted.split('"tagName":"a"').length - 1, 210);
  t.equal(formatted.split('"tagName":"img"').length - 1, 1);
});

t.test('of definitions with one name, the first counts', async (t) => {
  const [short, long] = ['[a]: /x', `[A]: /${'x'.repeat(10_000)}`];
  const links = '[a]\n'.repeat(1_000);
  t.equal(parseMarkdown(`${long}\n${short}\n\n${links}`), null);
  t.ok(parseMarkdown(`${short}\n${long}\n\n${links}`));
});
