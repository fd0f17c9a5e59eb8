/** The documentation site in a real browser, as the API serves it: to be read, searched and copied from by everybody. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import fastify from 'fastify';
import type { Page } from 'playwright-core';
import t from 'tap';
import { docsFiles } from '../../api/site/docs-files.ts';
import { look, openConsole, startBrowser, violations } from '../console/browser.ts';
import { inspect } from '../console/pictures.ts';
import { root } from '../house/source-files.ts';
import { soakTest } from '../runner/soak.ts';

// With --soak, `inspect` looks at every page in every look.
/** One of each kind: cards, prose with code, wide tables. */
const PAGES = ['', '/authoring', '/models'];

t.test('the documentation site', async (t) => {
  await promisify(execFile)(process.execPath, [join(root, 'docs/build-site.ts')]);
  const app = fastify({ forceCloseConnections: true });
  await app.register((scope) => docsFiles(scope, 'https://runtimes.example.com'));
  t.teardown(() => app.close());
  const url = `${await app.listen({ host: '127.0.0.1', port: 0 })}/docs`;

  await t.test('runs no script but its own, and keeps files for ever', async (t) => {
    const page = await fetch(url);
    t.match(page.headers.get('content-security-policy'), /^default-src 'none'; script-src 'self'; style-src 'self'/);
    const html = await page.text();
    t.notMatch(html, /<script(?![^>]* src=)|style="|\son\w+=/);
    const [asset = ''] = /\/docs\/assets\/main-[^"]+/.exec(html) ?? [];
    const script = await fetch(new URL(asset, url), { headers: { 'accept-encoding': 'br' } });
    t.match(script.headers.get('cache-control'), /immutable/);
    t.equal(script.headers.get('content-encoding'), 'br');
    await script.arrayBuffer();
  });

  await t.test('an unknown page is answered with 404', async (t) => {
    const missing = await fetch(`${url}/nothing`, { headers: { accept: 'text/html' } });
    t.equal(missing.status, 404);
    t.match(await missing.text(), /There is no such page/);
    const climbing = await fetch(`${url}/..%2f..%2fpackage`, { headers: { accept: 'text/html' } });
    t.equal(climbing.status, 404);
    await climbing.text();
  });

  await t.test('links to the reference of the session API of this service', async (t) => {
    const guide = await (await fetch(`${url}/getting-started-runtimes`)).text();
    const [, path = ''] = /is in its own <a href="([^"]*)"/.exec(guide) ?? [];
    const answer = await fetch(new URL(path, url), { redirect: 'manual' });
    t.equal(answer.headers.get('location'), 'https://runtimes.example.com/docs');
  });

  const { page, complaints } = await openConsole(await startBrowser(t), url);

  await soakTest(t, 'is free of barriers, in every look', async (t) => {
    for (const path of PAGES) {
      await page.goto(`${url}${path}`);
      await inspect(t, page, `docs${path.replace('/', '-')}`);
    }
  });

  await t.test('is searched by the keyboard', async (t) => {
    await look(page, { scheme: 'light', size: 'wide' });
    await page.goto(url);
    await page.keyboard.press('/');
    const search = page.getByRole('combobox', { name: 'Search the documentation' });
    t.notOk(await search.isVisible(), 'a bare character is no shortcut');
    await page.keyboard.press('Control+k');
    await search.fill('verify signature');
    await page.getByRole('option').first().waitFor();
    t.same(await violations(page), []);
    await search.fill('webhooks_per_second');
    await page.getByRole('option').filter({ hasText: 'webhooks_per_second' }).first().waitFor();
    await search.fill('plugin');
    await page.getByRole('option').nth(15).waitFor();
    for (let down = 0; down < 12; down += 1) await page.keyboard.press('ArrowDown');
    for (let up = 0; up < 8; up += 1) await page.keyboard.press('ArrowUp');
    const selected = await page.getByRole('option', { selected: true }).boundingBox();
    const box = await page.locator('.search-box').boundingBox();
    t.ok((selected?.y ?? 0) >= (box?.y ?? 0) + (box?.height ?? 0), 'the selected result is below the search box');
    const composed = "new KeyboardEvent('keydown', { key: 'Enter', isComposing: true })";
    await page.evaluate(`document.activeElement.dispatchEvent(${composed})`);
    t.ok(await search.isVisible(), 'an input method composes with Enter');
    await search.fill('summarize');
    await page.getByRole('option', { name: 'compaction.summarize' }).first().waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/docs\/reference#compactionsummarize$/);
    t.equal(await page.locator('#compactionsummarize').innerText(), 'compaction.summarize');
  });

  await soakTest(t, 'gives its code to the clipboard', async (t) => {
    await page.goto(`${url}/cookbook/dice`);
    await page.getByRole('button', { name: 'Copy' }).first().click();
    await page.getByText('Copied').waitFor();
    t.match(await page.evaluate<string>('navigator.clipboard.readText()'), 'tools.');
  });

  await soakTest(t, 'is walked through on a phone, page by page', async (t) => {
    await look(page, { scheme: 'dark', size: 'phone' });
    await page.goto(url);
    await page.keyboard.press('Tab');
    t.equal(await page.evaluate('document.activeElement.textContent'), 'Skip to the page');
    await page.keyboard.press('Enter');
    t.equal(await page.evaluate('document.activeElement.id'), 'page');
    await page.getByRole('button', { name: 'Menu' }).click();
    await inMenu(page, 'Channels');
    await page.getByRole('heading', { level: 1, name: 'Channels' }).waitFor();
    await page.getByRole('link', { name: /^Next/ }).click();
    await page.waitForURL(/\/docs\/types$/);
    await page.getByRole('link', { name: 'Console' }).waitFor();
  });
  t.same(complaints, []);
});

const inMenu = (page: Page, name: string): Promise<void> =>
  page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name }).click();
