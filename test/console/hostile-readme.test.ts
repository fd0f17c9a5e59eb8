/** The catalog page of a plugin whose readme takes a parser or a browser longer than a reader waits. */
import t from 'tap';
import { isSoak, listCases } from '../runner/soak.ts';
import { openSignedIn, shareBrowser } from './browser.ts';
import { shareConsoleService } from './console-fixture.ts';
import { packageFiles } from './front-desk.ts';

const service = await shareConsoleService('reader');
const browser = await shareBrowser(t);

const HOSTILE: Readonly<Record<string, string>> = {
  'large-table': `${'|a'.repeat(500)}|\n${'|-'.repeat(500)}|\n${'|\n'.repeat(333)}`,
  // Parsed, it has four million cells.
  'huge-table': `${'|a'.repeat(2_000)}|\n${'|-'.repeat(2_000)}|\n${'|\n'.repeat(2_000)}`,
  'deep-quotes': '>'.repeat(4_000),
  // The parser takes 48 s.
  'open-emphasis': '*a_ '.repeat(10_000),
};

/** Arabic: a paragraph, an item that begins with code, and a cell of a table. */
const RIGHT_TO_LEFT = 'أول `code` آخر\n\n- `sign` أول\n\n| x |\n|-|\n| أول `code` آخر |';

const COLUMNS = 30;
const WIDE_TABLE = `${'|option'.repeat(COLUMNS)}|\n${'|-'.repeat(COLUMNS)}|`;

async function list(slug: string, text: string): Promise<void> {
  const { body: plugin } = await service.call('POST', '/api/plugins', { slug, displayName: slug });
  const [readme, ...rest] = packageFiles();
  const files = [{ path: 'readme.md', contentText: `${readme?.contentText}\n${text}` }, ...rest];
  const { status, body } = await service.call('POST', `/api/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files });
  if (status !== 201) throw new Error(JSON.stringify(body));
  await service.call('POST', `/api/plugins/${plugin.id}/listing`);
}

t.test('a readme that is too complex is shown as its text, and the page around it at once', async (t) => {
  const { context, page, complaints } = await openSignedIn(browser, service);
  for (const [slug, text] of listCases(HOSTILE, 'large-table')) {
    await list(slug, text);
    await page.goto(`${service.url}/catalog/${slug}`);
    await page.getByRole('heading', { name: 'What it can access' }).waitFor();
    await page.getByText('The readme could not be formatted').waitFor();
    const shown = await page.locator('pre.payload').textContent();
    t.ok(shown?.includes(text.trimEnd()), `${slug}: the text is whole`);
    t.equal(await page.locator('.readme').count(), 0);
  }
  if (isSoak()) {
    await page.goto(`${service.url}/catalog/large-table`);
    const retry = page.getByRole('button', { name: 'Try again' });
    await retry.waitFor();
    // The worker is started as often as the user asks.
    const started = page.waitForEvent('worker');
    await retry.click();
    await started;
    await page.getByText('The readme could not be formatted').waitFor();
  }
  await list(
    'plain',
    `> > quoted\n\n- [ ] to do\n\n&#x202E;one &zwnj;two \`three\` ![fo&#x200B;ur](https://example.com)\n\n${RIGHT_TO_LEFT}\n\n${WIDE_TABLE}`,
  );
  await page.goto(`${service.url}/catalog/plain`);
  await page.locator('.readme blockquote blockquote').getByText('quoted').waitFor();
  t.ok(await page.locator('.readme').getByText("<script>alert('readme')</script>").isVisible(), 'HTML is text');
  // A publish refuses the characters themselves.
  await page.locator('.readme').getByText('⟨U+202E⟩one ⟨U+200C⟩two three fo⟨U+200B⟩ur').waitFor();
  for (const element of ['p', 'li', 'td'])
    t.ok(await page.locator(`.readme ${element}`, { hasText: 'أول' }).evaluate(isRightToLeft), element);
  const wide = page.locator('.readme table').last();
  t.ok(await wide.evaluate(scrollsInItsBox), 'a wide table scrolls, by keyboard too');
  const heading = await wide.locator('th').first().boundingBox();
  t.ok(heading && heading.height < 2 * heading.width, `no column is a letter wide: ${JSON.stringify(heading)}`);
  t.same(complaints, []);
  await context.close();
});

interface Laid {
  readonly ownerDocument: { createRange(): Range };
  readonly firstChild: object;
  readonly lastChild: object;
}
interface Range {
  selectNodeContents(node: object): void;
  getBoundingClientRect(): { readonly left: number };
}
interface Box {
  readonly parentElement: { readonly scrollWidth: number; readonly clientWidth: number; readonly tabIndex: number };
}
const scrollsInItsBox = (table: object): boolean => {
  const { scrollWidth, clientWidth, tabIndex } = (table as Box).parentElement;
  return tabIndex === 0 && scrollWidth > clientWidth;
};

/** Whether the first text in an element is further right than the last one. */
const isRightToLeft = (element: object): boolean => {
  const { ownerDocument, firstChild, lastChild } = element as Laid;
  const readLeft = (node: object) => {
    const range = ownerDocument.createRange();
    range.selectNodeContents(node);
    return range.getBoundingClientRect().left;
  };
  return readLeft(firstChild) > readLeft(lastChild);
};
