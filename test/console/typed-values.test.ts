/** What a user has typed for an installation does not silently replace what was saved elsewhere. */
import type { Page } from 'playwright-core';
import t from 'tap';
import { startServiceOnTestDatabase } from '../deploy/service-fixture.ts';
import { openSignedIn, openTab, shareBrowser } from './browser.ts';
import { press } from './console-fixture.ts';
import { installationThat, publishFrontDesk } from './front-desk.ts';

const service = await startServiceOnTestDatabase(t);
const browser = await shareBrowser(t);
t.test('a setting that was saved in another tab meanwhile is shown before it is replaced', async (t) => {
  const named = { slug: 'twin-desk', displayName: 'Twin desk' };
  await publishFrontDesk(service, 'host.storage', named);
  const { body } = await service.call('POST', '/api/installations', { slug: named.slug });
  const configure = (sign: string) =>
    service.call('POST', `/api/installations/${body.id}/configure`, { settings: { sign }, secrets: { key: 'k3y' } });
  await configure('Base');
  const first = await openSignedIn(browser, service, `/installations/${body.id}?tab=settings`);
  const second = await openTab(first.context, `${service.url}/installations/${body.id}?tab=settings`);
  const fill = (page: Page, sign: string) => page.getByLabel('Signature').fill(sign);
  await fill(first.page, 'Of the first');
  await fill(second.page, 'Of the second');
  await press(second.page, 'Save');
  await second.page.getByText('Saved', { exact: true }).waitFor();
  const notice = first.page.getByRole('status').filter({ hasText: 'Saved elsewhere meanwhile: Of the second.' });
  await notice.waitFor();
  t.equal(await first.page.getByLabel('Signature').getAttribute('aria-required'), 'false');
  t.equal(await first.page.getByLabel('API key').first().getAttribute('aria-required'), 'true');
  t.match(
    await first.page.getByLabel('Signature').evaluate(readDescription),
    /Saved elsewhere meanwhile: Of the second\. If you save, yours replaces it/,
    'it describes the field',
  );
  await press(first.page, 'Save');
  await notice.waitFor({ state: 'detached' });
  await installationThat(service, ({ settings }) => settings.sign === 'Of the first');
  t.equal(
    await second.page.getByText('Saved elsewhere meanwhile').count(),
    0,
    'where nothing is typed, the field follows',
  );
  t.same([first.complaints, second.complaints], [[], []]);
  await first.context.close();
});

interface Described {
  getAttribute(name: string): string | null;
  readonly ownerDocument: { getElementById(id: string): { readonly textContent: string } | null };
}
const readDescription = (input: object): string => {
  const { ownerDocument } = input as Described;
  const ids = (input as Described).getAttribute('aria-describedby') ?? '';
  return ids
    .split(' ')
    .map((id) => ownerDocument.getElementById(id)?.textContent ?? '')
    .join(' ');
};
