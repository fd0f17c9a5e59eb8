import type { Page } from 'playwright-core';
import t from 'tap';
import { isSoak } from '../runner/soak.ts';
import { answerInstead, failTwice, openConsole, openTab, shareBrowser } from './browser.ts';
import { startConsoleApi } from './console-fixture.ts';
import { inspect } from './pictures.ts';
import { AUDIENCE, CLIENT, startSignInIssuer } from './sign-in-issuer.ts';

t.test('the console sends to the issuer, comes back to where one was, and ends in the console’s cookie', async (t) => {
  const issuer = await startSignInIssuer(t);
  const url = await startConsoleApi(t, {
    OIDC_ISSUER: issuer.url,
    OIDC_AUDIENCE: AUDIENCE,
    OIDC_CLIENT_ID: CLIENT,
  });
  await issuer.serve(`${url}/signed-in`);
  const browser = await shareBrowser(t);
  const { page, complaints, context } = await openConsole(browser, `${url}/plugins`);
  const signIn = page.getByRole('button', { name: `Sign in with ${new URL(issuer.url).host}` });
  await signIn.waitFor();
  t.equal(await page.getByLabel('Token').count(), 0, 'a token of ours would not be taken');
  await inspect(t, page, 'sign-in');

  if (isSoak()) {
    await failTwice(context, '**/assets/issuer-*.js');
    await Promise.all([page.waitForEvent('load'), signIn.click()]);
    await signIn.click();
    await page.getByRole('alert').getByText('A part of this page could not be loaded').waitFor();
    await Promise.all([page.waitForEvent('load'), signIn.click()]);
  }

  const endOutage = await answerInstead(context, `${issuer.url}/**`, (route) => route.abort('connectionrefused'));
  await signIn.click();
  await page
    .getByRole('alert')
    .getByText(`The identity provider ${issuer.url} is unreachable from this page. It must be running, and allow`)
    .waitFor();
  endOutage();

  const authorizationRequest = page.waitForRequest((request) => request.url().startsWith(`${issuer.url}/auth`));
  await signIn.click();
  const question = new URL((await authorizationRequest).url()).searchParams;
  t.match(Object.fromEntries(question), { response_type: 'code', code_challenge_method: 'S256', client_id: CLIENT });
  await enterName(page, 'ann');
  const redeemed = page.waitForRequest((request) =>
    request.url().startsWith(issuer.url.replace('localhost', '127.0.0.1')),
  );
  await page.getByRole('button', { name: 'Continue' }).click();
  t.match((await redeemed).url(), /\/token$/, 'the code is redeemed where the issuer says, on another host');
  await page.getByRole('heading', { level: 1, name: 'My plugins' }).waitFor();
  await page.getByRole('button', { name: 'ann' }).waitFor();
  t.equal(new URL(page.url()).pathname, '/plugins', 'back where the user was');
  t.equal(new URL(page.url()).search, '', 'the code is in no address');

  const kept = await page.evaluate<string>(
    'JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }])',
  );
  t.notMatch(
    kept,
    /eyJ|oidc|bulkhead-session/,
    'neither token nor cookie can be read, and nothing of the flow is left',
  );
  await page.reload();
  await page.getByRole('button', { name: 'ann' }).waitFor();

  await page.goto(`${url}/signed-in?error=access_denied&state=unknown`);
  await page.getByText('The sign-in failed').waitFor();
  await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
  await page.getByRole('button', { name: 'ann' }).waitFor();

  // The issuer's token lives for a minute; the session goes on without it.
  const tab = await context.newPage();
  await tab.goto(`${url}/catalog`);
  await tab.getByRole('button', { name: 'ann' }).waitFor();
  const cookies = await context.cookies(url);
  await context.clearCookies({ name: cookies.find(({ name }) => name.startsWith('bulkhead'))?.name ?? '' });
  await tab.getByRole('link', { name: 'Installations' }).click();
  const dialog = tab.getByRole('dialog', { name: 'Your session has ended' });
  // Awaited from its beginning: the issuer still knows the user, so the window may be closed when the click is reported.
  const closed = context.waitForEvent('page').then((window) => window.waitForEvent('close'));
  await dialog.getByRole('button').click();
  await closed;
  await dialog.waitFor({ state: 'detached' });
  await tab.getByText('Nothing is installed yet').waitFor();
  t.equal(new URL(tab.url()).pathname, '/installations', 'the page stayed');

  t.same(complaints, [], 'the browser complains about nothing, its policy included');
  if (!isSoak()) return;

  // Two tabs are at the issuer, and the second one returns when the first one has signed in.
  const first = await openConsole(browser, `${url}/plugins`);
  const second = await openTab(first.context, `${url}/agents`);
  for (const { page: waiting } of [first, second]) {
    await waiting.getByRole('button', { name: /^Sign in with/ }).click();
    await waiting.locator('[name=login]').waitFor();
  }
  for (const [{ page: waiting }, title] of [
    [first, 'My plugins'],
    [second, 'Agents'],
  ] as const) {
    await enterName(waiting, 'ann');
    // The issuer asks once what the console may have.
    if (waiting === first.page) await waiting.getByRole('button', { name: 'Continue' }).click();
    await waiting.getByRole('heading', { level: 1, name: title }).waitFor();
    t.equal(new URL(waiting.url()).search, '', 'the code is in no address');
    t.notMatch(await waiting.evaluate<string>('JSON.stringify({ ...sessionStorage })'), /oidc/);
  }
  // The window that a page of another account opens.
  const askedAgain = second.page.waitForRequest(/\/auth\?.*prompt=login/);
  await second.page.goto(`${url}/signed-in#window`);
  await askedAgain;
  await enterName(second.page, 'bob');
  await second.page.getByRole('button', { name: 'Continue' }).click();
  await second.page.getByRole('button', { name: 'bob', exact: true }).waitFor();
  await first.page.getByRole('button', { name: 'bob', exact: true }).waitFor();
  t.same([...first.complaints, ...second.complaints], []);
  await first.context.close();

  const stranger = await (await browser.newContext()).newPage();
  await stranger.goto(`${url}/signed-in?code=made-up&state=unknown`);
  await stranger.getByText('You are not signed in').waitFor();
  t.same(complaints, []);
});

/** Answers the issuer's page that asks who signs in. */
async function enterName(page: Page, name: string): Promise<void> {
  await page.locator('[name=login]').fill(name);
  await page.locator('[name=password]').fill('anything');
  await page.locator('[type=submit]').first().click();
}
