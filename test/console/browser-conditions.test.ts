/** The console in a browser that counts as offline, and in one that offers less because the page came by plain HTTP. */
import t from 'tap';
import { startServiceOnTestDatabase } from '../deploy/service-fixture.ts';
import { openSignedIn, shareBrowser } from './browser.ts';
import { press, tab } from './console-fixture.ts';
import { publishFrontDesk } from './front-desk.ts';

const service = await startServiceOnTestDatabase(t);
const browser = await shareBrowser(t);
await publishFrontDesk(service);
const { body: desk } = await service.call('POST', '/api/installations', { slug: 'front-desk' });
await service.call('POST', `/api/installations/${desk.id}/configure`, { secrets: { key: 'k3y' } });

t.test('while the browser counts as offline, requests are sent at once', async (t) => {
  const { context, page, complaints } = await openSignedIn(browser, service, `/installations/${desk.id}`);
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
  await context.close();
});

t.test('on a page by plain HTTP a message is sent, and what cannot be copied can be selected', async (t) => {
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
