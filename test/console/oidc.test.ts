import t from 'tap';
import { startServiceOnTestDatabase } from '../deploy/service-fixture.ts';
import { LOOKS, openConsole, startBrowser } from './browser.ts';
import { inspect } from './pictures.ts';
import { AUDIENCE, CLIENT, startSignInIssuer } from './sign-in-issuer.ts';

t.setTimeout(900_000);

t.test('the console sends to the issuer, comes back to where one was, and keeps the token in this tab', async (t) => {
  const issuer = await startSignInIssuer(t);
  const service = await startServiceOnTestDatabase(t, {
    OIDC_ISSUER: issuer.url,
    OIDC_AUDIENCE: AUDIENCE,
    OIDC_CLIENT_ID: CLIENT,
  });
  await issuer.serve(`${service.url}/signed-in`);
  const { page, complaints, context } = await openConsole(await startBrowser(t), `${service.url}/plugins`);
  const signIn = page.getByRole('button', { name: `Sign in with ${new URL(issuer.url).host}` });
  await signIn.waitFor();
  t.equal(await page.getByLabel('Token').count(), 0, 'a token of ours would not be taken');
  await inspect(t, page, 'sign-in', LOOKS);

  const asked = page.waitForRequest((request) => request.url().startsWith(`${issuer.url}/auth`));
  await signIn.click();
  const question = new URL((await asked).url()).searchParams;
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
    'JSON.stringify({ local: { ...localStorage }, session: Object.keys(sessionStorage) })',
  );
  const { local, session } = JSON.parse(kept);
  t.notMatch(JSON.stringify(local), /eyJ/, 'no token outlives the tab');
  t.same(
    session.filter((name: string) => name.startsWith('oidc')),
    [],
    'nothing of the flow is left',
  );
  await page.reload();
  await page.getByRole('button', { name: 'ann' }).waitFor();

  await page.goto(`${service.url}/signed-in?error=access_denied&state=unknown`);
  await page.getByRole('button', { name: 'ann' }).waitFor();
  const stranger = await context.newPage();
  await stranger.goto(`${service.url}/signed-in?code=made-up&state=unknown`);
  await stranger.getByText('You are not signed in').waitFor();
  t.same(complaints, [], 'the browser complains about nothing, its policy included');
});
