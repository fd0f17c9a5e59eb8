/** The documentation as text: every link leads somewhere, every page can be found, every example is in the cookbook. */
import { existsSync, globSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { renderMarkdown } from '../../docs/site/markdown.ts';
import { readText, root } from '../../docs/site/pages.ts';
import { makeSite } from '../../docs/site/site.ts';

const site = makeSite();
const hrefs = site.pages.map(({ href }) => href);

t.test('all pages are listed in docs/README.md, and all links and anchors lead somewhere', async (t) => {
  t.same(site.faults, []);
  t.equal(new Set(hrefs).size, hrefs.length, 'no address twice');
  t.ok(site.pages.every(({ headings }) => headings[0]?.level === 1));
});

t.test('no link leads to the machine of the reader', async (t) => {
  const local = site.pages.flatMap(({ file, html }) =>
    [...html.matchAll(/href="http:\/\/localhost[^"]*"/g)].map(([link]) => `${file}: ${link}`),
  );
  t.same(local, []);
});

t.test('every picture is brought along', async (t) => {
  const shown = site.pages.flatMap(({ html }) => [...html.matchAll(/<img src="([^"]*)"/g)].map(([, src]) => src));
  t.ok(shown.length > 0);
  t.same(
    shown.filter((src) => !site.pictures.has((src ?? '').slice(1))),
    [],
  );
});

t.test('each decision has a number of its own, and every number that a page names has a decision', async (t) => {
  const numbers = [...readText('docs/decisions.md').matchAll(/^### (\d+)\. /gm)].map(([, number]) => number);
  t.ok(numbers.length > 0);
  t.same(
    numbers.filter((number, index) => numbers.indexOf(number) !== index),
    [],
  );
  const named = globSync('docs/*.md', { cwd: root }).flatMap((file) =>
    [...readText(file).matchAll(/\bdecision (\d+)/g)].map(([, number]) => number),
  );
  t.same(
    named.filter((number) => !numbers.includes(number)),
    [],
  );
});

t.test('links in files that are no pages lead somewhere, too', async (t) => {
  const files = globSync(['examples/*/readme.md', 'examples/*.md', 'sdk/**/*.md', 'deploy/**/*.md'], { cwd: root });
  const dead = files.flatMap((file) => {
    const { targets } = renderMarkdown(readText(file).replace(/^---\n[\s\S]*?\n---\n/, ''), () => null);
    const local = targets.filter((target) => !/^([a-z]+:|#)/.test(target)).map((target) => target.replace(/#.*/, ''));
    return local.filter((path) => !existsSync(join(root, dirname(file), path))).map((path) => `${file}: ${path}`);
  });
  t.same(dead, []);
});

t.test('the cookbook has a page for every example, with its consent and its code', async (t) => {
  const examples = globSync('examples/*/readme.md', { cwd: root }).map((file) =>
    dirname(file).replace('examples/', ''),
  );
  const recipes = hrefs.filter((href) => href.startsWith('/docs/cookbook/'));
  t.same(recipes.map((href) => href.replace('/docs/cookbook/', '')).sort(), examples.sort());
  const weather = site.pages.find(({ href }) => href === '/docs/cookbook/weather');
  t.match(weather?.html, /host\.http:api\.open-meteo\.com<\/code><\/td>\n<td>[A-Z]/);
  t.match(weather?.passages.map(({ text }) => text).join(''), /URLSearchParams escapes/);
});

t.test('markup in a page is text, and headings have the ids that GitHub gives them', async (t) => {
  const { html, headings } = renderMarkdown(
    '# A\n\n## `tools.<name>`\n\n<script>x</script>\n\n## B\n\n## B\n',
    () => null,
  );
  t.notMatch(html, /<script>/);
  t.same(
    headings.map(({ id }) => id),
    ['a', 'toolsname', 'b', 'b-1'],
  );
});
