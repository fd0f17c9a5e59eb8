import type { Page } from 'playwright-core';
import t from 'tap';
import { eventually, type ServiceFixture, startServiceOnTestDatabase } from '../deploy/service-fixture.ts';
import { openConsole, startBrowser } from './browser.ts';
import { installationThat, publish, publishFrontDesk, TRICKS } from './front-desk.ts';
import { inspect } from './pictures.ts';

t.setTimeout(900_000);

t.test('what happens elsewhere appears, and what strangers write does nothing', async (t) => {
  const service = await startServiceOnTestDatabase(t);
  const plugin = await publishFrontDesk(service, 'host.storage, host.agents');
  const desk = await install(service, 'front-desk', { key: 'k3y' });
  const { page, complaints } = await openConsole(await startBrowser(t), `${service.url}/#token=${service.token}`);

  await t.test('a crash: the process is seen to end and to come back', async (t) => {
    await page.goto(`${service.url}/installations/${desk}`);
    await say(service, 'wake up');
    await page.getByText('running', { exact: true }).waitFor();
    await say(service, 'crash');
    await page.getByText('How it ended last').waitFor();
    await inspect(t, page, 'crashed');
  });

  await t.test('a new version that asks for no more runs by itself, and one click goes back', async (t) => {
    await publish(service, plugin, '1.0.1', 'host.storage, host.agents');
    await page.getByText('1.0.1', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Go back to 1.0.0' }).click();
    await page.getByText('1.0.0', { exact: true }).waitFor();
    const { versionPolicy } = await installationThat(service, ({ currentSemVer }) => currentSemVer === '1.0.0');
    t.equal(versionPolicy, 'Pinned');
  });

  await t.test('log lines and deliveries; copied is what is shown', async (t) => {
    await page.getByRole('tab', { name: 'Logs' }).click();
    await say(service, `good morning ${TRICKS}`);
    await page.getByText('inbound good morning ⟨U+202E⟩gnp.exe').waitFor();
    await page.getByLabel('Contains').fill('good morning');
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByText(/lines? (is|are) copied/).waitFor();
    t.match(
      await page.evaluate<string>('navigator.clipboard.readText()'),
      /info {2}middleware\.inboundMessage .* inbound good morning/,
    );
    const { body: channel } = await service.call('POST', `/api/installations/${desk}/channels`, { name: TRICKS });
    await page.getByRole('tab', { name: 'Channels' }).click();
    await page.getByText('⟨U+202E⟩gnp.exe').first().waitFor();
    await service.call('POST', channel.webhookUrl, { hello: TRICKS });
    await page.getByRole('table', { name: 'Deliveries' }).getByText('delivered', { exact: true }).waitFor();
  });

  await t.test('agents of plugins, whose names may try tricks', async (t) => {
    await page.getByRole('link', { name: 'Agents' }).click();
    await page.getByText('Night clerk').first().waitFor();
    await page.getByText('⟨U+202E⟩gnp.exe').first().waitFor();
    await inspect(t, page, 'agents');
    await page.getByRole('button', { name: 'Open Night clerk' }).click();
    await page.getByRole('dialog').getByText('Answer at night.').waitFor();
    await inspect(t, page, 'agent');
    await page.getByRole('button', { name: 'Close' }).click();
  });

  await t.test('hooks in another order: by a button’s key, and by dragging', async (t) => {
    await publishFrontDesk(service, 'host.storage', {
      slug: 'back-desk',
      displayName: 'Back desk <script>alert(4)</script>',
    });
    await install(service, 'back-desk', { key: 'k3y' });
    await page.getByRole('link', { name: 'Installations' }).click();
    const cards = page.locator('.drop-place');
    await cards.nth(1).getByText('Back desk').waitFor();
    await page.getByRole('button', { name: /^Run Back desk.* earlier$/ }).focus();
    await page.keyboard.press('Enter');
    await orderIs(service, ['back-desk', 'front-desk']);
    await cards.nth(0).getByText('Back desk').waitFor();
    await inspect(t, page, 'order');
    await cards.nth(0).dragTo(cards.nth(1));
    await orderIs(service, ['front-desk', 'back-desk']);
  });

  await t.test('what operators see, strangers’ names among it', async (t) => {
    await page.getByRole('link', { name: 'Operation' }).click();
    await page.getByRole('table', { name: 'Plugin processes' }).getByText('back-desk').waitFor();
    await inspect(t, page, 'processes');
    await page.getByRole('tab', { name: 'Plugins' }).click();
    await page.getByRole('table', { name: 'Plugins by cost' }).waitFor();
    await inspect(t, page, 'plugin-costs');
    await page.getByRole('tab', { name: 'Queues' }).click();
    await page.getByRole('table', { name: 'Queues' }).waitFor();
    await inspect(t, page, 'queues');
    await page.getByRole('link', { name: 'Installations' }).click();
  });

  await t.test('a message at the end of a listing is text, wherever it is shown', async (t) => {
    const deprecationMessage = `Use another ${TRICKS}`;
    await service.call('DELETE', `/api/plugins/${plugin}/listing`, { deprecationMessage });
    await page.getByRole('link', { name: 'Front desk' }).click();
    await page.getByText('Use another ⟨U+202E⟩gnp.exe').waitFor();
    await inspect(t, page, 'deprecated');
    await page.getByRole('link', { name: 'In the catalog' }).click();
    await page.getByText('Use another ⟨U+202E⟩gnp.exe').waitFor();
    await uninstallSays(page, service, desk);
  });

  t.same(complaints, [], 'no script ran, no dialog came, and the browser complains about nothing');
});

async function install(service: ServiceFixture, slug: string, secrets: Record<string, string>): Promise<string> {
  const { body } = await service.call('POST', '/api/installations', { slug });
  await service.call('POST', `/api/installations/${body.id}/configure`, { secrets });
  return body.id;
}

/** A message of bob's in a session of its own. */
async function say(service: ServiceFixture, text: string): Promise<void> {
  const { body } = await service.session('POST', '/sessions', { agentId: 'ann' });
  await service.session('POST', `/sessions/${body.id}/hooks/inboundMessage`, {
    context: { message: { id: '1', from: 'bob', text, attachments: [] } },
  });
}

const orderIs = (service: ServiceFixture, wanted: readonly string[]): Promise<boolean> =>
  eventually(async () => {
    const { body } = await service.call('GET', '/api/installations');
    const sorted = body.items.toSorted(
      (a: { hookOrder: number }, b: { hookOrder: number }) => a.hookOrder - b.hookOrder,
    );
    return JSON.stringify(sorted.map(({ slug }: { slug: string }) => slug)) === JSON.stringify(wanted);
  });

/** What goes with it is listed before anything goes. */
async function uninstallSays(page: Page, service: ServiceFixture, id: string): Promise<void> {
  await page.goto(`${service.url}/installations/${id}`);
  await page.getByRole('button', { name: 'Uninstall' }).click();
  const dialog = page.getByRole('dialog');
  for (const said of ['its agents: Night clerk', /its channels: ⟨U\+202E⟩gnp/, 'its secrets: key'])
    await dialog.getByText(said).first().waitFor();
}
