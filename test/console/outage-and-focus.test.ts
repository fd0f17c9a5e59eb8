/** The console while the service is unreachable, where the focus goes when a button disappears, and what the next page keeps. */
import { mkdir, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import t from 'tap';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { amount, isSoak, listCases, soakTest } from '../runner/soak.ts';
import {
  answerInstead,
  failTwice,
  loseResponse,
  openSignedIn,
  openTab,
  shareBrowser,
  shareConsole,
} from './browser.ts';
import { clickByMouse, go, press, pressInDialog, shareConsoleService, tab } from './console-fixture.ts';
import { makeDraft } from './editor-actions.ts';
import { publish, publishFrontDesk } from './front-desk.ts';

const INDEX = { path: 'index.ts', contentText: 'middleware.systemPrompt = (ctx) => ctx.systemPrompt;\n' };

const service = await shareConsoleService('local');
const browser = await shareBrowser(t);

const { opened, openAt } = await shareConsole(browser, service);

t.test('a page whose code cannot be fetched says so, and loads when the service is back', async (t) => {
  const { context, page } = await openAt('/');
  await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
  await page.evaluate('globalThis.isSameDocument = true');
  const endOutage = await answerInstead(context, '**', (route) => route.abort('connectionrefused'));
  await go(page, 'Agents');
  await page.getByRole('alert').getByText('The service is unreachable').waitFor();
  t.ok(await page.getByRole('link', { name: 'Catalog', exact: true }).isVisible(), 'the navigation stays');
  // Until then, the page shows its first alert. If the service came back during the retry, the document would reload without a click.
  const failedAgain = page.waitForEvent('requestfailed', (request) => request.url() === `${service.url}/`);
  await press(page, 'Try again');
  await failedAgain;
  await page.getByRole('alert').getByText('The service is unreachable').waitFor();
  t.equal(await page.evaluate('globalThis.isSameDocument'), true, 'the document is not reloaded during the outage');
  endOutage();
  await press(page, 'Try again');
  await page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor();

  await page.evaluate('globalThis.isSameDocument = true');
  const endGap = await answerInstead(context, '**/assets/tokens-page*.js', (route) => {
    endGap();
    return route.fulfill({ status: 404 });
  });
  await go(page, 'Tokens');
  await page.getByRole('heading', { level: 1, name: 'Tokens' }).waitFor();
  t.notOk(await page.evaluate('globalThis.isSameDocument'), 'a chunk that a new version replaced reloads the document');
});

t.test('the focus moves on when the pressed button disappears or stays disabled', async (t) => {
  await publishFrontDesk(service, 'host.storage', { slug: 'main-desk', displayName: 'Main desk' });
  const { body } = await service.call('POST', '/api/installations', { slug: 'main-desk' });
  await service.call('POST', `/api/installations/${body.id}/configure`, { secrets: { key: 'k3y' } });
  await service.call('PATCH', `/api/installations/${body.id}`, { required: false });
  const { page, complaints } = await openAt(`/installations/${body.id}`);

  await page.evaluate(LIST_PRESSED);
  const listPressed = () => page.evaluate<string[]>('pressed');
  const pause = page.getByRole('button', { name: 'Pause' });
  const resume = page.getByRole('button', { name: 'Resume' });
  await pause.focus();
  await page.keyboard.down('Enter');
  await resume.waitFor();
  t.ok(await isFocusedOn(page, 'BUTTON Resume'), 'after Pause it is on Resume');
  // The key is still held down, so it repeats.
  await page.keyboard.down('Enter');
  await page.keyboard.up('Enter');
  t.same(await listPressed(), ['Pause'], 'a key that is held down does not press Resume');
  await page.keyboard.press('Enter');
  await pause.waitFor();
  t.ok(await isFocusedOn(page, 'BUTTON Pause'), 'and after Resume on Pause');
  await pause.hover();
  await clickByMouse(page, 1);
  await resume.waitFor();
  await clickByMouse(page, 2);
  t.same(await listPressed(), ['Pause', 'Resume', 'Pause'], 'nor does the rest of a double click');
  await page.getByRole('heading', { level: 1 }).hover();
  await clickByMouse(page, 1);
  await resume.hover();
  // The second click of a user whose first one was beside the button.
  await clickByMouse(page, 2);
  await pause.waitFor();
  await focusAndPress(page, 'Run setup again');
  await page.getByText('notified to set itself up again').waitFor();
  t.ok(await isFocusedOn(page, 'BUTTON Run setup again'), 'a button that was disabled only meanwhile keeps it');
  t.same(complaints, []);
});

soakTest(t, 'the focus moves on from a form and a dialog to what comes next', async (t) => {
  const { body: installations } = await service.call('GET', '/api/installations');
  const body = installations.items.find(({ slug }: { slug: string }) => slug === 'main-desk');
  await service.call('POST', `/api/installations/${body.id}/channels`, { name: 'Inbox' });
  await service.asUser('ben').then((ben) => ben.call('GET', '/api/me'));
  const { page, complaints } = await openAt(`/installations/${body.id}`);
  await tab(page, 'Channels');
  await page.getByLabel('New channel').fill('Second inbox');
  await focusAndPress(page, 'Connect');
  await page.getByText('Second inbox', { exact: true }).first().waitFor();
  await page.getByRole('button', { name: 'Connect', exact: true, disabled: true }).waitFor();
  t.ok(
    await isFocusedOn(page, 'INPUT '),
    'after Connect, which stays disabled, it is on the field for the next channel',
  );
  await service.call('DELETE', await findChannelPath(body.id, 'Second inbox'));
  await page.getByText('Second inbox', { exact: true }).first().waitFor({ state: 'detached' });
  await focusAndPress(page, /^Disconnect/);
  await page.getByRole('dialog').waitFor();
  t.ok(await isFocusedOn(page, 'BUTTON Cancel'), 'a confirmation without a field starts on Cancel');
  await pressInDialog(page, /^Disconnect/);
  await page.getByText('No channel is connected').waitFor();
  t.ok(await isFocusedOn(page, 'DIV New channel'), 'after Disconnect it is on the tab’s panel');

  const { body: session } = await service.session('POST', '/sessions', { agentId: 'ann' });
  await page.goto(`${service.url}/playground/${session.id}`);
  await page.getByRole('textbox', { name: 'Message', exact: true }).fill('hello');
  await focusAndPress(page, 'Send');
  await page.getByText('hello (plain)', { exact: true }).waitFor();
  t.ok(await isFocusedOn(page, 'TEXTAREA '), 'after Send it is on the field for the next message');
  await service.session('DELETE', `/sessions/${session.id}`);

  const plugin = await publishFrontDesk(service, 'host.storage', { slug: 'side-desk', displayName: 'Side desk' });
  await page.goto(`${service.url}/catalog/side-desk`);
  await press(page, 'Install');
  await page.getByRole('dialog').getByLabel('I allow this plugin').check();
  await page.getByRole('dialog').getByRole('button', { name: 'Install' }).focus();
  await publish(service, plugin, '1.1.0', 'host.storage, host.llm', { name: 'Side desk' });
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByText('The newest version is 1.1.0 now').waitFor();
  t.ok(await isFocusedOn(page, 'SELECT '), 'after a refusal that needs another consent it is on the first field');
  await pressInDialog(page, 'Cancel');

  await go(page, 'Administration');
  await tab(page, 'Accounts');
  await press(page, 'Appoint ben');
  t.equal((await service.call('POST', '/api/operator/accounts/ben/appoint')).status, 200);
  await page.evaluate(READ_AGAIN);
  await page.locator('[aria-label="Demote ben"]').waitFor();
  // The dialog does not become the opposite question when another operator was faster.
  await pressInDialog(page, 'Appoint ben');
  await page.getByText('ben is now an operator').waitFor();
  t.equal((await service.call('POST', '/api/operator/accounts/ben/demote')).status, 200);
  await focusAndPress(page, 'Suspend ben');
  await page.getByRole('dialog').waitFor();
  t.ok(await isFocusedOn(page, 'INPUT '), 'a dialog starts on its first field');
  await page.keyboard.type('Looked at');
  await pressInDialog(page, 'Suspend ben');
  await page.getByText('ben (suspended: Looked at)').waitFor();
  t.ok(await isFocusedOn(page, 'BUTTON Resume'), 'after Suspend it is on Resume');
  await page.keyboard.press('Enter');
  await focusAndPress(page, 'Suspend ben');
  await page.getByRole('dialog').waitFor();
  const suspension = { reason: 'By another operator' };
  t.equal((await service.call('POST', '/api/operator/accounts/ben/suspend', suspension)).status, 200);
  await page.evaluate(READ_AGAIN);
  await page.getByText('ben (suspended: By another operator)').waitFor();
  t.ok(await isFocusedOn(page, 'BUTTON Resume'), 'as when the button of an open dialog disappears with it');
  t.same(complaints, []);
});

soakTest(
  t,
  'a part of a page whose code cannot be fetched reloads the document once, and then can be tried again',
  async (t) => {
    const { context, page } = opened;
    const pluginId = await makeDraft(service, 'part-desk', [INDEX]);
    const parts = [
      { file: 'readme', path: '/catalog/main-desk', part: page.getByRole('cell', { name: 'good day' }) },
      { file: 'code-editor', path: `/plugins/${pluginId}/edit`, part: page.locator('.monaco-editor').first() },
    ];
    // All parts have the same boundary; the editor is the heaviest of them.
    for (const { file, path, part } of amount({ quick: parts.slice(0, 1), soak: parts })) {
      await failTwice(context, `**/assets/${file}-*.js`);
      await page.goto(service.url + path);
      await page.getByRole('alert').getByText('A part of this page could not be loaded').waitFor();
      await page.getByRole('navigation').first().waitFor();
      const [{ type }] = await page.evaluate<[{ type: string }]>("performance.getEntriesByType('navigation')");
      t.equal(type, 'reload', `${file}: the first failure reloads the document, the second does not`);
      t.equal(
        await page.getByRole('heading', { level: 1, name: /desk$/ }).count(),
        1,
        `${file}: the page around it stays`,
      );
      await press(page, 'Try again');
      await part.waitFor();
      t.equal(await page.getByText('could not be loaded').count(), 0);
    }

    // As the tab of a document that was reloaded for it.
    await page.evaluate("sessionStorage.setItem('bulkhead.reloaded.markdown-worker', '0')");
    const endGap = await answerInstead(context, '**/assets/markdown-worker-*.js', (route) => {
      endGap();
      return route.fulfill({ status: 404 });
    });
    await page.goto(`${service.url}/catalog/main-desk`);
    await page.getByRole('alert').getByText('A part of this page could not be loaded').waitFor();
    t.equal(await page.getByText('too complex').count(), 0, 'a worker that a new version replaced');
    await page.getByText('| good day |').waitFor();
    await press(page, 'Try again');
    await page.getByRole('cell', { name: 'good day' }).waitFor();

    const endAbsence = await answerInstead(context, '**/assets/typescript-worker-*.js', (route) =>
      route.fulfill({ status: 404 }),
    );
    await page.goto(`${service.url}/plugins/${pluginId}/edit`);
    const alert = page.getByRole('alert').filter({ hasText: 'A part of this page could not be loaded' });
    await alert.waitFor();
    t.ok(await page.locator('.monaco-editor').first().isVisible(), 'the editor stays without its compiler');
    endAbsence();
    const loaded = page.waitForResponse(/typescript-worker/);
    await press(page, 'Reload');
    t.equal((await loaded).status(), 200);
    await page.locator('.monaco-editor').first().waitFor();
    t.equal(await alert.count(), 0);
  },
);

soakTest(t, 'a page does not show what was typed or chosen on the page of another plugin', async (t) => {
  const { body: side } = await service.call('POST', '/api/installations', { slug: 'side-desk' });
  const { body: plugins } = await service.call('GET', '/api/plugins');
  const { body: installations } = await service.call('GET', '/api/installations');
  const findId = (items: readonly { slug: string; id: string }[], wanted: string) =>
    items.find(({ slug }) => slug === wanted)?.id;
  const { page } = await openAt(`/installations/${findId(installations.items, 'main-desk')}?tab=settings`);
  await page.getByLabel('Signature').waitFor();
  await go(page, 'Installations');
  await go(page, 'Side desk');
  await tab(page, 'Settings');
  await page.getByLabel('Signature').fill('of the side desk');
  await page.getByLabel('API key').first().fill('s3cret');
  await page.evaluate('history.go(-2)');
  await pressInDialog(page, 'Leave without saving');
  await page.getByRole('heading', { level: 1, name: 'Main desk' }).waitFor();
  t.equal(await page.getByLabel('Signature').inputValue(), '');
  t.equal(await page.getByLabel('API key').first().inputValue(), '', 'a secret of one plugin is not saved for another');

  await page.goto(`${service.url}/plugins/${findId(plugins.items, 'main-desk')}`);
  await page.getByRole('heading', { level: 1, name: 'Main desk' }).waitFor();
  await go(page, 'My plugins');
  await go(page, 'Side desk');
  await page
    .locator('input[accept*=zip]')
    .setInputFiles({ name: 'side.zip', mimeType: 'application/zip', buffer: Buffer.of(0) });
  await page.getByText('side.zip, ').waitFor();
  await page.evaluate('history.go(-2)');
  await page.getByRole('heading', { level: 1, name: 'Main desk' }).waitFor();
  t.equal(await page.getByText('side.zip').count(), 0, 'a package is not published as another plugin');
  await service.call('DELETE', `/api/installations/${side.id}`);
  await service.call('DELETE', `/api/plugins/${findId(plugins.items, 'side-desk')}/listing`);
});

soakTest(t, 'a secret that was typed for one version is given to the next only after a warning', async (t) => {
  const named = { slug: 'late-desk', displayName: 'Late desk' };
  const plugin = await publishFrontDesk(service, 'host.storage', named);
  const { body: desk } = await service.call('POST', '/api/installations', { slug: named.slug });
  await service.call('POST', `/api/installations/${desk.id}/configure`, { secrets: { key: 'k3y' } });
  const { page } = await openAt(`/installations/${desk.id}?tab=settings`);
  await page.getByLabel('API key').first().fill('s3cret');
  await publish(service, plugin, '1.1.0', 'host.storage', { name: named.displayName });
  await page.getByText('1.1.0', { exact: true }).waitFor();
  for (const name of ['Overview', 'Settings']) await tab(page, name);
  await press(page, 'Save');
  await page.getByText('Nothing was saved: 1.1.0 runs now').waitFor();
  t.equal(await page.getByLabel('API key').first().inputValue(), 's3cret');
  await publish(service, plugin, '1.2.0', 'host.storage', { name: named.displayName });
  await page.getByText('1.2.0', { exact: true }).waitFor();
  await press(page, 'Save');
  await page.getByText('Nothing was saved: 1.2.0 runs now').waitFor();
  await press(page, 'Save');
  await page.getByText('Saved', { exact: true }).waitFor();
  await service.call('DELETE', `/api/installations/${desk.id}`);
  await service.call('DELETE', `/api/plugins/${plugin}/listing`);
});

t.test('a page about something that is gone says so, and asks no more', async (t) => {
  const { context, page } = opened;
  const { page: list } = await openTab(context, `${service.url}/installations`);
  /** What a page is about, by a button of that page. */
  const things: Readonly<Record<string, () => Promise<{ path: string; end(): Promise<unknown> }>>> = {
    Uninstall: async () => {
      const plugin = await publishFrontDesk(service, 'host.storage', { slug: 'old-desk', displayName: 'Old desk' });
      const { body: desk } = await service.call('POST', '/api/installations', { slug: 'old-desk' });
      await service.call('DELETE', `/api/plugins/${plugin}/listing`);
      return {
        path: `/installations/${desk.id}`,
        end: () => service.call('DELETE', `/api/installations/${desk.id}`),
      };
    },
    Publish: async () => {
      const named = { slug: 'short-desk', displayName: 'Short desk' };
      const { body: draft } = await service.call('POST', '/api/plugins', named);
      return { path: `/plugins/${draft.id}`, end: () => service.call('DELETE', `/api/plugins/${draft.id}`) };
    },
    Send: async () => {
      const { body: session } = await service.session('POST', '/sessions', { agentId: 'ann' });
      return {
        path: `/playground/${session.id}`,
        end: () => service.session('DELETE', `/sessions/${session.id}`),
      };
    },
  };
  for (const [button, make] of listCases(things, 'Send')) {
    const { path, end } = await make();
    await page.goto(`${service.url}${path}`);
    await page.getByRole('button', { name: button, exact: true }).waitFor();
    await end();
    await page.getByRole('heading', { level: 1, name: 'Not found' }).waitFor();
    t.equal(await page.getByRole('main').getByRole('heading').count(), 1, `${path}: nothing else is left on the page`);
    const requests: string[] = [];
    page.on('request', (request) => requests.push(request.url()));
    // This page reads its list as often as the other one did.
    for (let reads = 0; reads < 3; reads += 1) await list.waitForResponse(/\/api\/installations/);
    const asked = requests.filter((url) => url.includes(path.slice(path.lastIndexOf('/'))));
    t.same(asked, [], `${path}: no request while a page that follows something sends three`);
  }
  await list.close();
});

soakTest(t, 'the page of a suspended account names the reason, until an operator resumes it', async (t) => {
  const cleo = await service.asUser('cleo');
  const { context, page } = await openSignedIn(browser, cleo);
  await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
  await service.call('POST', '/api/operator/accounts/cleo/suspend', { reason: 'It sends spam' });
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Your account is suspended' }).waitFor();
  await page.getByText('It sends spam').waitFor();
  t.equal(await page.getByText('request id').count(), 0);
  await service.call('POST', '/api/operator/accounts/cleo/resume');
  await press(page, 'Try again');
  await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
  const ofCleo = await context.cookies();
  await service.call('POST', '/api/operator/accounts/cleo/suspend', { reason: 'Again' });
  await page.reload();
  await press(page, 'Sign out');
  await page.getByRole('heading', { level: 1, name: 'Sign in to Bulkhead' }).waitFor();
  await page.getByLabel('Token').first().fill(service.token);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
  await context.clearCookies();
  await context.addCookies(ofCleo);
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Sign in to Bulkhead' }).waitFor();
  await context.close();
});

t.test('a double click sends one request, and a refusal is shown at its field', async (t) => {
  const { page } = opened;
  await go(page, 'My plugins');
  await page.getByLabel('Name').fill('Night desk');
  await page.getByLabel('Slug').fill('Not A Slug');
  const requests: string[] = [];
  page.on('request', (request) => {
    if (request.method() === 'POST') requests.push(request.url());
  });
  // Both clicks come before the button is disabled.
  await page.evaluate("const button = document.querySelector('form [type=submit]'); button.click(); button.click()");
  await page
    .locator('form')
    .getByText(/^Slug must be .*\.$/)
    .waitFor();
  t.same(requests, [`${service.url}/api/plugins`]);
  t.ok(await isFocusedOn(page, 'INPUT '));
  t.equal(await page.locator('[aria-invalid=true]').inputValue(), 'Not A Slug');
  t.equal(await page.locator('.mantine-Notification-root').count(), 0);
});

soakTest(t, 'a version is published once, and the browser asks before it ends an upload', async (t) => {
  const { body: plugin } = await service.call('POST', '/api/plugins', { slug: 'twice', displayName: 'Twice' });
  const { page } = await openAt(`/plugins/${plugin.id}`);
  const requests: string[] = [];
  page.on('request', (request) => {
    if (request.method() === 'POST') requests.push(request.url());
  });
  await page
    .locator('input[accept*=zip]')
    .setInputFiles({ name: 'twice.zip', mimeType: 'application/zip', buffer: Buffer.of(0) });
  await page.getByText('twice.zip, ').waitFor();
  requests.length = 0;
  await page.getByRole('button', { name: 'Publish', exact: true }).evaluate(clickTwice);
  await page.locator('.publish-faults').waitFor();
  t.same(requests, [`${service.url}/api/plugins/${plugin.id}/versions/zip`], 'a version is published once');

  const held = Promise.withResolvers<void>();
  const endHold = await answerInstead(page.context(), '**/versions/zip', async (route) => {
    await held.promise;
    await route.continue();
  });
  const sent = page.waitForRequest(/versions\/zip$/);
  await press(page, 'Publish');
  await sent;
  // The outcome names the number that was sent.
  await page.getByLabel('Version', { exact: true }).fill('3.0.0');
  await go(page, 'My plugins');
  await page.getByRole('heading', { level: 1, name: 'My plugins' }).waitFor();
  const isLeft = await page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))");
  t.ok(isLeft, 'signing out, which ends no upload, does not ask');
  const question = page.waitForEvent('dialog');
  await page.close({ runBeforeUnload: true });
  t.equal(
    (await question).type(),
    'beforeunload',
    'the browser asks before it ends an upload, also one of a page that was left',
  );
  held.resolve();
  await page.getByText(/^Twice 1\.0\.0: /).waitFor();
  endHold();
  await service.call('DELETE', `/api/plugins/${plugin.id}`);
});

const clickTwice = (button: object): void => {
  for (const _click of [1, 2]) (button as { click(): void }).click();
};

soakTest(
  t,
  'a publish says that its zip was changed, or that its response was lost, with its version listed',
  async (t) => {
    const { body: plugin } = await service.call('POST', '/api/plugins', {
      slug: 'sent-desk',
      displayName: 'Sent desk',
    });
    const folder = join(await temporaryFolder(t), 'sent-desk');
    await mkdir(folder);
    await writeFile(
      join(folder, 'readme.md'),
      '---\nname: Sent desk\ndescription: Says good night\n---\nGood night.\n',
    );
    await writeFile(join(folder, INDEX.path), INDEX.contentText);
    const { context, page } = await openAt(`/plugins/${plugin.id}`);
    const zip = join(folder, 'changed.zip');
    await writeFile(zip, 'as it was chosen');
    await page.locator('input[accept*=zip]').setInputFiles(zip);
    await page.getByText('changed.zip, ').waitFor();
    await writeFile(zip, 'as it was made again');
    await utimes(zip, 0, 0);
    await press(page, 'Publish');
    await page.locator('.publish-faults').getByText('changed.zip could not be read. If it was changed').waitFor();
    await rm(zip);
    await page.locator('input[webkitdirectory]').setInputFiles(folder);
    await page.getByRole('region', { name: 'Package' }).getByText('readme.md').waitFor();
    await answerInstead(context, `**/api/plugins/${plugin.id}/versions`, loseResponse);
    await press(page, 'Publish');
    await page.locator('.publish-faults').getByText('It may have done what you asked for').waitFor();
    await page.getByRole('cell', { name: '1.0.0', exact: true }).waitFor();
    await service.call('DELETE', `/api/plugins/${plugin.id}`);
  },
);

t.test('a button below lists comes with them, and a refusal is shown inside its dialog', async (t) => {
  const { context, page } = opened;
  const held = Promise.withResolvers<void>();
  const endHold = await answerInstead(context, '**/mail?*', (route) => held.promise.then(() => route.continue()));
  await go(page, 'Services');
  const hosts = page.getByText('added no SSH host');
  await hosts.waitFor({ state: 'attached' });
  t.notOk(await hosts.isVisible(), 'a list that loads above it would move it under the pointer');
  held.resolve();
  endHold();
  await press(page, 'Add an SSH host');
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Id').fill('Not an id');
  await dialog.getByLabel('Address').fill('web.example');
  await dialog.getByLabel('User').fill('deploy');
  await pressInDialog(page, 'Add an SSH host');
  await dialog.getByText(/^Id must be 1-64 lower-case letters/).waitFor();
  await dialog.getByLabel('Id').fill('web');
  await pressInDialog(page, 'Add an SSH host');
  await dialog.getByText('Send the private key or the password').waitFor();
  t.equal(await dialog.getByText(/^Id must be/).count(), 0, 'the refusal of the first attempt is gone');
  await dialog.getByLabel('Password').first().fill('secret');
  await pressInDialog(page, 'Add an SSH host');
  await page.getByText('deploy@web.example:22').waitFor();
  if (!isSoak()) return;
  await answerInstead(page.context(), '**/ssh-hosts/web/test', (route) =>
    route.fulfill({ json: { ok: false, hostKey: null, fault: 'No answer' } }),
  );
  await press(page, 'Test web');
  await page.getByRole('alert').getByText('web is tested: No answer').waitFor();
  await press(page, 'Add an SSH host');
  const readFields = () =>
    Promise.all(
      ['Id', 'Address', 'Port', 'User', 'Private key', 'Password'].map((label) =>
        dialog.getByLabel(label).first().inputValue(),
      ),
    );
  t.same(await readFields(), ['', '', '22', '', '', ''], 'the next host starts without the secret of the last one');
  await dialog.getByLabel('Id').fill('web');
  await dialog.getByLabel('Address').fill('web.example');
  await dialog.getByLabel('User').fill('deploy');
  await dialog.getByLabel('Password').first().fill('secret');
  await pressInDialog(page, 'Add an SSH host');
  await dialog.getByRole('alert').getByText('There is an SSH host “web” already.').waitFor();
  t.equal(await page.locator('.mantine-Notification-root', { hasText: 'already' }).count(), 0);
  t.same(await readFields(), ['web', 'web.example', '22', 'deploy', '', 'secret'], 'a refusal keeps what was typed');
  await pressInDialog(page, 'Cancel');

  await go(page, 'Tokens');
  await press(page, 'Allow a service');
  for (const [label, text] of [
    ['Name', 'Helpdesk'],
    ['Issuer', 'https://idp.example'],
    ['Subject', 'service:helpdesk'],
  ] as const)
    await dialog.getByLabel(label).fill(text);
  await dialog.getByLabel('Read sessions, transcripts and tools').check();
  await pressInDialog(page, 'Allow a service');
  await page.getByText('Helpdesk may act for you').waitFor();
  await press(page, 'Allow a service');
  t.equal(await dialog.getByRole('checkbox', { checked: true }).count(), 0, 'the next service starts without scopes');
  t.equal(await dialog.getByLabel('Name').inputValue(), '');
  await pressInDialog(page, 'Cancel');
});

t.test('a page that cannot learn who is signed in shows only that, until the service answers', async (t) => {
  const { context, page } = await openAt('/catalog');
  await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
  const ofProxy = { status: 502, json: { message: 'no healthy upstream' } };
  const endOutage = await answerInstead(context, '**/api/**', (route) => route.fulfill(ofProxy));
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Could not load' }).waitFor();
  await page.getByRole('alert').getByText('The service responded with status 502.').waitFor();
  t.equal(await page.getByText('request id').count(), 0, 'a proxy gives none');
  t.equal(await page.getByRole('navigation').count(), 0, 'no navigation for an account that may not be signed in');
  endOutage();
  await press(page, 'Try again');
  await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
});

soakTest(t, 'a sign-in link whose request gets no response says that it can be opened again', async (t) => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const held = Promise.withResolvers<void>();
  const endOutage = await answerInstead(context, '**/api/sign-in', async (route) => {
    if (route.request().method() !== 'POST') return route.continue();
    await held.promise;
    await route.abort();
  });
  await page.goto(`${service.url}/#code=unknown`);
  await page.getByLabel('Signing in').waitFor();
  held.resolve();
  const alert = page.getByRole('alert');
  await alert.getByText('then open the link again').waitFor();
  t.equal(await alert.getByText('refused').count(), 0);
  endOutage();
  await page.goto(`${service.url}/#code=unknown`);
  await alert.getByText('The sign-in link was used before').waitFor();
  t.equal(await alert.getByText('then open the link again').count(), 0);
  await context.close();
});

soakTest(t, 'a page that was never loaded shows its error until a repeated read succeeds', async (t) => {
  const { context, page, complaints } = await openAt('/catalog');
  await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
  // Not retried, so that each read is one request.
  const refusal = { code: 'bad_request', status: 400, title: 'Bad', detail: 'Out of order.', requestId: 'r' };
  const main = page.getByRole('main');
  const alert = main.getByRole('alert').filter({ hasText: 'Out of order.' });
  for (const [place, address] of [
    ['Storage', '**/api/me/usage'],
    ['Agents', '**/api/agents?*'],
  ] as const) {
    let held = Promise.resolve();
    const endOutage = await answerInstead(context, address, async (route) => {
      await held;
      await route.fulfill({ status: 400, json: refusal });
    });
    await go(page, place);
    await alert.waitFor();
    const { promise, resolve } = Promise.withResolvers<void>();
    held = promise;
    await page.waitForRequest(address);
    t.equal(await alert.count(), 1, `${place}: the error stays during the next read`);
    t.equal(await main.getByLabel('Loading', { exact: true }).count(), 0);
    endOutage();
    resolve();
    await alert.waitFor({ state: 'detached' });
  }
  t.same(complaints, []);
});

t.test('a list stays when its next page cannot be loaded, which can be tried again', async (t) => {
  const { context, page } = opened;
  const refusal = { code: 'rate_limited', status: 429, title: 'Too many', detail: 'Retry after 1 s.', requestId: 'r' };
  const [createdAt, expiresAt] = ['2026-01-01T00:00:00.000Z', '2027-01-01T00:00:00.000Z'];
  const token = { id: 't', name: 'laptop', scopes: null, createdAt, lastUsedAt: null, expiresAt, current: false };
  let isRefused = true;
  await context.route('**/api/me/tokens*', (route) => {
    if (!route.request().url().includes('cursor='))
      return route.fulfill({ json: { items: [token], nextCursor: 'second' } });
    return route.fulfill(isRefused ? { status: 429, json: refusal } : { json: { items: [], nextCursor: null } });
  });
  await go(page, 'Tokens');
  await press(page, 'Show more');
  await page.getByRole('alert').getByText('Retry after 1 s.').waitFor();
  t.ok(await page.getByText('laptop').first().isVisible());
  isRefused = false;
  await press(page, 'Try again');
  await page.getByRole('alert').waitFor({ state: 'detached' });
  t.equal(await page.getByRole('button', { name: 'Show more' }).count(), 0, 'the second page was the last');
});

soakTest(t, 'of two tokens with the same name, buttons and dialog say which one is revoked', async (t) => {
  const { context, page } = opened;
  const expiresAt = '2027-01-01T00:00:00.000Z';
  const old = { id: 'o', name: 'default', scopes: null, createdAt: '2026-01-02T03:04:05.000Z', current: false };
  const tokens = [
    { ...old, lastUsedAt: '2026-01-03T00:00:00.000Z', expiresAt },
    { ...old, id: 'n', scopes: ['account:read'], createdAt: '2026-02-02T03:04:05.000Z', lastUsedAt: null, expiresAt },
  ];
  await context.route('**/api/me/tokens*', (route) => route.fulfill({ json: { items: tokens, nextCursor: null } }));
  await page.goto(`${service.url}/tokens`);
  await press(page, /^Revoke default of Feb 2, 2026/);
  const dialog = page.getByRole('dialog', { name: /^Revoke default of Feb 2, 2026/ });
  const facts = ['default', 'account:read', 'never'];
  for (const fact of facts) await dialog.getByRole('definition').getByText(fact, { exact: true }).waitFor();
  await dialog
    .getByRole('definition')
    .getByText(/^Feb 2, 2026/)
    .waitFor();
  await pressInDialog(page, 'Cancel');

  await page.evaluate("globalThis.submits = 0; addEventListener('submit', () => { submits += 1 }, true)");
  await page.getByRole('button', { name: /^Rename default of Jan 2, 2026/ }).focus();
  await page.keyboard.down('Enter');
  t.ok(await isFocusedOn(page, 'INPUT '));
  await page.keyboard.down('Enter');
  await page.keyboard.up('Enter');
  t.equal(await page.evaluate('submits'), 0, 'a key that is held down does not send the form that it opened');
  tokens.pop();
  await page.evaluate(READ_AGAIN);
  await page.locator('[aria-label="Rename default"]').waitFor();
  const confirm = page.getByRole('dialog').getByRole('button', { name: /^Rename default of Jan 2, 2026/ });
  t.ok(await confirm.isVisible(), 'a shorter name would move the buttons of the open dialog');
  await page.keyboard.type(' of the office');
  const name = page.getByRole('dialog').getByLabel('Name');
  t.equal(await name.inputValue(), 'default of the office', 'the fields work on when the name in the label changes');
});

soakTest(t, 'a dialog that is closed while its action runs shows that when it is opened again', async (t) => {
  await service.asUser('dora').then((dora) => dora.call('GET', '/api/me'));
  const { context, page } = await openAt('/operator?tab=accounts');
  const held = Promise.withResolvers<void>();
  await context.route('**/operator/accounts/dora/suspend', (route) => held.promise.then(() => route.continue()));
  await press(page, 'Suspend dora');
  await page.getByRole('dialog').getByLabel('Reason').fill('Looked at');
  const sent = page.waitForRequest(/dora\/suspend/);
  await pressInDialog(page, 'Suspend dora');
  await sent;
  await pressInDialog(page, 'Cancel');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await press(page, 'Suspend dora');
  const confirm = page.getByRole('dialog').getByRole('button', { name: 'Suspend dora', exact: true });
  t.ok(await confirm.isDisabled(), 'a second click is not ignored silently');
  held.resolve();
  await page.getByText('dora (suspended: Looked at)').waitFor();
  t.equal(await page.getByRole('dialog').count(), 0);
});

soakTest(t, 'the dialog of Uninstall says that there are no agents only when it knows that', async (t) => {
  const { context, page } = opened;
  const { body } = await service.call('GET', '/api/installations');
  const [installation] = body.items;
  const endOutage = await answerInstead(context, '**/api/agents?*', (route) => route.fulfill({ status: 502 }));
  await page.goto(`${service.url}/installations/${installation.id}`);
  await press(page, 'Uninstall');
  const dialog = page.getByRole('dialog');
  await dialog.getByText('its agents, with all their sessions', { exact: true }).waitFor();
  t.equal(await dialog.getByText('it has none), with all their sessions').count(), 0);
  endOutage();
  await pressInDialog(page, 'Cancel');
  await page.reload();
  await press(page, 'Uninstall');
  await dialog.getByText('its agents (it has none), with all their sessions', { exact: true }).waitFor();
  await pressInDialog(page, 'Cancel');
});

/** @returns the address of a channel in the REST interface */
async function findChannelPath(installationId: string, name: string): Promise<string> {
  const path = `/api/installations/${installationId}`;
  const { channels } = (await service.call('GET', path)).body;
  return `${path}/channels/${channels.find((channel: { name: string }) => channel.name === name).id}`;
}

/** Makes the page read what it shows again, as when its user comes back to it after a while. */
const READ_AGAIN = `const { now } = Date;
Date.now = () => now() + 60_000;
dispatchEvent(new Event('visibilitychange'));`;

/** Lists the buttons whose clicks reach the page. */
const LIST_PRESSED = `globalThis.pressed = [];
document.querySelector('#root').addEventListener('click', ({ target }) => pressed.push(target.closest('button')?.innerText));`;

async function focusAndPress(page: Page, name: string | RegExp): Promise<void> {
  await page.getByRole('button', { name, exact: true }).focus();
  await page.keyboard.press('Enter');
}

/** @param start tag name and text of the focused element, or the beginning of that */
async function isFocusedOn(page: Page, start: string): Promise<boolean> {
  const read = () => page.evaluate<string>("document.activeElement.tagName + ' ' + document.activeElement.innerText");
  try {
    return await eventually(async () => (await read()).startsWith(start));
  } catch (error) {
    t.comment(`the focus is on ${await read()}`);
    throw error;
  }
}
