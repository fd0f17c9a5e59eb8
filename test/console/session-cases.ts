/** How users come in, stay in and leave: one session for all tabs, and nothing lost when it ends. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import type { Test } from 'tap';
import { findOrCreateAccount } from '../../db/accounts/accounts.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { issueSignInLink } from '../../service/identity/console-sessions.ts';
import type { CalledService } from '../deploy/service-fixture.ts';
import { eventually } from '../runner/eventually.ts';
import { soakTest } from '../runner/soak.ts';
import { openConsole, openSignedIn, openTab, signIn } from './browser.ts';
import { press, pressInDialog } from './console-fixture.ts';
import { installationThat, publishFrontDesk } from './front-desk.ts';
import { inspect, inspectVariation } from './pictures.ts';

export async function runSessionCases(t: Test, service: CalledService, browser: Browser): Promise<void> {
  const { page, context, complaints } = await openConsole(browser, service.url);
  const isSignedIn = (on: Page) => on.getByRole('button', { name: 'local', exact: true }).waitFor();

  await t.test('a wrong token says so and keeps the field', async (t) => {
    await page.getByLabel('Token').first().fill('a.wrong.token');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('The service does not accept this token').waitFor();
    t.equal(await page.getByLabel('Token').first().inputValue(), 'a.wrong.token');
    await inspect(t, page, 'sign-in-refused');
  });

  await t.test('a sign-in is for all tabs, and no script can read it', async (t) => {
    const waiting = await context.newPage();
    await waiting.goto(`${service.url}/plugins`);
    await waiting.getByLabel('Token').first().waitFor();
    await page.getByLabel('Token').first().fill(service.token);
    await page.keyboard.press('Enter');
    await isSignedIn(page);
    await isSignedIn(waiting);
    t.equal(new URL(waiting.url()).pathname, '/plugins', 'the other tab is where it was');
    await waiting.goto(`${service.url}/installations`);
    await isSignedIn(waiting);
    const readable = 'JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }])';
    t.notMatch(await waiting.evaluate<string>(readable), /eyJ|bulkhead-session/);
    await waiting.close();
  });

  await t.test('a page of another port can do nothing with it', async (t) => {
    const foreign = await context.newPage();
    await foreign.goto(await servePage(t));
    const attempts = await foreign.evaluate<unknown[]>(`(async (urls) => {
      const attempt = (url, options) => fetch(url, { credentials: 'include', ...options }).then((r) => r.status, () => 'refused');
      const body = JSON.stringify({ slug: 'forged', displayName: 'Forged' });
      return Promise.all(urls.flatMap((url) => [
        attempt(url, {}),
        attempt(url, { headers: { 'x-bulkhead-console': '1' } }),
        attempt(url, { method: 'POST', body }),
        attempt(url, { method: 'POST', body, headers: { 'x-bulkhead-console': '1', 'content-type': 'application/json' } }),
        attempt(url, { method: 'POST', body, mode: 'no-cors' }),
      ]));
    })(${JSON.stringify([`${service.url}/api/plugins`, `http://localhost:${service.env.SUPERVISOR_PORT}/sessions`])})`);
    // 0: sent without CORS, and the page cannot see that it was refused.
    t.same([...new Set(attempts)].sort(), [0, 'refused'].sort());
    const { body } = await service.call('GET', '/api/plugins');
    t.notOk(body.items.some(({ slug }: { slug: string }) => slug === 'forged'));
    await foreign.close();
  });

  await t.test('another account over the page reloads it', async () => {
    await context.clearCookies();
    // No real click: a request of the page may have opened the dialog already, which covers the link.
    await page.getByRole('link', { name: 'Installations' }).dispatchEvent('click');
    const dialog = page.getByRole('dialog', { name: 'Your session has ended' });
    await dialog
      .getByLabel('Token')
      .first()
      .fill((await service.asUser('ann')).token);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'ann', exact: true }).waitFor();
    await page.getByText('Nothing is installed yet').waitFor();
  });

  await t.test('signing out ends it for all tabs', async (t) => {
    const tab = await context.newPage();
    await tab.goto(service.url);
    await tab.getByRole('button', { name: 'ann', exact: true }).click();
    await tab.getByRole('menuitem', { name: 'Sign out', exact: true }).click();
    await tab.getByRole('heading', { name: 'Sign in to Bulkhead' }).waitFor();
    await page.getByRole('dialog', { name: 'Your session has ended' }).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in to Bulkhead' }).waitFor();
    t.same(await context.cookies(), []);
    await tab.close();
  });

  await t.test('another account after a sign-out reloads the page', async (t) => {
    await signIn(context, await service.asUser('ann'));
    await page.reload();
    await page.getByRole('button', { name: 'ann', exact: true }).waitFor();
    await page.evaluate('globalThis.isOfAnn = true');
    await page.getByRole('button', { name: 'ann', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Sign out', exact: true }).click();
    await page.getByRole('heading', { name: 'Sign in to Bulkhead' }).waitFor();
    await page.getByLabel('Token').first().fill(service.token);
    await page.keyboard.press('Enter');
    await isSignedIn(page);
    t.notOk(await page.evaluate('globalThis.isOfAnn'), 'requests of the first account that still wait are gone');
  });

  await t.test('pages have titles, and what is not there has a way back', async (t) => {
    for (const title of [
      'Catalog',
      'Installations',
      'Agents',
      'Services',
      'Storage',
      'My plugins',
      'Playground',
      'Administration',
    ]) {
      await page.getByRole('link', { name: title, exact: true }).first().click();
      await page.getByRole('heading', { level: 1, name: title }).waitFor();
      t.equal(await page.title(), `${title} · Bulkhead`);
    }
    await page.goto(`${service.url}/nowhere`);
    await page.getByRole('heading', { level: 1, name: 'Page not found' }).waitFor();
    t.equal(await page.title(), 'Page not found · Bulkhead');
    await inspect(t, page, 'page-not-found');
    await page.getByRole('link', { name: 'Go to the catalog' }).click();
    await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
    await page.goto(`${service.url}/installations/unknown`);
    await page.getByRole('alert').getByText('Not found', { exact: true }).waitFor();
    await inspectVariation(t, page, 'installation-not-found');
    await page.getByRole('link', { name: 'Go to the catalog' }).click();
    await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
  });

  await soakTest(
    t,
    'signing out everywhere from a session that has ended signs in first, and then ends all others',
    async (t) => {
      const ann = await service.asUser('ann');
      const lost = await openSignedIn(browser, ann, '/tokens');
      await signIn(context, ann);
      await page.goto(`${service.url}/tokens`);
      await page.getByRole('button', { name: 'ann', exact: true }).click();
      await context.clearCookies();
      await page.getByRole('menuitem', { name: 'Sign out everywhere' }).click();
      const dialog = page.getByRole('dialog', { name: 'Your session has ended' });
      await dialog.getByLabel('Token').first().fill(ann.token);
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Sign in to Bulkhead' }).waitFor();
      await lost.page.reload();
      await lost.page.getByRole('heading', { name: 'Sign in to Bulkhead' }).waitFor();
      t.same([complaints, lost.complaints], [[], []]);
      await lost.context.close();
    },
  );

  await t.test('a sign-in link signs in once', async (t) => {
    const link = await makeLink(service, 'local');
    await context.clearCookies();
    await page.goto(link);
    await isSignedIn(page);
    t.equal(new URL(page.url()).hash, '', 'the code is in no address');
    await context.clearCookies();
    // So that the link loads the console.
    await page.goto(`${service.url}/icon.svg`);
    await page.goto(link);
    await page.getByRole('alert').getByText('The sign-in link was used before').waitFor();
    await inspectVariation(t, page, 'sign-in-link-used');
  });

  const { context: own, page: tab, complaints: ownComplaints } = await openConsole(browser, service.url);
  await soakTest(t, 'a sign-in link signs in where the tab shows the console already', async (t) => {
    await tab.getByRole('heading', { name: 'Sign in to Bulkhead' }).waitFor();
    await tab.goto(`${service.url}/#code=unknown`);
    await tab.getByRole('alert').getByText('The sign-in link was used before').waitFor();
    await tab.goto(await makeLink(service, 'local'));
    await isSignedIn(tab);
    t.equal(await tab.getByText('The sign-in link was refused').count(), 0, 'the refusal of the link before is gone');
    t.equal(new URL(tab.url()).hash, '', 'the code is in no address');
    while ((await tab.goBack()) !== null) t.notMatch(tab.url(), /code/);
    t.same(ownComplaints, []);
  });

  await t.test('a link with a token does not sign in', async (t) => {
    const { token } = await service.asUser('ann');
    await own.clearCookies();
    await tab.goto(`${service.url}/plugins#token=${token}`);
    await tab.getByRole('alert').getByText('A link with a token does not sign in').waitFor();
    await tab.getByText('Ask the operator for a link with a code').waitFor();
    await tab.getByRole('heading', { name: 'Sign in to Bulkhead' }).waitFor();
    t.same(await own.cookies(), []);
    t.equal(tab.url(), `${service.url}/plugins`, 'the token is in no address');
    await inspectVariation(t, tab, 'sign-in-link-token');

    await signIn(own, service);
    await tab.reload();
    await isSignedIn(tab);
    const before = await own.cookies();
    await tab.goto(`${service.url}/plugins#token=${token}`);
    await tab.getByRole('alert').getByText('A link with a token does not sign in').waitFor();
    t.equal(tab.url(), `${service.url}/plugins`);
    t.same(await own.cookies(), before, 'nor does it replace a session');
    while ((await tab.goBack()) !== null) t.notMatch(tab.url(), /token/);
    t.same(ownComplaints, []);
    await own.close();
  });

  await t.test('a sign-in link replaces a session only when the user confirms it', async (t) => {
    await signIn(context, service);
    await page.goto(`${service.url}/plugins`);
    await isSignedIn(page);
    const before = await context.cookies();
    const link = await makeLink(service, 'ann');
    const dialog = page.getByRole('dialog', { name: 'Sign in with this link?' });
    // The page is open already, and the link changes the hash only.
    await page.goto(`${service.url}/plugins${new URL(link).hash}`);
    await dialog.getByText('You are signed in as local.').waitFor();
    t.equal(page.url(), `${service.url}/plugins`, 'the code is in no address');
    await inspectVariation(t, page, 'sign-in-link-confirmation');
    await pressInDialog(page, 'Cancel');
    await dialog.waitFor({ state: 'detached' });
    t.same(await context.cookies(), before, 'the session stays');

    // The page is loaded with the link.
    await page.goto(link);
    await pressInDialog(page, 'Sign in');
    await page.getByRole('button', { name: 'ann', exact: true }).waitFor();
    t.equal(await dialog.count(), 0);

    await page.goto(`${page.url()}${new URL(link).hash}`);
    await pressInDialog(page, 'Sign in');
    await dialog.getByRole('alert').getByText('The sign-in link was used before').waitFor();
    await pressInDialog(page, 'Cancel');
    t.ok(await page.getByRole('button', { name: 'ann', exact: true }).isVisible(), 'a refused link ends no session');
    t.same(complaints, []);
  });

  await t.test('a page that is kept when another account signs in sends nothing as that account', async (t) => {
    await publishFrontDesk(service, 'host.storage', { slug: 'kept-desk', displayName: 'Kept desk' });
    const ann = await service.asUser('ann');
    await signIn(context, ann);
    await page.goto(`${service.url}/catalog/kept-desk`);
    await press(page, 'Install');
    const install = page.getByRole('dialog', { name: 'Install Kept desk' });
    await install.getByLabel('API key').first().click();
    await page.keyboard.type('secret-of-ann');
    await install.getByLabel('I allow this plugin').check();

    // The test's tabs answer the browser's question about the typed text with “stay”.
    const question = page.waitForEvent('dialog');
    const other = await openTab(context, `${service.url}/plugins`);
    await other.page.goto(await makeLink(service, 'local'));
    await pressInDialog(other.page, 'Sign in');
    t.equal((await question).type(), 'beforeunload');
    const signInAgain = page.getByRole('dialog', { name: 'Another account is signed in' });
    await signInAgain.getByText('This page is of the account ann.').waitFor();
    const token = signInAgain.getByLabel('Token').first();
    await token.waitFor();
    await inspectVariation(t, page, 'session-replaced');
    const sent: string[] = [];
    page.on('request', (request) => sent.push(`${request.method()} ${new URL(request.url()).pathname}`));
    await install.getByRole('button', { name: 'Install' }).dispatchEvent('click');
    await token.fill(ann.token);
    t.same(
      sent.filter((request) => !request.includes('/assets/')),
      [],
      'nothing is sent until the account of the page is signed in again',
    );
    await page.keyboard.press('Enter');
    await page.getByRole('tab', { name: 'Overview' }).waitFor();
    const installed = await installationThat(ann, ({ slug }) => slug === 'kept-desk');
    await eventually(async () => (await ann.call('GET', `/api/installations/${installed.id}`)).body.secretNames[0]);
    const { body } = await service.call('GET', '/api/installations');
    t.notOk(body.items.some(({ slug }: { slug: string }) => slug === 'kept-desk'));
    t.same(complaints, ['a dialog: '], 'in all tests, the browser’s question only');
    t.same(other.complaints, []);
  });

  await context.close();
}

/** A page of somebody else on the same machine. @returns its address */
async function servePage(t: Test): Promise<string> {
  const server = createServer((_request, response) => response.setHeader('content-type', 'text/html').end('<p>Hello'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return `http://localhost:${(server.address() as AddressInfo).port}`;
}

async function makeLink(service: CalledService, user: string): Promise<string> {
  const database = openPool(service.env.DATABASE_URL ?? '', { name: 'test', connections: 1, onError: () => undefined });
  try {
    return await issueSignInLink(database.pool, (await findOrCreateAccount(database.pool, user)).id, service.url);
  } finally {
    await database.close();
  }
}
