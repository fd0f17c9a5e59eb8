import type { Page } from 'playwright-core';
import t from 'tap';
import { eventually, startServiceOnTestDatabase } from '../deploy/service-fixture.ts';
import { openConsole, startBrowser } from './browser.ts';
import { installationThat } from './front-desk.ts';
import { inspect } from './pictures.ts';

t.setTimeout(900_000);

t.test('a plugin is written, mended and tried without leaving the page', async (t) => {
  const service = await startServiceOnTestDatabase(t);
  const { body: plugin } = await service.call('POST', '/api/plugins', { slug: 'greeter', displayName: 'Greeter' });
  const { page, complaints } = await openConsole(await startBrowser(t), `${service.url}/#token=${service.token}`);
  await page.getByRole('link', { name: 'My plugins' }).click();
  await page.getByRole('link', { name: 'Greeter' }).click();
  await page.getByRole('link', { name: 'Edit files' }).click();
  await page.locator('.monaco-editor').getByText('middleware').first().waitFor();

  await t.test('what the SDK does not have is marked; what it has is offered and explained', async () => {
    await write(page, 'middleware.systemPrompt = (ctx) => ctx.systemPromt;');
    await page.locator('.squiggly-error').waitFor();
    await isOffered(page, 'host.', /^log/);
    await page.keyboard.press('Escape');
    await write(page, 'middleware.systemPrompt = (ctx) => ctx.systemPrompt;');
    await nothingIsRed(page);
    await page.locator('.view-line').getByText('systemPrompt').first().hover();
    await page.locator('.monaco-hover').getByText('systemPrompt').first().waitFor();
    await page.mouse.move(0, 0);
  });

  await t.test('what the service refuses is marked at its line, and a click goes there', async (t) => {
    await write(page, "host.log('one');\nimport('x');\n");
    await page.keyboard.press('Control+s');
    const fault = page.getByRole('button', { name: /^index\.ts:2/ });
    await fault.waitFor();
    await page.locator('.squiggly-error').first().waitFor();
    await inspect(t, page, 'editor-faults');
    await page.getByLabel('File', { exact: true }).selectOption('readme.md');
    await fault.click();
    t.equal(await page.getByLabel('File', { exact: true }).inputValue(), 'index.ts');
  });

  await t.test('files are added, import each other, and all are saved as the draft', async (t) => {
    await page.getByLabel('New file').fill('words.ts');
    await page.getByRole('button', { name: 'Add' }).click();
    await write(page, "export const words = 'Be brief.';\n");
    await page.getByLabel('File', { exact: true }).selectOption('index.ts');
    await write(page, PLUGIN);
    await page.getByRole('button', { name: 'Save as draft' }).click();
    await page.getByText('The draft is saved.').waitFor();
    await nothingIsRed(page);
    const { body } = await service.call('GET', `/api/plugins/${plugin.id}/versions/draft/files`);
    const saved = body.items.map((file: { path: string }) => file.path);
    t.same(saved.toSorted(), ['index.ts', 'readme.md', 'words.ts']);
  });

  await t.test(
    'the draft runs in a session beside it: a hook, a tool, the trace; and so does the next save',
    async (t) => {
      await page.getByRole('button', { name: 'Try it' }).click();
      await page.getByRole('button', { name: 'Run the hook' }).click();
      await page
        .getByText(/You are a helpful agent\. Be brief\./)
        .last()
        .waitFor();
      await page.getByRole('table', { name: 'Links of the chain' }).getByText('changed').waitFor();
      await page.getByRole('button', { name: 'Call the tool' }).click();
      await page.getByText('"good day"').waitFor();
      await inspect(t, page, 'editor');
      await write(page, PLUGIN.replace('good day', 'good night'));
      await page.keyboard.press('Control+s');
      await page.getByText('The draft is saved.').waitFor();
      await untilCalled(page, '"good night"');
      await installationThat(service, ({ versionPolicy }) => versionPolicy === 'Draft');
    },
  );

  await t.test('the keyboard gets out of the editor, and nobody leaves unsaved text by a slip', async (t) => {
    await write(page, `${PLUGIN}// more`);
    await page.keyboard.press('Escape');
    t.ok(await page.getByRole('textbox', { name: 'Version', exact: true }).evaluate(isFocused), 'Escape leaves it');
    await page.getByRole('link', { name: 'Catalog' }).click();
    await page.getByRole('dialog').getByText('Unsaved changes').waitFor();
    await page.getByRole('button', { name: 'Stay' }).click();
    await page.getByRole('button', { name: 'Save as draft' }).click();
    await page.getByText('The draft is saved.').waitFor();
    await page.getByRole('link', { name: 'Catalog' }).click();
    await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
  });

  t.same(complaints, [], 'the browser complains about nothing, its policy included');
});

const PLUGIN = `import { words } from './words.ts';
middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' ' + words;
tools.greet = { description: 'Greets', parameters: { type: 'object' }, handler: () => 'good day' };
`;
const isFocused = (element: object): boolean =>
  element === (globalThis as unknown as { document: { activeElement: object } }).document.activeElement;

/** Asks again while the compiler is not ready, or something else was drawn over its answer. */
const isOffered = (page: Page, after: string, name: RegExp): Promise<boolean> =>
  eventually(async () => {
    await write(page, after);
    await page.keyboard.press('Control+Space');
    const offer = page.locator('.suggest-widget').getByLabel(name).first();
    return offer.waitFor({ timeout: 3_000 }).then(
      () => true,
      () => false,
    );
  });

const nothingIsRed = (page: Page): Promise<boolean> =>
  eventually(async () => (await page.locator('.squiggly-error').count()) === 0);

/** Puts the text in place of what the editor holds. */
async function write(page: Page, text: string): Promise<void> {
  await page.locator('.monaco-editor .view-lines').first().click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(text);
}

/** A save is in the session a moment later: the tool is called until it answers with it. */
async function untilCalled(page: Page, said: string): Promise<void> {
  for (;;) {
    await page.getByRole('button', { name: 'Call the tool' }).click();
    const isThere = await page
      .getByText(said)
      .waitFor({ timeout: 1_000 })
      .then(
        () => true,
        () => false,
      );
    if (isThere) return;
  }
}
