/** The console in a browser that counts as offline. */
import t from 'tap';
import { startServiceOnTestDatabase } from '../deploy/service-fixture.ts';
import { openSignedIn, shareBrowser } from './browser.ts';
import { press } from './console-fixture.ts';
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
