import t from 'tap';
import { startServiceOnTestDatabase } from '../deploy/service-fixture.ts';
import { answerInstead, failTwice, openConsole, shareBrowser } from './browser.ts';
import { inspect } from './pictures.ts';
import { AUDIENCE, CLIENT, startSignInIssuer } from './sign-in-issuer.ts';

// With --soak, `inspect` looks at every page in every look.

t.test('the console sends to the issuer, comes back to where one was, and ends in the console’s cookie', async (t) => {
  const issuer = await startSignInIssuer(t);
  const service = await startServiceOnTestDatabase(t, {
    OIDC_ISSUER: issuer.url,
    OIDC_AUDIENCE: AUDIENCE,
    OIDC_CLIENT_ID: CLIENT,
  });
  await issuer.serve(`${service.url}/signed-in`);
  const browser = await shareBrowser(t);
  const { page, complaints, context } = await openConsole(browser, `${service.url}/plugins`);
  const signIn = page.getByRole('button', { name: `Sign in with ${new URL(issuer.url).host}` });
  await signIn.waitFor();
  t.equal(await page.getByLabel('Token').count(), 0, 'a token of ours would not be taken');
  await inspect(t, page, 'sign-in');

  await failTwice(context, '**/assets/issuer-*.js');
  await Promise.all([page.waitForEvent('load'), signIn.click()]);
  await signIn.click();
  await page.getByRole('alert').getByText('A part of this page could not be loaded').waitFor();
  await Promise.all([page.waitForEvent('load'), signIn.click()]);

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
  await page.locator('[name=login]').fill('ann');
  await page.locator('[name=password]').fill('anything');
  await page.locator('[type=submit]').first().click();
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

  await page.goto(`${service.url}/signed-in?error=access_denied&state=unknown`);
  await page.getByRole('button', { name: 'ann' }).waitFor();

  // The issuer's token lives for a minute; the session goes on without it.
  const tab = await context.newPage();
  await tab.goto(`${service.url}/catalog`);
  await tab.getByRole('button', { name: 'ann' }).waitFor();
  const cookies = await context.cookies(service.url);
  await context.clearCookies({ name: cookies.find(({ name }) => name.startsWith('bulkhead'))?.name ?? '' });
  await tab.getByRole('link', { name: 'Installations' }).click();
  const dialog = tab.getByRole('dialog', { name: 'Your session has ended' });
  const [window] = await Promise.all([context.waitForEvent('page'), dialog.getByRole('button').click()]);
  // The issuer still knows the user.
  await window.waitForEvent('close');
  await dialog.waitFor({ state: 'detached' });
  await tab.getByText('Nothing is installed yet').waitFor();
  t.equal(new URL(tab.url()).pathname, '/installations', 'the page stayed');

  const stranger = await (await browser.newContext()).newPage();
  await stranger.goto(`${service.url}/signed-in?code=made-up&state=unknown`);
  await stranger.getByText('You are not signed in').waitFor();
  t.same(complaints, [], 'the browser complains about nothing, its policy included');
});
