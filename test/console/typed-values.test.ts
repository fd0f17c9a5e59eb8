/** What a user has typed for an installation is not lost when a request fails, and does not silently replace what was saved elsewhere. */
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import t from 'tap';
import { soakTest } from '../runner/soak.ts';
import {
  answerInstead,
  loseResponse,
  loseResponseBehindProxy,
  openTab,
  shareBrowser,
  shareConsole,
} from './browser.ts';
import { allowUpdate, go, press, pressInDialog, shareConsoleService } from './console-fixture.ts';
import { installationThat, publish, publishFrontDesk } from './front-desk.ts';

const ACCOUNT = 'typist';
const service = await shareConsoleService(ACCOUNT);
const browser = await shareBrowser(t);
const isOf =
  (wanted: string) =>
  ({ slug }: { readonly slug: string }) =>
    slug === wanted;

const { openAt } = await shareConsole(browser, service);

const DESK = { slug: 'desk', displayName: 'Desk' };
await publishFrontDesk(service, 'host.storage', DESK);
/** Installs the plugin of the tests that need one version, without what an earlier test has saved. @returns the id */
async function installDesk(): Promise<string> {
  const { body: before } = await service.call('GET', '/api/installations');
  const [earlier] = before.items.filter(isOf(DESK.slug));
  if (earlier) await service.call('DELETE', `/api/installations/${earlier.id}`);
  const { status, body } = await service.call('POST', '/api/installations', { slug: DESK.slug });
  assert.equal(status, 201);
  return body.id;
}

/** Not installed. */
const CALM = { slug: 'calm-desk', displayName: 'Calm desk' };
await publishFrontDesk(service, 'host.storage', CALM);

/** Opens the dialog of Install and fills it in. */
async function fillIn(page: Page, name: string): Promise<void> {
  await go(page, 'Catalog');
  await go(page, name);
  await press(page, 'Install');
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Signature').fill('The desk');
  await dialog.getByLabel('API key').first().fill('k3y');
  await dialog.getByLabel('I allow this plugin').check();
}

t.test('settings that could not be saved after an installation are in its settings, with the reason', async (t) => {
  const { context, page, complaints } = await openAt();
  const endOutage = await answerInstead(context, '**/configure', (route) => route.abort());
  await fillIn(page, DESK.displayName);
  t.equal(await page.getByLabel('API key').first().getAttribute('aria-required'), 'true');
  t.equal(await page.getByLabel('Signature').getAttribute('aria-required'), 'false');
  await pressInDialog(page, 'Install');
  const alert = page.getByRole('alert').filter({ hasText: 'It is installed, but its settings are not saved.' });
  await alert.getByText('The service did not respond').waitFor();
  const [key, signature] = [page.getByLabel('API key').first(), page.getByLabel('Signature')];
  t.same([await signature.inputValue(), await key.inputValue()], ['The desk', 'k3y']);
  await key.press('Tab');
  await page.locator('[aria-label="Reveal API key"]:focus').press('Enter');
  t.equal(await key.getAttribute('type'), 'text', 'the keyboard reveals it');
  await page.getByText(/before it can run\. Go to its settings$/).waitFor();
  await go(page, 'Catalog');
  await page.getByRole('dialog').getByText('What you typed in the settings is not saved').waitFor();
  await press(page, 'Stay');
  endOutage();
  await press(page, 'Save');
  await alert.waitFor({ state: 'detached' });
  const { settings, secretNames } = await installationThat(service, isOf(DESK.slug));
  t.same([settings.sign, secretNames], ['The desk', ['key']]);
  t.same(complaints, []);
});

soakTest(t, 'an installation whose response was lost is found, and gets its settings', async (t) => {
  const named = { slug: 'lost-desk', displayName: 'Lost desk' };
  await publishFrontDesk(service, 'host.storage', named);
  const { context, page, complaints } = await openAt();
  let lose = loseResponse;
  const endOutage = await answerInstead(context, '**/api/installations', (route) =>
    route.request().method() === 'POST' ? lose(route) : route.continue(),
  );
  await fillIn(page, named.displayName);
  // The service is away for a moment: what was installed can only be found later.
  const endGap = await answerInstead(context, `**/api/marketplace/${named.slug}`, (route) => route.abort());
  await pressInDialog(page, 'Install');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('alert').getByText('It may have done what you asked for').waitFor();
  const read = page.waitForResponse(new RegExp(`/marketplace/${named.slug}$`));
  endGap();
  await page.evaluate("dispatchEvent(new Event('visibilitychange'))");
  t.match(await (await read).json(), { slug: named.slug, installationId: /./ });
  t.equal(await dialog.getByLabel('Signature').inputValue(), 'The desk', 'the dialog stays');
  await pressInDialog(page, 'Install');
  await page.locator('.mantine-Notification-root', { hasText: 'Installed' }).waitFor();
  const made = await installationThat(service, isOf(named.slug));
  t.same([made.settings.sign, made.secretNames], ['The desk', ['key']]);

  await service.call('DELETE', `/api/installations/${made.id}`);
  lose = loseResponseBehindProxy;
  await fillIn(page, named.displayName);
  await pressInDialog(page, 'Install');
  await page.waitForURL('**/installations/*');
  const found = await installationThat(service, ({ slug, id }) => slug === named.slug && id !== made.id);
  t.same([found.settings.sign, found.secretNames], ['The desk', ['key']]);
  endOutage();
  t.same(complaints, []);
});

soakTest(t, 'what was typed is not saved to another installation of another tab', async (t) => {
  const named = { slug: 'other-desk', displayName: 'Other desk' };
  const plugin = await publishFrontDesk(service, 'host.storage', named);
  const { latest } = (await service.call('GET', `/api/marketplace/${named.slug}`)).body;
  const { context, page, complaints } = await openAt();
  /** Another tab installs it. @param published meanwhile. @returns the id */
  const installBeside = async (body: object, notice: string, published?: string): Promise<string> => {
    await fillIn(page, named.displayName);
    const endOutage = await answerInstead(context, '**/api/installations', async (route) => {
      if (route.request().method() !== 'POST') return route.continue();
      if (published)
        await publish(service, plugin, published, 'host.storage', { name: named.displayName, bell: 'Rings twice' });
      const { status } = await service.call('POST', '/api/installations', { slug: named.slug, ...body });
      t.equal(status, 201);
      await route.abort();
    });
    await pressInDialog(page, 'Install');
    const alert = page.getByRole('alert', { name: 'Not saved yet' }).filter({ hasText: notice });
    await alert.waitFor();
    endOutage();
    const id = page.url().match(/installations\/([^?]+)/)?.[1] ?? '';
    const { settings, secretNames } = await installationThat(service, (one) => one.id === id);
    t.same([settings.sign ?? '', secretNames], ['', []], 'nothing is saved');
    t.equal(await page.getByLabel('API key').first().inputValue(), 'k3y', 'nothing is lost');
    t.equal(await page.getByText('Installed', { exact: true }).count(), 0, 'nothing contradicts it');
    await press(page, 'Save');
    await alert.waitFor({ state: 'detached' });
    await installationThat(service, (one) => one.id === id && one.secretNames[0] === 'key');
    return id;
  };
  const pinned = { required: true, versionPolicy: 'Pinned', pinnedVersionId: latest.versionId };
  const first = await installBeside(pinned, 'It was already installed, with other choices than yours');
  await service.call('DELETE', `/api/installations/${first}`);

  const second = await installBeside({ required: true }, 'Nothing was saved: 1.1.0 runs now', '1.1.0');
  t.not(second, first);
  t.same(complaints, []);
});

/** Installs a plugin whose next version asks for one more secret. @returns the id */
async function installWithUpdate(named: { readonly slug: string; readonly displayName: string }): Promise<string> {
  const plugin = await publishFrontDesk(service, 'host.storage', named);
  const { body } = await service.call('POST', '/api/installations', { slug: named.slug });
  await service.call('POST', `/api/installations/${body.id}/configure`, { secrets: { key: 'k3y' } });
  const secret = ', door: { label: Door code, required: true }';
  await publish(service, plugin, '1.1.0', 'host.storage', { name: named.displayName, secret });
  return body.id;
}

soakTest(
  t,
  'settings that could not be saved for an accepted update are in its settings, with the reason',
  async (t) => {
    const named = { slug: 'next-desk', displayName: 'Next desk' };
    const id = await installWithUpdate(named);
    const { context, page, complaints } = await openAt(`/installations/${id}`);
    const endOutage = await answerInstead(context, '**/configure', (route) => route.abort());
    await answerInstead(context, '**/accept-update', loseResponseBehindProxy);
    const door = page.getByLabel('Door code').first();
    await door.fill('4711');
    await allowUpdate(page, '1.1.0');
    const alert = page
      .getByRole('alert')
      .filter({ hasText: 'The update is accepted, but what you entered for it is not saved.' });
    await alert.waitFor();
    await page
      .getByText('Accepted, but what you entered for it is not saved: see the settings', { exact: true })
      .waitFor();
    t.equal(await page.getByText('the new version runs when it has started').count(), 0, 'nothing contradicts it');
    await page.getByRole('region', { name: 'Update', exact: true }).waitFor({ state: 'detached' });
    t.equal(await door.inputValue(), '4711');
    endOutage();
    await press(page, 'Save');
    await alert.waitFor({ state: 'detached' });
    const updated = await installationThat(
      service,
      ({ slug, currentSemVer }) => slug === named.slug && currentSemVer === '1.1.0',
    );
    t.same(updated.secretNames, ['door', 'key']);
    t.same(complaints, []);
  },
);

soakTest(t, 'what was typed for an update is in the settings when nothing said that it was accepted', async (t) => {
  const named = { slug: 'mute-desk', displayName: 'Mute desk' };
  const id = await installWithUpdate(named);
  const { context, page, complaints } = await openAt(`/installations/${id}?tab=settings`);
  await page.getByLabel('Signature').fill('The desk');
  const door = page.getByLabel('Door code').first();
  await door.fill('4711');
  await answerInstead(context, '**/accept-update', loseResponse);
  const endOutage = await answerInstead(context, `**/api/installations/${id}`, (route) => route.abort());
  await allowUpdate(page, '1.1.0');
  await page.getByRole('alert').getByText('It may have done what you asked for').waitFor();
  t.equal(await door.inputValue(), '4711');
  endOutage();
  const alert = page.getByRole('alert', { name: 'Not saved yet' }).filter({ hasText: 'it was accepted' });
  await alert.waitFor();
  await service.call('POST', `/api/installations/${id}/configure`, { secrets: { door: '0000' } });
  // It runs now: secrets that were shown for 1.0.0 would be refused.
  await page.getByText('1.1.0', { exact: true }).waitFor();
  t.equal(await door.inputValue(), '4711');
  await press(page, 'Save');
  await alert.waitFor({ state: 'detached' });
  const { settings, secretNames } = await installationThat(service, isOf(named.slug));
  t.same([settings.sign, secretNames], ['The desk', ['door', 'key']]);
  t.same(complaints, []);
});

soakTest(t, 'values of several lines keep their line breaks', async (t) => {
  const id = await installDesk();
  const { context, page, complaints } = await openAt(`/installations/${id}?tab=settings`);
  let sent: unknown = null;
  await answerInstead(context, '**/configure', (route) => {
    sent = route.request().postDataJSON();
    return route.continue();
  });
  const paste = async (label: string, text: string) => {
    await page.getByLabel(label).first().focus();
    await page.evaluate(`navigator.clipboard.writeText(${JSON.stringify(text)})`);
    await page.keyboard.press('Control+V');
  };
  const pem = '-----BEGIN PRIVATE KEY-----\nMC4CAQAw\n-----END PRIVATE KEY-----\n';
  await paste('API key', pem);
  await paste('Signature', 'The desk\nOpen all day');
  await page.keyboard.type('!');
  const key = page.locator('textarea[name="secrets.key"]');
  t.equal(await key.inputValue(), pem);
  t.match(await key.evaluate(readStyle), { webkitTextSecurity: 'disc' }, 'it is not readable on the screen');
  await press(page, 'Save');
  await page.getByText('Saved', { exact: true }).waitFor();
  t.match(sent, { settings: { sign: 'The desk\nOpen all day!' }, secrets: { key: pem } });
  await page.locator('input[name="secrets.key"]').waitFor();
  await page.reload();
  const sign = page.getByLabel('Signature');
  t.equal(await sign.inputValue(), 'The desk\nOpen all day!', 'a stored value is shown with them');
  await paste('API key', 'k3y\n');
  const line = page.locator('input[name="secrets.key"]');
  t.equal(await line.inputValue(), 'k3y', 'a line with its end stays in one line');
  await line.clear();
  await sign.selectText();
  await sign.hover();
  await page.mouse.down();
  await line.hover();
  await line.hover();
  await page.mouse.up();
  t.equal(await key.inputValue(), 'The desk\nOpen all day!', 'text that is dropped keeps them');
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.type('k3y');
  t.equal(await key.inputValue(), 'k3y', 'the text area stays while it is edited');
  t.same(complaints, []);
});

t.test('leaving a page asks when something was typed for an installation', async (t) => {
  const { page, complaints } = await openAt();
  await go(page, CALM.displayName);
  await press(page, 'Install');
  const dialog = page.getByRole('dialog', { name: `Install ${CALM.displayName}` });
  await dialog.getByLabel('Signature').fill('The desk');
  await page.evaluate('history.back()');
  await page
    .getByRole('dialog', { name: 'Unsaved changes' })
    .getByText('What you typed for the installation')
    .waitFor();
  await press(page, 'Stay');
  t.equal(await dialog.getByLabel('Signature').inputValue(), 'The desk');
  t.same(complaints, []);
});

soakTest(t, 'the question about unsaved changes closes when a save that was under way has succeeded', async (t) => {
  const id = await installDesk();
  const { context, page, complaints } = await openAt(`/installations/${id}?tab=settings`);
  const question = page.getByRole('dialog', { name: 'Unsaved changes' });
  let held = Promise.withResolvers<void>();
  await answerInstead(context, '**/configure', (route) => held.promise.then(() => route.continue()));
  const signOut = async () => {
    await press(page, ACCOUNT);
    await page.getByRole('menuitem', { name: 'Sign out', exact: true }).click();
  };
  for (const [text, leave] of [
    ['The desk', () => go(page, 'Catalog')],
    ['The desk at night', signOut],
  ] as const) {
    held = Promise.withResolvers();
    await page.getByLabel('Signature').fill(text);
    await press(page, 'Save');
    await leave();
    await question.waitFor();
    held.resolve();
    await question.waitFor({ state: 'detached' });
    t.equal(await page.getByLabel('Signature').inputValue(), text, 'the page stays');
  }
  await go(page, 'Catalog');
  await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
  t.same(complaints, []);
});

t.test('settings are saved while a required one is missing, but none that is required is removed', async (t) => {
  const named = { slug: 'part-desk', displayName: 'Part desk' };
  const plugin = await publishFrontDesk(service, 'host.storage', named);
  const more = { name: named.displayName, setting: '\n  floor: { label: Floor, required: true }' };
  await publish(service, plugin, '1.1.0', 'host.storage', more);
  const { body } = await service.call('POST', '/api/installations', { slug: named.slug });
  const { page, complaints } = await openAt(`/installations/${body.id}?tab=settings`);
  const save = async (floor: string) => {
    await page.getByLabel('Floor').fill(floor);
    await press(page, 'Save');
  };
  await save('Third');
  await installationThat(service, ({ slug, settings }) => slug === named.slug && settings.floor === 'Third');
  await page.getByText('Set API key (key) before it can run.').waitFor();
  await save('');
  await page.getByText('Floor is required.').waitFor();
  const { settings } = await installationThat(service, isOf(named.slug));
  t.same(settings, { floor: 'Third' }, 'it runs on with the value');
  t.same(complaints, []);
});

soakTest(t, 'leaving a page asks when something was typed in its dialog', async (t) => {
  const { page, complaints } = await openAt();
  await go(page, 'Services');
  await press(page, 'Add an SSH host');
  const dialog = page.getByRole('dialog', { name: 'Add an SSH host' });
  await dialog.getByLabel('Private key').fill('A key');
  await page.evaluate('history.back()');
  await page.getByRole('dialog', { name: 'Unsaved changes' }).getByText('What you typed in the dialog').waitFor();
  await press(page, 'Stay');
  t.equal(await dialog.getByLabel('Private key').inputValue(), 'A key');
  await pressInDialog(page, 'Cancel');
  await dialog.waitFor({ state: 'detached' });
  await go(page, 'Catalog');
  await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
  t.same(complaints, []);
});

soakTest(t, 'an action that ends late leaves the page alone that was opened in the meantime', async (t) => {
  const named = { slug: 'slow-desk', displayName: 'Slow desk' };
  await publishFrontDesk(service, 'host.storage', named);
  const { context, page, complaints } = await openAt(`/catalog/${named.slug}`);
  let held = Promise.withResolvers<void>();
  const holdWrites = (addresses: string) => {
    held = Promise.withResolvers();
    return answerInstead(context, addresses, async (route) => {
      if (route.request().method() !== 'GET') await held.promise;
      await route.continue();
    });
  };
  /** Goes on to another page while the request waits, and types there. */
  const typeElsewhere = async (method: string, button: string) => {
    const sent = page.waitForRequest((request) => request.method() === method);
    await pressInDialog(page, button);
    await sent;
    await pressInDialog(page, 'Cancel');
    await go(page, 'Catalog');
    await go(page, CALM.displayName);
    await press(page, 'Install');
    await page.getByRole('dialog').getByLabel('Signature').fill('The desk');
    held.resolve();
    await page.locator('.mantine-Notification-root').getByText(`${button}ed`, { exact: true }).waitFor();
    t.equal(new URL(page.url()).pathname, `/catalog/${CALM.slug}`, button);
    t.equal(await page.getByRole('dialog').getByLabel('Signature').inputValue(), 'The desk');
  };
  await holdWrites('**/api/installations');
  await press(page, 'Install');
  await page.getByLabel('I allow this plugin').check();
  await typeElsewhere('POST', 'Install');
  const { id } = await installationThat(service, isOf(named.slug));
  await openAt(`/installations/${id}`);
  await holdWrites('**/api/installations/*');
  await press(page, 'Uninstall');
  await typeElsewhere('DELETE', 'Uninstall');
  await openAt('/plugins');
  await holdWrites('**/api/plugins');
  await page.getByLabel('Name').fill('Late desk');
  const sent = page.waitForRequest((request) => request.method() === 'POST');
  await press(page, 'Create');
  await sent;
  await go(page, 'Catalog');
  held.resolve();
  await page.locator('.mantine-Notification-root').getByText('The plugin is created').waitFor();
  t.equal(new URL(page.url()).pathname, '/catalog', 'Create');
  t.same(complaints, []);
});

soakTest(t, 'uninstalling asks nothing about settings that were typed and not saved', async (t) => {
  const id = await installDesk();
  const { page, complaints } = await openAt(`/installations/${id}?tab=settings`);
  await page.getByLabel('Signature').fill('The desk');
  await press(page, 'Uninstall');
  await pressInDialog(page, 'Uninstall');
  await page.locator('.mantine-Notification-root').getByText('Uninstalled', { exact: true }).waitFor();
  t.equal(new URL(page.url()).pathname, '/installations');
  t.equal(await page.getByRole('dialog', { name: 'Unsaved changes' }).count(), 0);
  t.same(complaints, []);
});

t.test('a setting that was saved in another tab meanwhile is shown before it is replaced', async (t) => {
  const id = await installDesk();
  const configure = (sign: string) =>
    service.call('POST', `/api/installations/${id}/configure`, { settings: { sign }, secrets: { key: 'k3y' } });
  await configure('Base');
  const first = await openAt(`/installations/${id}?tab=settings`);
  const second = await openTab(first.context, `${service.url}/installations/${id}?tab=settings`);
  const fill = (page: Page, sign: string) => page.getByLabel('Signature').fill(sign);
  await fill(first.page, 'Of the first');
  await fill(second.page, 'Of the second');
  await press(second.page, 'Save');
  await second.page.getByText('Saved', { exact: true }).waitFor();
  const notice = first.page.getByRole('status').filter({ hasText: 'Saved elsewhere meanwhile: Of the second.' });
  await notice.waitFor();
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
  await second.page.close();
});

// Last: it ends the session of the shared page.
t.test('signing out asks when something was typed on the page', async (t) => {
  const id = await installDesk();
  const { page, complaints } = await openAt(`/installations/${id}?tab=settings`);
  const signOut = async () => {
    await press(page, ACCOUNT);
    await page.getByRole('menuitemradio', { name: 'Use system setting', checked: true }).waitFor();
    await page.getByRole('menuitem', { name: 'Sign out', exact: true }).click();
  };
  await page.getByLabel('Signature').fill('The desk');
  await signOut();
  await page.getByRole('dialog', { name: 'Unsaved changes' }).getByText('is lost if you sign out').waitFor();
  await press(page, 'Stay');
  t.equal(await page.getByLabel('Signature').inputValue(), 'The desk');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await signOut();
  await press(page, 'Sign out without saving');
  await page.getByRole('heading', { name: 'Sign in to Bulkhead' }).waitFor();
  t.same(complaints, []);
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

/** Evaluated in the page. */
const readStyle = (element: unknown): unknown => {
  const { webkitTextSecurity } = (
    globalThis as unknown as { getComputedStyle(of: unknown): { webkitTextSecurity: string } }
  ).getComputedStyle(element);
  return { webkitTextSecurity };
};
