/**
 * The console on a narrow screen, on a slow network, with a screen reader, in a browser that counts as offline, and in one that offers
 * less because the page came by plain HTTP.
 */
import type { Locator, Page } from 'playwright-core';
import t from 'tap';
import { orderedId } from '../../db/postgres/ordered-id.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { insertAudit } from '../../db/records/audit.ts';
import { eventually } from '../runner/eventually.ts';
import { isSoak, soakTest } from '../runner/soak.ts';
import {
  answerInstead,
  openSignedIn,
  openTab,
  scrollsSideways,
  shareBrowser,
  shareConsole,
  signIn,
} from './browser.ts';
import { clickByMouse, go, press, shareConsoleService, tab } from './console-fixture.ts';
import { publish, publishFrontDesk } from './front-desk.ts';

const service = await shareConsoleService('visitor');
const browser = await shareBrowser(t);
const { opened, openAt } = await shareConsole(browser, service);
const DESK = { slug: 'visit-desk', displayName: 'Visit desk' };
const plugin = await publishFrontDesk(service, 'host.storage', DESK);
const { body: desk } = await service.call('POST', '/api/installations', { slug: DESK.slug });
// Only cases of the long run need it to run.
if (isSoak()) await service.call('POST', `/api/installations/${desk.id}/configure`, { secrets: { key: 'k3y' } });

soakTest(t, 'while the browser counts as offline, requests are sent at once', async (t) => {
  const { page, complaints } = await openAt(`/installations/${desk.id}`);
  await page.getByRole('button', { name: 'Pause' }).waitFor();
  // The service is on this machine, so the driver's own way to be offline would stop these requests, too.
  await page.evaluate(`Object.defineProperty(Navigator.prototype, 'onLine', { get: () => false });
dispatchEvent(new Event('offline'));`);
  const sent = page.waitForRequest((request) => request.method() === 'POST');
  await press(page, 'Pause');
  t.match((await sent).url(), /\/pause$/);
  await page.getByRole('button', { name: 'Resume' }).waitFor();
  t.same(complaints, [], 'what it reads is read, too');
  await service.call('POST', `/api/installations/${desk.id}/resume`);
});

soakTest(t, 'on a page by plain HTTP a message is sent, and what cannot be copied can be selected', async (t) => {
  await service.call('POST', `/api/installations/${desk.id}/channels`, { name: 'Inbox' });
  const { body: session } = await service.session('POST', '/sessions', { agentId: 'ann' });
  const { context, page, complaints } = await openSignedIn(browser, service);
  // The browser trusts localhost, so it has here what it lacks at another address without HTTPS.
  await context.addInitScript('delete Crypto.prototype.randomUUID; delete Navigator.prototype.clipboard;');
  await page.goto(`${service.url}/playground/${session.id}`);
  await page.getByRole('textbox', { name: 'Message', exact: true }).fill('hello');
  await press(page, 'Send');
  await page.getByText('hello (plain)', { exact: true }).waitFor();
  await page.goto(`${service.url}/installations/${desk.id}`);
  await tab(page, 'Channels');
  await press(page, 'Copy address of Inbox');
  await page.getByRole('alert').getByText('Select the address and copy it.').waitFor();
  t.same(complaints, []);
  await context.close();
});

/** Replaces each text by an element, as the browser's translation does. React goes on writing into the text that was replaced. */
const TRANSLATE = `{
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) if (walker.currentNode.nodeValue.trim()) texts.push(walker.currentNode);
  for (const text of texts) {
    const translated = document.createElement('font');
    translated.textContent = text.nodeValue;
    text.replaceWith(translated);
  }
}`;

const LONG_WORD = 'W'.repeat(100);
/** The narrowest screen of WCAG 2.2, criterion 1.4.10: 1280 pixels at a zoom of 400 %. */
const NARROW = { width: 320, height: 640 };
/** A screen of 1280 × 1024 pixels at that zoom. */
const ENLARGED = { width: 320, height: 256 };
const PHONE = { width: 390, height: 844 };
/** An upright tablet: the narrowest screen with the navigation beside the page. */
const TABLET = { width: 768, height: 1024 };
/** Pixels of a line of a log that can be read, about forty characters. */
const READABLE_PX = 320;

t.test('on a narrow screen, the closed menu cannot be reached, and the open one holds the focus', async (t) => {
  const { page, complaints } = await openAt('/agents');
  await page.setViewportSize(NARROW);
  await page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor();
  const menu = page.getByRole('button', { name: 'Menu', exact: true });
  const navigation = page.getByRole('navigation', { name: 'Main' });
  t.equal(await navigation.count(), 0, 'not in the accessibility tree');
  t.equal(await menu.getAttribute('aria-expanded'), 'false');
  await menu.focus();
  for (const _account of [1, 2]) await page.keyboard.press('Tab');
  t.equal(await isFocusWithin(page, 'nav'), false, 'nor in the tab order');

  await menu.focus();
  await page.keyboard.press('Enter');
  await navigation.waitFor();
  t.equal(await menu.getAttribute('aria-expanded'), 'true');
  const last = navigation.getByRole('link').last();
  await last.focus();
  await page.keyboard.press('Tab');
  t.equal(await isFocusWithin(page, 'main'), false, 'the page that it covers is not in the tab order');
  await last.focus();
  await page.keyboard.press('Escape');
  await navigation.waitFor({ state: 'detached' });
  t.equal(await isFocusWithin(page, '[aria-label=Menu]'), true, 'Escape closes it and returns the focus');

  await page.keyboard.press('Enter');
  await navigation.getByRole('link', { name: 'Storage' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Storage' }).waitFor();
  t.equal(await navigation.count(), 0);
  t.equal(await isFocusWithin(page, 'main'), true, 'a chosen page has the focus');
  const link = page.getByRole('main').getByRole('link').first();
  await link.waitFor();
  await page.evaluate('scrollTo(0, document.body.scrollHeight)');
  await link.focus();
  t.ok(await page.evaluate<boolean>(IS_FOCUS_BELOW_HEADER), 'the header does not cover what the page scrolls up to');
  t.same(complaints, []);
});

soakTest(t, 'a label of one long word fits a narrow screen', async (t) => {
  const named = { slug: 'word-desk', displayName: 'Word desk' };
  const plugin = await publishFrontDesk(service, 'host.storage', named);
  const secret = `, long: { label: ${LONG_WORD} }`;
  await publish(service, plugin, '1.1.0', 'host.storage', { name: named.displayName, secret });
  const { page } = await openAt(`/catalog/${named.slug}`);
  await page.setViewportSize(NARROW);
  await press(page, 'Install');
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel(LONG_WORD).first().waitFor();
  t.notOk(await dialog.evaluate(isWiderThanShown), 'the dialog of Install');
  const { body } = await service.call('POST', '/api/installations', { slug: named.slug });
  await page.goto(`${service.url}/installations/${body.id}?tab=settings`);
  await page.getByLabel(LONG_WORD).first().waitFor();
  t.notOk(await scrollsSideways(page), 'Settings');
});

t.test('on a phone with text of double size, no word of header and list is broken', async (t) => {
  const { page, complaints } = await openAt('/installations');
  const words = [
    page.getByRole('banner').getByText('Bulkhead', { exact: true }),
    page.getByRole('main').getByRole('link', { name: 'Visit desk' }),
  ];
  for (const size of [PHONE, NARROW]) {
    await page.setViewportSize(size);
    await page.evaluate("document.documentElement.style.fontSize = '200%'");
    const [brand, name] = await Promise.all(words.map((word) => word.evaluate(countLines)));
    t.equal(brand, 1, `${size.width} px: the header`);
    t.ok((name ?? 3) <= 2, `${size.width} px: a name of two words has ${name} lines`);
    t.notOk(await scrollsSideways(page));
  }
  t.same(complaints, []);
});

soakTest(t, 'a button that moved its plugin out of sight is scrolled into view', async (t) => {
  await publishFrontDesk(service, 'host.storage', { slug: 'lower-desk', displayName: 'Lower desk' });
  await service.call('POST', '/api/installations', { slug: 'lower-desk' });
  const { context, page, complaints } = await openSignedIn(browser, service, '/installations');
  await page.setViewportSize(ENLARGED);
  const later = page.getByRole('button', { name: 'Run Visit desk later' });
  await later.press('Enter');
  await page.getByText(/^Visit desk is 2 of \d$/).waitFor({ state: 'attached' });
  await eventually(() => isInView(later));

  await page.setViewportSize({ width: 1280, height: 900 });
  const first = page.locator('.drop-place').first();
  // The pointer moves away before each click, so each is for the plugin below it, although at about the same place.
  for (const _click of [1, 2]) {
    const name = await first.getByRole('link').innerText();
    await page.getByRole('heading', { level: 1 }).hover();
    await first.getByRole('button', { name: /later$/ }).hover();
    await clickByMouse(page, 1);
    // Not the one of the click before, which would be on the third place.
    await page.getByText(new RegExp(`^${name} is 2 of \\d$`)).waitFor({ state: 'attached' });
  }
  t.same(complaints, []);
  await context.close();
});

soakTest(t, 'on an enlarged screen, a tab that is chosen stays in view', async (t) => {
  const { page, complaints } = await openAt(`/installations/${desk.id}`);
  await page.setViewportSize(ENLARGED);
  const chosen = page.getByRole('tab', { name: 'Settings' });
  await chosen.click();
  await page.getByLabel('Signature').waitFor();
  t.ok(await isInView(chosen));
  await page.emulateMedia({ forcedColors: 'active' });
  const [border, otherBorder] = await Promise.all(
    [chosen, page.getByRole('tab', { name: 'Logs' })].map((tab) => tab.evaluate(readStyle, 'border-bottom-color')),
  );
  t.not(border, otherBorder, 'and can be told apart in the colours of the user');
  const place = page.locator('.place[data-active]').first();
  t.equal(await place.evaluate(readStyle, 'outline-style'), 'solid', 'so can the page in the navigation');
  await page.emulateMedia({ forcedColors: 'none' });
  t.same(complaints, []);
});

const readStyle = (element: object, property: string): string =>
  getComputedStyle(element as Parameters<typeof getComputedStyle>[0]).getPropertyValue(property);

async function isInView(element: Locator): Promise<boolean> {
  const box = await element.boundingBox();
  return box !== null && box.y >= 0 && box.y + box.height <= ENLARGED.height;
}

soakTest(t, 'on an enlarged screen, no part of the editor covers or cuts another', async (t) => {
  const { body: plugin } = await service.call('POST', '/api/plugins', { slug: 'edit-desk', displayName: 'Edit desk' });
  await publish(service, plugin.id, '1.0.0', 'host.storage', { name: 'Edit desk' });
  const { page, complaints } = await openAt(`/plugins/${plugin.id}/edit`, ENLARGED);
  const editor = page.locator('.code-editor');
  await editor.waitFor();
  const [files, bar] = [await editor.boundingBox(), await page.locator('.publish-bar').boundingBox()];
  t.ok(files && bar && bar.y >= files.y + files.height, JSON.stringify({ files, bar }));
  const label = page.getByRole('button', { name: 'Add', exact: true }).locator('.mantine-Button-label');
  t.notOk(await label.evaluate(isWiderThanShown), 'the label of a button');
  t.same(complaints, []);
});

soakTest(
  t,
  'numbers are written in English, as the text around them, whatever the language of the browser',
  async (t) => {
    const { DATABASE_URL = '' } = service.env as { DATABASE_URL?: string };
    const { pool, close } = openPool(DATABASE_URL, { name: 'test', connections: 1, onError: () => undefined });
    await insertAudit(pool, [
      {
        id: orderedId(Date.now()),
        at: new Date().toISOString(),
        installationId: desk.id,
        sessionId: null,
        invocationId: null,
        member: 'storage.get',
        outcome: 'ok',
        durationMs: 4_550,
        argumentsSha256: null,
        detail: null,
      },
    ]);
    await close();
    const context = await browser.newContext({ locale: 'de-DE' });
    await signIn(context, service);
    const { page, complaints } = await openTab(context, `${service.url}/installations/${desk.id}?tab=calls`);
    await page.getByRole('cell', { name: '4,550 ms', exact: true }).waitFor();
    t.same(complaints, []);
    await context.close();
  },
);

soakTest(t, 'the lines of a log are readable where the navigation takes a part of a narrow screen', async (t) => {
  const { page } = await openAt(`/installations/${desk.id}?tab=logs`);
  const said = page.locator('.log-said').first();
  await said.waitFor();
  await page.evaluate(TRANSLATE);
  await page.getByLabel('Filter by text').fill('xyzzy');
  await page.getByText('There are no lines to show.').waitFor();
  t.equal(await page.getByText(/· kept for/).innerText(), '0 lines · kept for 24 hours', 'also in a translated page');
  await page.getByLabel('Filter by text').fill('');
  await said.waitFor();
  await page.setViewportSize(TABLET);
  const { width } = (await said.boundingBox()) ?? { width: 0 };
  t.ok(width >= READABLE_PX, `${width} px`);
  const [time, message] = [await readTextStart(page, '.log-line > time'), await readTextStart(page, '.log-said')];
  t.ok(time < message, `a message that begins like a log line is further right: ${time} and ${message} px`);
});

t.test('pages on their way and results of a search are announced', async (t) => {
  // The service refuses a text like that of this address.
  const { context, page, complaints } = await openAt('/catalog?q=[1,2]');
  const status = page.getByRole('status');
  await status.getByText('Catalog', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'Visit desk' }).waitFor();
  await page.setViewportSize(TABLET);
  const foot = await page.locator('.entry-foot').first().locator('> span').all();
  t.same(await Promise.all(foot.map((fact) => fact.evaluate(countLines))), [1, 1, 1], 'no fact of a card is broken');
  await page.getByRole('searchbox').fill('visit');
  await status.getByText(/^\d+ plugins?$/).waitFor();
  // The service refuses a longer text.
  await page.getByRole('searchbox').fill('x'.repeat(300));
  await status.getByText(`Nothing is found for “${'x'.repeat(200)}”`).waitFor();
  await page.getByRole('searchbox').fill('xyzzy');
  await status.getByText('Nothing is found for “xyzzy”').waitFor();

  const held = Promise.withResolvers<void>();
  const endDelay = await answerInstead(context, '**/assets/tokens-page*.js', (route) =>
    held.promise.then(() => route.continue()),
  );
  await go(page, 'Tokens');
  await page.getByRole('progressbar', { name: 'Loading the page' }).waitFor();
  await status.getByText('Loading', { exact: true }).waitFor();
  held.resolve();
  endDelay();
  await page.getByRole('heading', { level: 1, name: 'Tokens' }).waitFor();
  await status.getByText('Tokens', { exact: true }).waitFor();
  await go(page, 'Agents');
  await status.getByText('Agents', { exact: true }).waitFor();
  await page.evaluate("history.pushState({}, '', '/installations/unknown')");
  await status.getByText('Not found', { exact: true }).waitFor();
  t.equal(await page.title(), 'Not found · Bulkhead');
  t.same(complaints, []);
});

const isWiderThanShown = (element: object): boolean => {
  const { scrollWidth, clientWidth } = element as { readonly scrollWidth: number; readonly clientWidth: number };
  return scrollWidth > clientWidth + 1;
};
interface Laid {
  getBoundingClientRect(): { readonly height: number };
}
const countLines = (element: object): number => {
  const { lineHeight } = getComputedStyle(element as Parameters<typeof getComputedStyle>[0]);
  return Math.round((element as Laid).getBoundingClientRect().height / Number.parseFloat(lineHeight));
};
const readTextStart = (page: Page, selector: string): Promise<number> =>
  page.evaluate<number>(`(() => {
    const range = document.createRange();
    range.selectNodeContents(document.querySelector('${selector}'));
    return range.getBoundingClientRect().left;
  })()`);

const isFocusWithin = (page: Page, selector: string): Promise<boolean> =>
  page.evaluate<boolean>(`document.activeElement.closest(${JSON.stringify(selector)}) !== null`);
const IS_FOCUS_BELOW_HEADER = `document.activeElement.getBoundingClientRect().top >=
  document.querySelector('header').getBoundingClientRect().bottom`;

soakTest(t, 'what changes on a page that the browser has translated is shown', async (t) => {
  await publish(service, plugin, '1.1.0', 'host.storage, host.llm', { name: DESK.displayName });
  const { page, complaints } = await openAt(`/installations/${desk.id}`);
  const update = page.getByRole('region', { name: 'Update' });
  await update.getByText('1.0.0 keeps running until you decide.').waitFor();
  await page.evaluate(TRANSLATE);
  await publish(service, plugin, '1.2.0', 'host.storage, host.llm, host.workspace', { name: DESK.displayName });
  await update.getByRole('button', { name: 'Review 1.2.0' }).click();
  await update.getByRole('button', { name: 'Update to 1.2.0' }).waitFor();
  t.equal(await update.getByRole('heading', { level: 2 }).innerText(), '1.2.0 asks for more access');

  // Its name ends with the number of updates that wait.
  await page.getByRole('link', { name: /^Installations/ }).click();
  const card = page.getByRole('listitem').filter({ hasText: 'Visit desk' });
  await card.getByText('1.2.0 asks for more access').waitFor();
  await page.evaluate(TRANSLATE);
  await service.call('POST', `/api/installations/${desk.id}/pause`);
  await card.getByText(/^paused$/).waitFor();
  await card.getByText(/^1\.0\.0 · stopped · 1\.2\.0 asks/).waitFor();
  await service.call('POST', `/api/installations/${desk.id}/resume`);
  await go(page, 'Visit desk');
  t.same(complaints, []);
});

soakTest(t, 'on an enlarged screen, the note that takes the place of an update is in view', async (t) => {
  const { page, complaints } = opened;
  await page.setViewportSize(PHONE);
  await page.evaluate("document.documentElement.style.fontSize = '200%'");
  for (const name of ['Update to 1.2.0', 'Not this version']) {
    const label = page.getByRole('button', { name }).locator('.mantine-Button-label');
    t.notOk(await label.evaluate(isWiderThanShown), `with text of double size: ${name}`);
  }
  await page.evaluate("document.documentElement.style.fontSize = ''");
  await page.setViewportSize(ENLARGED);
  await page.getByRole('button', { name: 'Not this version' }).press('Enter');
  await eventually(() => isInView(page.getByRole('button', { name: 'Look at it again' })));
  t.same(complaints, []);
});
