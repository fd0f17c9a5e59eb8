/** What the console says about a plugin that the user requires or entrusts with secrets, before and after the user consents. */
import t from 'tap';
import { soakTest } from '../runner/soak.ts';
import { answerInstead, shareBrowser, shareConsole } from './browser.ts';
import { press, pressInDialog, shareConsoleService } from './console-fixture.ts';
import { installationThat, packageFiles, publish, publishFrontDesk } from './front-desk.ts';

const service = await shareConsoleService('consent');
const { openAt } = await shareConsole(await shareBrowser(t), service);
const STOPPED = 'the messages and turns that it must check are stopped';

t.test('a required plugin that does not run yet is said to stop messages', async (t) => {
  await publishFrontDesk(service, 'host.storage', { slug: 'stop-desk', displayName: 'Stop desk' });
  const { page, complaints } = await openAt('/catalog/stop-desk');
  await press(page, 'Install');
  const dialog = page.getByRole('dialog');
  const note = dialog.getByText(`Until then, ${STOPPED}.`);
  await note.waitFor();
  await dialog.getByLabel('Require this plugin').uncheck();
  await note.waitFor({ state: 'detached' });
  await dialog.getByLabel('Require this plugin').check();
  await dialog.getByLabel('I allow this plugin').check();
  await dialog.getByRole('button', { name: 'Install' }).click();
  const alert = page.getByRole('alert', { name: 'Not running' });
  await alert.getByText(`You require it: until it runs, ${STOPPED}.`).waitFor();
  await alert.getByRole('link', { name: 'Go to its settings' }).press('Enter');
  await page.locator('[role=tabpanel]:focus').getByLabel('API key').first().waitFor();
  await page.getByRole('tab', { name: 'Settings' }).press('ArrowLeft');
  await page.locator('[role=tab]:focus', { hasText: 'Overview' }).waitFor();
  await page.locator('[role=tabpanel]').getByText('When it does not run').waitFor();
  const { id } = await installationThat(service, ({ slug }) => slug === 'stop-desk');
  await page.getByRole('link', { name: 'Installations' }).click();
  await page.getByRole('listitem').getByText(`Until it runs, ${STOPPED}.`).waitFor();
  await service.call('PATCH', `/api/installations/${id}`, { required: false });
  await page.getByText(`Until it runs, ${STOPPED}.`).waitFor({ state: 'detached' });
  t.same(complaints, []);
});

t.test('an update that ends a check of a required plugin says so, whatever else it asks for', async (t) => {
  const named = { slug: 'end-desk', displayName: 'End desk' };
  const plugin = await publishFrontDesk(service, 'host.storage, host.workspace', named);
  const { body: made } = await service.call('POST', '/api/installations', { slug: named.slug, required: true });
  await service.call('POST', `/api/installations/${made.id}/configure`, { secrets: { key: 'k3y' } });
  await publishWithoutHook(plugin, named.displayName, undefined, 'host.storage, host.workspace:read');
  const { page, complaints } = await openAt(`/installations/${made.id}`);
  const reason = '2.0.0 asks for more access and drops a hook of a plugin that you require';
  const card = page.getByRole('region', { name: 'Update', exact: true });
  await card.getByRole('heading', { name: reason }).waitFor();
  const ending = card.locator('.difference', { hasText: 'Checks that end' });
  await ending.getByText('middleware.inboundMessage', { exact: true }).waitFor();
  t.equal(
    await card.locator('.difference', { hasText: 'Removed access' }).getByText('middleware.inboundMessage').count(),
    0,
    'a check that ends does not look like less risk',
  );
  const kept = card.locator('.difference', { hasText: 'Kept access' });
  await kept.getByText('host.workspace:read', { exact: true }).waitFor();
  await card.getByRole('checkbox', { name: /, and accept that its checks end$/ }).check();
  await press(page, 'Update to 2.0.0');
  await installationThat(service, ({ slug, currentSemVer }) => slug === named.slug && currentSemVer === '2.0.0');
  t.same(complaints, []);
});

soakTest(
  t,
  'the dialog that stops requiring a plugin names the checks that a waiting update ends at once',
  async (t) => {
    const named = { slug: 'wait-desk', displayName: 'Wait desk' };
    const plugin = await publishFrontDesk(service, 'host.storage', named);
    const { body: made } = await service.call('POST', '/api/installations', { slug: named.slug, required: true });
    await service.call('POST', `/api/installations/${made.id}/configure`, { secrets: { key: 'k3y' } });
    const { page, complaints } = await openAt(`/installations/${made.id}`);
    const dialog = page.getByRole('dialog', { name: 'Stop requiring this plugin?' });
    const stop = async (sentence: string | RegExp) => {
      await page.getByRole('checkbox', { name: 'Require this plugin', checked: true }).click();
      await dialog.getByText(sentence).waitFor();
    };
    await stop('Updates that ask for nothing new may end its checks without your consent.');
    await pressInDialog(page, 'Cancel');
    await publishWithoutHook(plugin, named.displayName, '');
    await press(page, 'Not this version');
    const update = page.getByRole('region', { name: 'Update', exact: true });
    await update.and(page.locator(':focus')).waitFor();
    await press(page, 'Look at it again');
    await update.locator('h2:focus').waitFor();
    await press(page, 'Not this version');
    await stop(/^The update to 2\.0\.0 begins, also if you have declined it\./);
    await dialog.getByText('middleware.inboundMessage', { exact: true }).waitFor();
    await pressInDialog(page, 'Stop requiring it');
    await installationThat(service, ({ slug, currentSemVer }) => slug === named.slug && currentSemVer === '2.0.0');
    t.same(complaints, []);
  },
);

soakTest(t, 'a consent to an update ends when the update also ends a check that has become required', async (t) => {
  const named = { slug: 'less-desk', displayName: 'Less desk' };
  const plugin = await publishFrontDesk(service, 'host.storage', named);
  const { body: made } = await service.call('POST', '/api/installations', { slug: named.slug });
  await service.call('POST', `/api/installations/${made.id}/configure`, { secrets: { key: 'k3y' } });
  await publishWithoutHook(plugin, named.displayName);
  const { page, complaints } = await openAt(`/installations/${made.id}`);
  const box = page.getByRole('checkbox', { name: 'I allow this plugin what is listed above', exact: true });
  await box.check();
  await page.getByRole('button', { name: 'Update to 2.0.0', disabled: false }).waitFor();
  t.equal((await service.call('PATCH', `/api/installations/${made.id}`, { required: true })).status, 200);
  await page.getByRole('checkbox', { name: /, and accept that its checks end$/, checked: false }).waitFor();
  await page.getByRole('button', { name: 'Update to 2.0.0', disabled: true }).waitFor();
  t.same(complaints, []);
});

t.test('what the console says about a secret stands apart from what the author says', async (t) => {
  const { body: plugin } = await service.call('POST', '/api/plugins', { slug: 'say-desk', displayName: 'Say desk' });
  const claim = 'The plugin never sees it: it is sent to api.example.com only. Older consoles may say:';
  const secret = `, door: { label: Door code, description: "${claim}" }`;
  await publish(service, plugin.id, '1.0.0', 'host.storage', { name: 'Say desk', secret });
  const { body: made } = await service.call('POST', '/api/installations', { slug: 'say-desk' });
  const { page, complaints } = await openAt(`/installations/${made.id}?tab=settings`);
  const description = page.locator('.mantine-InputWrapper-root', { hasText: 'Door code' }).locator('p');
  await description.getByText('The plugin can read it.', { exact: true }).waitFor();
  t.equal(await description.textContent(), `The plugin can read it.${claim}`, 'first');
  await description.locator('.foreign').getByText(claim, { exact: true }).waitFor();
  const unmasked = description.getByText('A value shorter than 6 characters is not masked', { exact: false });
  await page.getByLabel('Door code', { exact: true }).fill('12345');
  await unmasked.waitFor();
  await page.getByLabel('Door code', { exact: true }).fill('123456');
  await unmasked.waitFor({ state: 'detached' });
  t.same(complaints, []);
});

soakTest(t, 'the checkbox that requires a plugin keeps the focus while it saves', async (t) => {
  const made = await installationThat(service, ({ slug, required }) => slug === 'stop-desk' && !required);
  const { context, page, complaints } = await openAt(`/installations/${made.id}`);
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  let sent = 0;
  await answerInstead(context, `**/api/installations/${made.id}`, async (route) => {
    if (route.request().method() === 'PATCH') {
      sent += 1;
      await released;
    }
    await route.continue();
  });
  const isShown = (checked: boolean) => page.getByRole('checkbox', { name: 'Require this plugin', checked });
  await isShown(false).focus();
  await page.keyboard.press('Space');
  await isShown(true).waitFor();
  await page.keyboard.press('Space');
  await page.locator('input[type=checkbox]:focus:enabled').waitFor();
  release();
  await page.getByText('Saved', { exact: true }).waitFor();
  t.ok(await isShown(true).isVisible());
  t.equal(sent, 1, 'a change meanwhile is left out');
  await page.locator('input[type=checkbox]:focus').waitFor();
  t.same(complaints, []);
});

/** Publishes version 2.0.0, which has no hook. @param added the code for which it asks for more access */
async function publishWithoutHook(
  plugin: string,
  name: string,
  added = 'events.sessionStarted = () => {};\n',
  capabilities = 'host.storage',
): Promise<void> {
  const [readme] = packageFiles(capabilities, { name });
  const index = `${added}tools.bell = { description: 'Rings', parameters: {}, handler: () => 1 };\n`;
  const files = [readme, { path: 'index.ts', contentText: index }];
  t.equal((await service.call('POST', `/api/plugins/${plugin}/versions`, { semVer: '2.0.0', files })).status, 201);
}
