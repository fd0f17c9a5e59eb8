/** The console in a real browser, against the real service. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page, Request } from 'playwright-core';
import t from 'tap';
import { listExamples, readPackage } from '../../examples/demo-packages.ts';
import { SETTING_MAX_CHARS } from '../../sdk/contract/manifest.ts';
import { zipOf } from '../api/package/packages.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
// With --soak, `inspect` looks at every page in every look.
import { amount, isSoak, soakTest } from '../runner/soak.ts';
import { answerInstead, loseResponse, type OpenConsole, openSignedIn, shareBrowser } from './browser.ts';
import { compile } from './compiler.ts';
import { allowUpdate, go, press, pressInDialog, shareConsoleService, uninstallAll } from './console-fixture.ts';
import {
  composeText,
  followToEditor,
  listDraftPaths,
  listErrors,
  makeDraft,
  openEditor,
  openFiles,
  readDraftFile,
  typeKeys,
  waitForSave,
  write,
} from './editor-actions.ts';
import { installationThat, publish, publishFrontDesk } from './front-desk.ts';
import { inspect, inspectVariation } from './pictures.ts';
import { runSessionCases } from './session-cases.ts';
import { wrongPrograms } from './wrong-programs.ts';

const service = await shareConsoleService('local');
const browser = await shareBrowser(t);

let authoring: Promise<OpenConsole> | undefined;
/** The page of the tests of the editor. They share it because an editor and its compiler take a second of processor time to start. */
function openAuthoring(): Promise<OpenConsole> {
  authoring ??= openSignedIn(browser, service);
  return authoring;
}

t.test('what users do with plugins can be done in the console', async (t) => {
  const plugin = await publishFrontDesk(service);
  const { context, page, complaints } = await openSignedIn(browser, service);
  await t.test('find it in the catalog and read what it is', async (t) => {
    await page.getByRole('link', { name: 'Front desk' }).waitFor();
    await inspect(t, page, 'catalog');
    await page.locator('.reach-summary').first().focus();
    await page.getByRole('tooltip').waitFor();
    await page.getByRole('searchbox').fill('xyzzy');
    await page.getByRole('main').getByText('Nothing is found for “xyzzy”').waitFor();
    await inspectVariation(t, page, 'catalog-none');
    await page.getByRole('link', { name: 'Catalog' }).click();
    await page.getByRole('link', { name: 'Front desk' }).waitFor();
    t.equal(await page.getByRole('searchbox').inputValue(), '', 'the field shows what is searched');
    await page.getByRole('searchbox').fill('front');
    await page.getByRole('link', { name: 'Front desk' }).click();
    await page.getByRole('cell', { name: 'good day' }).waitFor();
    t.equal(await page.getByRole('link', { name: 'a trick' }).count(), 0, 'a script is no link');
    t.equal(await page.locator('.readme img, .readme script').count(), 0, 'no picture, no script');
    await inspect(t, page, 'entry');
  });

  await t.test('install it with settings, a secret and consent', async (t) => {
    await page.getByRole('button', { name: 'Install' }).click();
    const dialog = page.getByRole('dialog');
    t.ok(await dialog.getByRole('button', { name: 'Install' }).isDisabled(), 'not without consent');
    const sent: string[] = [];
    const onRequest = (request: Request) => sent.push(request.method());
    page.on('request', onRequest);
    await dialog.locator('form').evaluate('(form) => form.requestSubmit()');
    await dialog.getByLabel('Tone').selectOption('warm');
    await dialog.getByText('By local, community').waitFor();
    await dialog.getByText('Rings the bell', { exact: true }).waitFor();
    await dialog.getByText('it runs only with API key').waitFor();
    await dialog.getByLabel('API key').first().fill('k3y');
    await dialog.getByText('it runs only with').waitFor({ state: 'detached' });
    await page.mouse.click(5, 5);
    t.ok(await dialog.isVisible(), 'a click beside the dialog drops nothing');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Install' }).click();
    t.equal(await dialog.getByLabel('API key').first().inputValue(), 'k3y', 'nor does closing it');
    t.ok(await dialog.getByLabel('Require this plugin').isChecked(), 'suggested for a plugin that can cancel');
    await dialog.getByText('messages and turns that it must check are stopped').waitFor();
    t.notOk(sent.includes('POST'), 'nor by a program that submits the form');
    page.off('request', onRequest);
    t.equal(await dialog.getByLabel('API key').first().getAttribute('autocomplete'), 'new-password');
    await dialog.getByLabel('I allow this plugin').check();
    await inspectVariation(t, page, 'install');
    await dialog.getByRole('button', { name: 'Install' }).click();
    await page.getByRole('tab', { name: 'Overview' }).waitFor();
    const { settings, secretNames, required } = await installationThat(service, ({ status }) => status === 'ready');
    t.same([settings.tone, secretNames, required], ['warm', ['key'], true]);
    await page.getByText('ready', { exact: true }).waitFor();
    await inspect(t, page, 'overview');
  });

  await t.test('see its log lines come, filter them, and see tricks as what they are', async (t) => {
    await page.getByRole('tab', { name: 'Logs' }).click();
    await page.getByText('set up ⟨U+202E⟩gnp.exe ⟨U+001B⟩[31mred').waitFor();
    const { body: session } = await service.session('POST', '/sessions', { agentId: 'ann' });
    const say = (text: string) =>
      service.session('POST', `/sessions/${session.id}/hooks/inboundMessage`, {
        context: { message: { id: text, from: 'bob', text, attachments: [] } },
      });
    await say('good morning');
    await page.getByText('inbound good morning').waitFor();
    await inspect(t, page, 'logs');
    await page.getByLabel('Filter by text').fill('set up');
    await page.getByText('inbound good morning').waitFor({ state: 'detached' });
    await page.getByLabel('Filter by text').fill('');
    await page.getByRole('button', { name: 'Pause the log' }).click();
    await say('second call');
    await page.getByRole('button', { name: 'Resume (1 new)' }).click();
    await page.getByText('inbound second call').waitFor();
    await page.getByRole('button', { name: 'Pause the log' }).click();
    await page.getByLabel('Filter by session id').fill(session.id);
    await page.getByRole('button', { name: 'Pause the log' }).waitFor();
    await page.getByText('set up ⟨U+202E⟩').waitFor({ state: 'detached' });
    await page.getByLabel('Filter by session id').fill('of-no-line');
    await page.getByRole('status').getByText('0 lines', { exact: true }).waitFor({ state: 'attached' });
    await page.getByLabel('Filter by session id').fill('');
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download' }).click(),
    ]);
    t.match(file.suggestedFilename(), /^log-.*\.jsonl$/);
    await page.getByText('error', { exact: true }).first().click();
  });

  await t.test('connect a channel, see what came in, read and replay it', async (t) => {
    await page.getByRole('tab', { name: 'Channels' }).click();
    await page.getByLabel('New channel').fill('Inbox');
    await page.getByRole('button', { name: 'Connect' }).click();
    const address = page.getByLabel('Webhook address for the vendor');
    await address.waitFor();
    const webhookUrl = await address.inputValue();
    await service.call('POST', webhookUrl, { hello: '<script>alert(3)</script>' });
    await page.getByText('delivered', { exact: true }).last().waitFor();
    await inspect(t, page, 'channels');
    await page.getByRole('button', { name: 'Open' }).click();
    await page.getByText('<script>alert(3)</script>').waitFor();
    await inspectVariation(t, page, 'delivery');
    if (isSoak()) {
      await page.getByRole('button', { name: 'Replay', exact: true }).click();
      await page.getByText('It is delivered again').waitFor();
    }
    await page.getByRole('button', { name: 'Close' }).click();
    // Every run has the rest in parity.test.ts.
    if (!isSoak()) return;
    await page.getByRole('button', { name: 'Replace address' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Replace address' }).click();
    await eventually(async () => (await address.inputValue()) !== webhookUrl);
  });

  await t.test('see events and host calls', async (t) => {
    await page.getByRole('tab', { name: 'Events' }).click();
    await page.getByRole('cell', { name: 'pluginInstalled', exact: true }).waitFor();
    await inspect(t, page, 'events');
    await page.getByRole('tab', { name: 'Host calls' }).click();
    await page
      .getByText(/The plugin has made no host call in the last|storage/)
      .first()
      .waitFor();
    await inspectVariation(t, page, 'host-calls');
    await page.getByRole('tab', { name: 'Usage' }).click();
    await page.getByText('The plugin has asked no model yet').waitFor();
    await inspectVariation(t, page, 'usage-none');
    const readStep = async (asked: Promise<Request>) => new URL((await asked).url()).searchParams.get('step');
    const ofHour = page.waitForRequest(/\/metrics\?/);
    await page.getByRole('tab', { name: 'Metrics' }).click();
    t.equal(await readStep(ofHour), '60', 'a point for each minute');
    await page.getByRole('img', { name: /^Latency/ }).waitFor();
    await inspect(t, page, 'metrics');
    // The page also asks for the last hour again every ten seconds.
    const ofDay = page.waitForRequest(/\/metrics\?.*step=(?!60\b)/);
    await page.getByLabel('Period').selectOption('The last day');
    t.equal(await readStep(ofDay), '1440', 'as many points of a day');
  });

  await t.test('decide on an update that asks for more, and go back', async (t) => {
    const secret = ', door: { label: Door code, required: true }';
    const compared = page.waitForRequest(/\/update-changes/);
    const asked = await publish(service, plugin, '1.1.0', 'host.storage, host.llm', {
      bell: 'Rings the bell twice',
      secret,
    });
    await page.getByRole('tab', { name: 'Overview' }).click();
    t.equal(new URL((await compared).url()).searchParams.get('versionId'), asked, 'no other version may be compared');
    await page.getByText('1.1.0 asks for more access').waitFor();
    await page.getByText('tool bell', { exact: true }).waitFor();
    await page.getByText('+ Rings the bell twice').waitFor();
    await page.getByText('readme.md', { exact: true }).click();
    await page.getByText('+ capabilities: [host.storage, host.llm]').waitFor();
    await inspect(t, page, 'consent');
    await page.getByRole('button', { name: 'Not this version' }).click();
    await page.getByText('you have declined it').waitFor();
    await page.reload();
    await page.getByText('you have declined it').waitFor();
    await inspectVariation(t, page, 'declined');
    await page.getByRole('button', { name: 'Look at it again' }).click();
    await page.getByRole('link', { name: 'Installations 1 update waits' }).waitFor();
    const door = page.getByLabel('Door code').first();
    await door.fill('4711');
    if (isSoak()) {
      await page.getByRole('link', { name: 'In the catalog' }).click();
      await page.getByRole('dialog').getByText('What you typed for the update is not saved').waitFor();
      await page.getByRole('button', { name: 'Stay' }).click();
      await page.getByRole('button', { name: 'Not this version' }).click();
      await page.getByRole('button', { name: 'Look at it again' }).click();
      t.equal(await door.inputValue(), '4711', 'what was typed stays');
    }
    const update = page.getByRole('button', { name: /^Update to/ });
    t.ok(await update.isDisabled(), 'not without consent');
    let accepted = 0;
    page.on('request', (request) => {
      if (request.url().endsWith('/accept-update')) accepted += 1;
    });
    await door.press('Enter');
    await page.getByRole('checkbox', { name: 'I allow this plugin' }).check();
    await update.focus();
    await publish(service, plugin, '1.1.1', 'host.storage, host.llm', { bell: 'Rings the bell twice', secret });
    await page.getByRole('alert', { name: '1.1.1 took the place of 1.1.0' }).waitFor();
    await page.locator('h2:focus', { hasText: '1.1.1 asks for more access' }).waitFor();
    await page.keyboard.press('Enter');
    t.equal(await update.count(), 0, 'a key press that was meant for 1.1.0 reaches nothing');
    await inspectVariation(t, page, 'consent-replaced');
    await press(page, 'Review 1.1.1');
    await page.getByText('1.1.1 took the place of the version for which you entered secrets').waitFor();
    t.equal(await door.inputValue(), '', 'a secret is not given to a version that the user has not seen');
    t.ok(await update.isDisabled(), 'nor is the consent');
    await door.fill('4711');
    await allowUpdate(page, '1.1.1');
    const updated = await installationThat(service, ({ currentSemVer }) => currentSemVer === '1.1.1');
    t.same(updated.secretNames, ['door', 'key']);
    t.equal(accepted, 1, 'Enter in a field accepts nothing');
    await page.getByText('1.1.1 asks for more access').waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'In the catalog' }).click();
    await page.waitForURL('**/catalog/front-desk');
    t.equal(await page.getByRole('dialog').count(), 0, 'nothing is unsaved then');
    await page.goBack();
    await page.getByLabel('Runs').selectOption({ label: 'Only 1.0.0' });
    await page.getByRole('button', { name: 'Save' }).click();
    const back = await installationThat(service, ({ currentSemVer }) => currentSemVer === '1.0.0');
    t.equal(back.versionPolicy, 'Pinned');
  });

  await t.test('try it in the playground: a message, a veto, a prompt, a tool', async (t) => {
    await page.getByRole('link', { name: 'Playground' }).click();
    await page.getByRole('button', { name: 'Open a session' }).click();
    let sent = 0;
    page.on('request', (request) => {
      if (request.url().endsWith('/hooks/inboundMessage') && request.method() === 'POST') sent += 1;
    });
    const message = page.getByRole('textbox', { name: 'Message', exact: true });
    await message.fill('hello');
    // As Safari does when Enter ends the composition of a character.
    await message.dispatchEvent('keydown', { key: 'Enter', keyCode: 229 });
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('hello (warm)', { exact: true }).waitFor();
    t.equal(sent, 1, 'the Enter of a composition sends nothing');
    await page.getByText('changed', { exact: true }).waitFor();
    await page.getByRole('textbox', { name: 'Message', exact: true }).fill('a forbidden thing');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('front-desk cancelled the operation', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Run the hook' }).click();
    await page.getByText('No running plugin has this hook').waitFor();
    await page.getByRole('button', { name: 'Call the tool' }).click();
    await page.getByText('"ding"').waitFor();
    await inspect(t, page, 'session');
    t.equal(await page.getByRole('textbox', { name: 'Message', exact: true }).inputValue(), '', 'a sent text is gone');
    const { promise: cancelled, resolve: release } = Promise.withResolvers<void>();
    const endDelay = await answerInstead(context, '**/tools/*', (route) => cancelled.then(() => route.abort()));
    await page.getByRole('button', { name: 'Call the tool' }).click();
    await page.getByRole('timer').waitFor();
    await press(page, 'Cancel');
    await page.getByText('You have cancelled it.').waitFor();
    release();
    endDelay();
    await page.getByLabel('Arguments').fill('{');
    await page.getByRole('button', { name: 'Call the tool' }).click();
    await page.locator('form').getByText('The arguments are not valid JSON.').waitFor();
    await press(page, 'Clear');
    await page.getByRole('dialog').getByText('2 messages are removed permanently').waitFor();
    await pressInDialog(page, 'Clear');
    await page.getByText('There are no messages yet').waitFor();
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page
      .getByText('There is no session yet')
      .or(page.getByText('ann', { exact: true }))
      .first()
      .waitFor();
    await inspect(t, page, 'playground');
    await page.getByRole('link', { name: 'Installations' }).click();
    await page.getByRole('link', { name: 'Front desk' }).click();
  });

  const backToDesk = async () => {
    await page.getByRole('link', { name: 'Installations' }).click();
    await page.getByRole('link', { name: 'Front desk' }).click();
  };

  await t.test('services: what is to be done, what is due, and hosts, with the keyboard', async (t) => {
    await page.getByRole('link', { name: 'Services', exact: true }).click();
    for (const empty of [
      'There are no open to-dos',
      'No reminder is scheduled',
      'No agent has written',
      'added no SSH host',
    ])
      await page.getByText(empty).waitFor();
    await inspectVariation(t, page, 'services-none');
    const ask = async (path: string, body: object) => {
      const answer = await fetch(`http://localhost:${service.env.SUPERVISOR_PORT}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${service.token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ trigger: 'user', ...body }),
      });
      const made = (await answer.json()) as { id: string };
      t.ok(answer.ok, JSON.stringify(made));
      return made;
    };
    const start = (agentId: string) => ask('/sessions', { agentId, trigger: undefined });
    const [baker] = [await start('baker'), await start('planner')];
    const path = `/sessions/${baker.id}`;
    await ask(`${path}/todos`, { title: 'Buy flour', notes: 'Rye', dueAt: '2099-01-05T06:00:00Z' });
    await ask(`${path}/notifications`, {
      text: 'Turn the oven on',
      at: '2099-01-05T06:00:00Z',
      repeat: 'FREQ=DAILY',
      zone: 'Europe/Berlin',
    });
    await ask(`${path}/mail`, { toAgentId: 'planner', text: 'The bread is done.' });
    await page.getByText('The bread is done.').waitFor();
    await page.getByText('FREQ=DAILY (Europe/Berlin)').waitFor();
    await press(page, 'Add an SSH host');
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Id').fill('web');
    await dialog.getByLabel('Address').fill('web.invalid');
    await dialog.getByLabel('User').fill('deploy');
    await dialog.getByLabel('Password').first().fill('never shown again');
    await inspectVariation(t, page, 'ssh-host');
    await pressInDialog(page, 'Add an SSH host');
    await page.getByText('deploy@web.invalid:22').waitFor();
    await page.getByRole('button', { name: 'Test web' }).click();
    await page
      .getByText(/web\.invalid (has no address|could not be looked up)/)
      .first()
      .waitFor();
    await inspect(t, page, 'services');
    t.notMatch(await page.content(), /never shown again/);
    await page.getByRole('button', { name: 'Complete Buy flour' }).focus();
    await page.keyboard.press('Enter');
    await page.getByText('There are no open to-dos').waitFor();
    const { promise: isChecked, resolve: answer } = Promise.withResolvers<void>();
    await page.route(/\/todos\?done=true/, (route) => isChecked.then(() => route.continue()));
    const asked = page.waitForRequest(/\/todos\?done=true/);
    await page.getByLabel('Show to-dos that are').selectOption('done');
    await asked;
    t.ok(await page.getByRole('button', { name: 'Remove web' }).isVisible(), 'while others load, what is below stays');
    answer();
    await page.getByRole('button', { name: 'Delete Buy flour' }).waitFor();
    if (isSoak()) {
      t.equal(await page.getByRole('button', { name: 'Complete Buy flour' }).count(), 0);
      await press(page, 'Delete Buy flour');
      await pressInDialog(page, 'Delete Buy flour');
      await page.getByText('No to-do is done').waitFor();
      await page.getByRole('button', { name: 'Cancel Turn the oven on' }).focus();
      await page.keyboard.press('Enter');
      await pressInDialog(page, 'Cancel Turn the oven on');
      await page.getByText('No reminder is scheduled').waitFor();
    }
    // A notice may lie over the button, and stays as long as a pointer is over it.
    await page.getByRole('button', { name: 'Remove web' }).focus();
    await page.keyboard.press('Enter');
    await pressInDialog(page, 'Remove web');
    await page.getByText('added no SSH host').waitFor();
    await backToDesk();
  });

  await t.test('change settings, pause, resume and uninstall', async (t) => {
    await page.getByRole('tab', { name: 'Settings' }).click();
    await page.getByLabel('Signature').fill('x'.repeat(SETTING_MAX_CHARS + 1));
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('form').getByText(`Signature must be at most ${SETTING_MAX_CHARS} characters.`).waitFor();
    await inspectVariation(t, page, 'settings-refused');
    t.ok(await page.getByLabel('Signature').evaluate(isFocused), 'the refused field has the focus');
    t.equal(await page.locator('.mantine-Notification-root', { hasText: 'Signature' }).count(), 0);
    await page.getByLabel('Signature').fill('The desk');
    await inspect(t, page, 'settings');
    if (isSoak()) {
      const { id } = await installationThat(service, () => true);
      // As another browser does meanwhile.
      const elsewhere = { settings: { tone: 'plain' } };
      await service.call('POST', `/api/installations/${id}/configure`, elsewhere);
      await page.getByRole('tab', { name: 'Overview' }).click();
      await page.getByRole('link', { name: 'Catalog', exact: true }).click();
      await page.getByRole('dialog').getByText('What you typed in the settings is not saved').waitFor();
      await page.getByRole('button', { name: 'Stay' }).click();
      await page.getByRole('tab', { name: 'Settings' }).click();
      t.equal(await page.getByLabel('Signature').inputValue(), 'The desk', 'what was typed stays');
    }
    await page.getByRole('button', { name: 'Save' }).click();
    const saved = await installationThat(service, ({ settings }) => settings.sign === 'The desk');
    if (isSoak()) t.equal(saved.settings.tone, 'plain', 'what another browser saved stays');
    await page.getByRole('tab', { name: 'Overview' }).click();
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('dialog').getByText('messages and turns continue without its checks').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Uninstall' }).click();
    await page.getByRole('dialog').getByText('its checks, which you require').waitFor();
    await pressInDialog(page, 'Cancel');
    // Not `uncheck`, which looks at once: the box changes when the service has answered.
    await page.getByLabel('Require this plugin').click();
    await page.getByRole('dialog').getByText('continue without its checks').waitFor();
    await pressInDialog(page, 'Stop requiring it');
    await installationThat(service, ({ required }) => !required);
    // While the page shows it as required, a pause asks for confirmation.
    await page.getByRole('checkbox', { name: 'Require this plugin', checked: false }).waitFor();
    if (isSoak()) {
      await page.getByRole('button', { name: 'Run setup again' }).click();
      await page.getByText('notified to set itself up again').waitFor();
      await page.getByRole('button', { name: 'Pause' }).click();
      await page.getByRole('button', { name: 'Resume' }).click();
      await page.getByRole('button', { name: 'Pause' }).waitFor();
    }
    await page.getByRole('link', { name: 'Installations' }).click();
    await page.getByRole('link', { name: 'Front desk' }).waitFor();
    await inspect(t, page, 'installations');
    await page.getByRole('link', { name: 'Front desk' }).click();
    await page.getByRole('button', { name: 'Uninstall' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('its secrets: door, key').waitFor();
    await inspectVariation(t, page, 'uninstall');
    await dialog.getByRole('button', { name: 'Uninstall' }).click();
    await page.getByText('Nothing is installed yet').waitFor();
    await inspectVariation(t, page, 'installations-none');
    t.same((await service.call('GET', '/api/installations')).body.items, []);
  });

  await t.test('allow what the chosen version asks for, not what the newest does', async () => {
    await page.getByRole('link', { name: 'Catalog', exact: true }).click();
    await page.getByRole('link', { name: 'Front desk' }).click();
    await page.getByRole('button', { name: 'Install' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('host.llm', { exact: true }).waitFor();
    await dialog.getByLabel('I allow this plugin').check();
    await dialog.getByLabel('Versions').selectOption({ label: 'Stay on 1.0.0' });
    await dialog.getByText('host.llm', { exact: true }).waitFor({ state: 'detached' });
    await dialog.getByText('host.storage', { exact: true }).waitFor();
    t.notOk(await dialog.getByLabel('I allow this plugin').isChecked(), 'what was allowed was the other one');
    // The next case goes on in this dialog.
    if (!isSoak()) await pressInDialog(page, 'Cancel');
  });

  await soakTest(t, 'a chosen version that is yanked counts as not chosen', async (t) => {
    const yank = async (semVer: string) => {
      const { versions } = (await service.call('GET', '/api/marketplace/front-desk')).body;
      const found = versions.find((version: { semVer: string }) => version.semVer === semVer);
      t.equal((await service.call('POST', `/api/plugins/${plugin}/versions/${found.versionId}/yank`)).status, 200);
    };
    const dialog = page.getByRole('dialog');
    const consent = dialog.getByLabel('I allow this plugin');
    await consent.check();
    await publish(service, plugin, '1.2.0', 'host.storage, host.llm');
    await yank('1.0.0');
    await dialog.getByRole('button', { name: 'Install' }).click();
    await dialog.getByText('1.0.0 is no longer offered').waitFor();
    t.equal(await dialog.getByLabel('Versions').inputValue(), '', 'the newest version is offered');
    await dialog.getByText('host.llm', { exact: true }).waitFor();
    t.notOk(await consent.isChecked(), 'it has not been allowed');
    await inspectVariation(t, page, 'install-version-lost');
    await consent.check();
    await dialog.getByText('no longer offered').waitFor({ state: 'detached' });
    await dialog.getByRole('button', { name: 'Install' }).click();
    await page.getByLabel('Runs').waitFor();
    const { id, versionPolicy, currentSemVer } = await installationThat(service, ({ slug }) => slug === 'front-desk');
    t.same([versionPolicy, currentSemVer], ['Latest', '1.2.0'], 'what was shown is installed');

    await page.getByLabel('Runs').selectOption({ label: 'Only 1.1.0' });
    await yank('1.1.0');
    const save = page.getByRole('button', { name: 'Save', exact: true }).first();
    await save.click();
    await page.getByText('was yanked and cannot be pinned').waitFor();
    await page.getByRole('option', { name: 'Only 1.1.0' }).waitFor({ state: 'detached' });
    t.equal(await page.getByLabel('Runs').inputValue(), 'Latest', 'the policy that is in force');
    t.ok(await save.isDisabled());
    await service.call('DELETE', `/api/installations/${id}`);
    await page.getByRole('link', { name: 'Catalog', exact: true }).click();
  });

  await t.test('make a plugin, publish its folder, fix what is wrong, list and delist it', async (t) => {
    const folder = join(await temporaryFolder(t), 'night-desk');
    await mkdir(folder);
    const write = (index: string) =>
      Promise.all([
        writeFile(join(folder, 'readme.md'), '---\nname: Night desk\ndescription: Says good night\n---\nGood night.\n'),
        writeFile(join(folder, 'index.ts'), index),
      ]);
    await page.getByRole('link', { name: 'My plugins' }).click();
    await page.getByLabel('Name').fill('Night desk');
    await page.getByLabel('Slug').fill('night-desk');
    await inspect(t, page, 'my-plugins');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('textbox', { name: 'Version', exact: true }).waitFor();
    const area = page.getByRole('region', { name: 'Package' });
    t.equal(await area.evaluate((box) => getComputedStyle(box).borderTopStyle), 'dashed', 'users see where to drop it');
    let choices = 0;
    const chooseFolder = async () => {
      choices += 1;
      // The page still shows the files that were chosen before, until it has read these.
      await writeFile(join(folder, `note-${choices}.md`), 'A note.\n');
      await page.locator('input[webkitdirectory]').setInputFiles(folder);
      await area.getByText(`note-${choices}.md`).waitFor();
    };
    const publishFolder = async (semVer: string) => {
      await chooseFolder();
      await page.getByRole('textbox', { name: 'Version', exact: true }).fill(semVer);
      await page.getByRole('button', { name: 'Publish' }).click();
    };
    await write('middleware.systemPrompt = (ctx) => {\n  return ctx.systemPrompt +;\n};\n');
    await publishFolder('1.0.0');
    await page.getByText(/^index\.ts:2:\d+$/).waitFor();
    await inspectVariation(t, page, 'faults');
    await write('middleware.systemPrompt = (ctx) => ctx.systemPrompt + " Good night.";\n');
    await publishFolder('1.0.0');
    await page.getByText('1.0.0 is published.').waitFor();
    await area.getByText('Drop the plugin’s folder').waitFor();
    await page.getByRole('button', { name: 'Publish' }).click();
    await page.getByRole('alert').getByText('No package is chosen').waitFor();
    t.equal(
      await page.getByRole('cell', { name: '1.0.1' }).count(),
      0,
      'files that were read before are not published',
    );
    await page.getByRole('cell', { name: '1.0.0', exact: true }).waitFor();
    await page.getByRole('button', { name: 'List in the catalog' }).click();
    await page.getByRole('button', { name: 'Take out of the catalog' }).waitFor();
    await inspect(t, page, 'plugin');
    // Of the rest, every run has the main path in parity.test.ts.
    if (!isSoak()) return;
    await chooseFolder();
    await page.getByRole('button', { name: 'Save as draft' }).click();
    await page.getByText('The draft is saved.').waitFor();
    await area.getByText('Drop the plugin’s folder').waitFor();
    await chooseFolder();
    await page.getByRole('button', { name: 'Save as draft' }).click();
    await page.getByText('The draft is saved.').waitFor();
    await area.getByText('Drop the plugin’s folder').waitFor();
    // As after a later visit: the page does not know this draft.
    await page.reload();
    await chooseFolder();
    await page.getByRole('button', { name: 'Save as draft' }).click();
    const conflict = page.getByRole('alert').getByText('The plugin has a draft that was saved');
    await conflict.waitFor();
    const id = new URL(page.url()).pathname.split('/').at(-1) ?? '';
    t.notOk((await listDraftPaths(service, id)).includes(`note-${choices}.md`), 'the draft is as it was');
    await inspectVariation(t, page, 'draft-conflict');
    await press(page, 'Replace it with these files');
    await page.getByText('The draft is saved.').waitFor();
    t.ok((await listDraftPaths(service, id)).includes(`note-${choices}.md`));
    await area.getByText('Drop the plugin’s folder').waitFor();
    await page.getByRole('button', { name: 'Files' }).click();
    await page.getByRole('dialog').getByText('Good night').waitFor();
    await page.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('button', { name: 'Take out of the catalog' }).click();
    await page.getByLabel('Message to its users').fill('Use the front desk.');
    await page.getByRole('dialog').getByRole('button', { name: 'Take out of the catalog' }).click();
    await page.getByText('delisted', { exact: true }).waitFor();
    t.equal(await page.getByRole('button', { name: 'Delete' }).count(), 0, 'a published plugin cannot be deleted');
    await page.getByText('To yank this one, publish another first').waitFor();
  });

  await t.test('go to the documentation and back', async (t) => {
    await page.getByRole('link', { name: 'Documentation' }).click();
    await page.getByRole('heading', { name: 'Bulkhead documentation' }).waitFor();
    await page.getByRole('link', { name: 'REST interface' }).first().click();
    await page.waitForURL(/\/api\/docs$/);
    await page.locator('a[href="/docs"]').click();
    await page.getByRole('link', { name: 'Console' }).click();
    await page.getByRole('link', { name: 'Installations' }).waitFor();
    t.equal(new URL(page.url()).pathname, '/catalog');
  });

  t.same(complaints, [], 'the browser complains about nothing');
  await context.close();
});

t.test('a plugin is written, fixed and tried without leaving the page', async (t) => {
  // Its tool is listed before those of the draft.
  await installBell();
  const { body: plugin } = await service.call('POST', '/api/plugins', { slug: 'greeter', displayName: 'Greeter' });
  const { context, page, complaints } = await openAuthoring();
  // By its address: a click while the console still opens could be lost.
  await page.goto(`${service.url}/plugins/${plugin.id}`);
  await page.getByRole('link', { name: 'Edit files' }).click();
  await page.locator('.monaco-editor').getByText('middleware').first().waitFor();

  await t.test('what the SDK does not have is marked; what it has is offered and explained', async () => {
    await write(
      page,
      'const today: Temporal.PlainDate = Temporal.Now.plainDateISO();\nmiddleware.systemPrompt = (ctx) => ctx.systemPromt + today;',
    );
    // One mark, though the editor's compiler does not know Temporal; another would make this fail.
    await page.locator('.squiggly-error').waitFor();
    await isOffered(page, 'host.', /^log/);
    await page.keyboard.press('Escape');
    await write(page, 'middleware.systemPrompt = (ctx) => ctx.systemPrompt;');
    await nothingIsRed(page);
    await page.locator('.view-line').getByText('systemPrompt').first().hover();
    await page.locator('.monaco-hover').getByText('systemPrompt').first().waitFor();
    await page.mouse.move(0, 0);
  });

  await t.test('what the service refuses is marked at its line, and a click goes there', async (t) => {
    await write(page, "host.log('one');\nimport('x');\n");
    await page.keyboard.press('Control+s');
    const fault = page.getByRole('alert').getByRole('button', { name: /^index\.ts:2/ });
    await fault.waitFor();
    await page.locator('.squiggly-error').first().waitFor();
    await inspectVariation(t, page, 'editor-faults');
    await page.getByLabel('File', { exact: true }).selectOption('readme.md');
    await fault.click();
    const list = page.getByLabel('File', { exact: true });
    t.equal(await list.inputValue(), 'index.ts');
    await page.locator('.monaco-editor.focused').waitFor();
    await list.focus();
    for (const [path, text] of [
      ['readme.md', 'description'],
      ['index.ts', 'host.log'],
    ] as const) {
      await list.selectOption(path);
      await page.locator('.view-line').getByText(text).first().waitFor();
    }
    t.ok(await list.evaluate(isFocused), 'choosing a file leaves the focus in the list');
    await write(page, "host.log('one');\nprocesss.env;\n");
    // The refusal of this line no longer hides the compiler's error.
    await page.getByRole('region', { name: '1 compiler error' }).getByText('processs').waitFor();
    await page.getByText('The files have changed since').waitFor();
  });

  await soakTest(t, 'an import finds a JSON file that is added after it', async () => {
    await write(page, "import list from './list.json';\nhost.log(list.name);\n");
    await listErrors(page, 1);
    await page.getByLabel('New file').fill('list.json');
    await page.keyboard.press('Enter');
    await page.getByLabel('New file').and(page.locator('[value=""]')).waitFor();
    await page.keyboard.insertText('{ "name": "one" }\n');
    await page.locator('.view-line').getByText('name').first().waitFor();
    await nothingIsRed(page);
    await press(page, 'Remove');
    await pressInDialog(page, 'Remove');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await listErrors(page, 1);
  });

  await t.test('files are added and removed, import each other, and all are saved as the draft', async (t) => {
    await write(page, ' ');
    await page.keyboard.press('Backspace');
    const added = page.getByLabel('New file');
    for (const [name, fault] of [
      ['../evil.ts', 'The path holds “..”, which leaves the package.'],
      ['INDEX.TS', 'The path is the same as “index.ts” where letter case does not count.'],
    ] as const) {
      await added.fill(name);
      await page.keyboard.press('Enter');
      await page.getByText(fault).waitFor();
    }
    for (const name of ['extra.ts', 'words.ts']) {
      await added.fill(name);
      await page.keyboard.press('Enter');
      await added.and(page.locator('[value=""]')).waitFor();
      // The focus has moved into the new file.
      await page.keyboard.insertText("export const words = 'Be brief.';\n");
      await page.locator('.view-line').getByText('words').first().waitFor();
    }
    await page.getByLabel('File', { exact: true }).selectOption('extra.ts');
    await press(page, 'Remove');
    await pressInDialog(page, 'Remove');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    t.equal(await page.getByLabel('File', { exact: true }).inputValue(), 'index.ts');
    t.ok(
      await page.getByRole('button', { name: 'Remove', exact: true }).isDisabled(),
      'a file that every package needs cannot be removed, though it is empty',
    );
    await write(page, PLUGIN);
    await page.getByRole('button', { name: 'Save as draft' }).click();
    await page.getByText('The draft is saved.').waitFor();
    await nothingIsRed(page);
    await page.locator('.monaco-editor .view-lines').first().click();
    for (const key of ['Control+Home', 'ArrowDown', 'End', 'ArrowLeft', 'F12']) await page.keyboard.press(key);
    await page.locator('.view-line').getByText('Be brief').first().waitFor();
    t.equal(
      await page.getByLabel('File', { exact: true }).inputValue(),
      'words.ts',
      'F12 opens where a name is defined',
    );
    await page.getByLabel('File', { exact: true }).selectOption('index.ts');
    const { body } = await service.call('GET', `/api/plugins/${plugin.id}/versions/draft/files`);
    const saved = body.items.map((file: { path: string }) => file.path);
    t.same(saved.toSorted(), ['index.ts', 'readme.md', 'words.ts']);
  });

  await t.test(
    'the draft runs in a session beside it: a hook, a tool, the trace; and so does the next save',
    async (t) => {
      const opening = page.waitForResponse((one) => /\/sessions$/.test(one.url()) && one.request().method() === 'POST');
      await page.getByRole('button', { name: 'Try it' }).click();
      t.equal((await (await opening).json()).key, `editor:${plugin.id}`, 'the next visit finds the same session');
      await page.getByRole('button', { name: 'Run the hook' }).click();
      await page
        .getByText(/You are a helpful agent\. Be brief\./)
        .last()
        .waitFor();
      await page.getByRole('table', { name: 'Links of the chain' }).getByText('changed').waitFor();
      await untilCalled(page, '"good day"');
      await inspect(t, page, 'editor');
      const tool = page.getByLabel('Tool', { exact: true });
      t.same(await tool.locator('option').allInnerTexts(), ['greeter__greet'], 'no tool of another plugin');
      const needs = (name: string) => `parameters: { type: 'object', required: ['${name}'] }`;
      for (const name of amount({ quick: [], soak: ['city', 'town'] })) {
        await write(page, PLUGIN.replace("parameters: { type: 'object' }", needs(name)));
        await page.keyboard.press('Control+s');
        await eventually(async () => (await page.getByLabel('Arguments').inputValue()).includes(name));
      }
      await write(page, PLUGIN.replace('good day', 'good night'));
      await page.keyboard.press('Control+s');
      await page.getByText('The draft is saved.').waitFor();
      await untilCalled(page, '"good night"');
      const { id } = await installationThat(service, ({ versionPolicy }) => versionPolicy === 'Draft');
      const back = page.getByRole('link', { name: 'choose a version' });
      t.equal(await back.getAttribute('href'), `/installations/${id}`, 'what it runs is chosen there');
    },
  );

  await soakTest(t, 'a draft whose response was lost is replaced by the next save', async (t) => {
    const endLoss = await answerInstead(context, `**/api/plugins/${plugin.id}/draft`, loseResponse);
    await write(page, `${PLUGIN}// lost`);
    await page.keyboard.press('Control+s');
    await page.getByRole('alert').getByText('It may have done what you asked for').waitFor();
    endLoss();
    t.match(await readDraftFile(service, plugin.id, 'index.ts'), /\/\/ lost$/);
    await write(page, `${PLUGIN}// next`);
    await page.keyboard.press('Control+s');
    await page.getByText('The draft is saved.').waitFor();
    t.match(await readDraftFile(service, plugin.id, 'index.ts'), /\/\/ next$/);
  });

  await t.test('a draft that was saved elsewhere is replaced only after a question', async (t) => {
    const readFiles = async (): Promise<readonly { path: string; contentText: string }[]> =>
      (await service.call('GET', `/api/plugins/${plugin.id}/versions/draft/files`)).body.items;
    const files = (await readFiles()).map(({ path, contentText }) => ({ path, contentText }));
    const elsewhere = [...files, { path: 'elsewhere.md', contentText: 'Hello.' }];
    await service.call('POST', `/api/plugins/${plugin.id}/draft`, { files: elsewhere });
    await write(page, `${PLUGIN}// here`);
    await page.keyboard.press('Control+s');
    await page.getByRole('alert').getByText('The draft was saved elsewhere').waitFor();
    t.equal((await readFiles()).length, elsewhere.length, 'nothing was lost');
    await page.getByRole('button', { name: 'Replace it with these files' }).click();
    await page.getByText('The draft is saved.').waitFor();
    t.equal((await readFiles()).length, files.length);
    if (!isSoak()) return;
    await write(page, `${PLUGIN}// here again`);
    await page.getByLabel('File', { exact: true }).focus();
    await page.keyboard.press('Control+s');
    await eventually(async () => (await readFiles()).some(({ contentText }) => contentText.endsWith('// here again')));
    // The next change must not meet a save that the page still waits for.
    await page.getByText('The draft is saved.').waitFor();
  });

  await t.test('the keyboard leaves the editor, and leaving unsaved text asks first', async (t) => {
    await write(page, `${PLUGIN}// more`);
    await page.keyboard.press('Escape');
    t.ok(await page.getByRole('textbox', { name: 'Version', exact: true }).evaluate(isFocused), 'Escape leaves it');
    await page.getByRole('link', { name: 'Catalog' }).click();
    await page.getByRole('dialog').getByText('Unsaved changes').waitFor();
    await page.getByRole('dialog').getByText('This browser keeps them').waitFor();
    await page.getByRole('button', { name: 'Stay' }).click();
    if (isSoak()) {
      await page.evaluate(FILL_BROWSER);
      await write(page, `${PLUGIN}// ${'more than there is room for '.repeat(4)}`);
      await page.locator('.view-line').getByText('more than there is room for').first().waitFor();
      await page.getByRole('link', { name: 'Catalog' }).click();
      await page.getByRole('dialog').getByText('they are lost if you leave').waitFor();
      t.equal(await page.getByRole('dialog').getByText('This browser keeps them').count(), 0);
      await page.getByRole('button', { name: 'Stay' }).click();
      await page.evaluate(EMPTY_BROWSER);
    }
    // Published is saved, too.
    await page.getByRole('button', { name: 'Publish' }).click();
    await page.getByText('is published').waitFor();
    await page.getByRole('link', { name: 'Catalog' }).click();
    await page.getByRole('heading', { level: 1, name: 'Catalog' }).waitFor();
  });

  t.same(complaints, [], 'the browser complains about nothing, its policy included');
});

soakTest(t, 'the editor opens packages of several pages completely', async (t) => {
  const { page, complaints } = await openAuthoring();
  const long = (path: string) => ({ path, contentText: 'A line of text.\n'.repeat(50_000) });
  const readme = { path: 'readme.md', contentText: '---\nname: Pages\ndescription: Has several\n---\n' };
  const files = [readme, INDEX, ...['a', 'b', 'c', 'd'].map((name) => long(`assets/${name}.txt`))];
  const paths = files.map(({ path }) => path).toSorted();
  const { body: plugin } = await service.call('POST', '/api/plugins', { slug: 'pages', displayName: 'Pages' });
  const published = await service.call('POST', `/api/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files });
  t.equal(published.status, 201);

  await t.test('a draft of a published version has all of its files', async (t) => {
    await followToEditor(page, plugin.id);
    await write(page, `${INDEX.contentText}// changed\n`);
    const reads: string[] = [];
    page.on('request', (request) => {
      if (request.url().includes('/files?')) reads.push(request.url());
    });
    await page.getByRole('button', { name: 'Save as draft' }).click();
    await page.getByText('The draft is saved.').waitFor();
    t.same(reads, [], 'an action does not read the files again, which the editor has');
    t.same(await listDraftPaths(service, plugin.id), paths);
  });

  await t.test('a draft that another tab saves between two pages is read again', async (t) => {
    const kept = files.filter(({ path }) => path !== 'assets/a.txt');
    let saves = 0;
    await page.route(/versions\/draft\/files\?.*cursor=/, async (route) => {
      if (saves === 0) await service.call('POST', `/api/plugins/${plugin.id}/draft`, { files: kept });
      saves += 1;
      await route.continue();
    });
    await followToEditor(page, plugin.id);
    const options = page.getByLabel('File', { exact: true }).locator('option');
    t.same((await options.allInnerTexts()).toSorted(), kept.map(({ path }) => path).toSorted());
    t.ok(saves > 1);
  });
  t.equal(complaints.filter((line) => !line.includes('400')).length, 0);
});

soakTest(t, 'the editor says which draft or version it has loaded, and loads another', async (t) => {
  const { page, complaints } = await openAuthoring();
  const { body: plugin } = await service.call('POST', '/api/plugins', { slug: 'sources', displayName: 'Sources' });
  const readme = { path: 'readme.md', contentText: '---\nname: Sources\ndescription: Has several\n---\n' };
  const compose = (mark: string) => [
    readme,
    { ...INDEX, contentText: `const mark = '${mark}';\n${INDEX.contentText}` },
  ];
  const publishFiles = async (semVer: string, files: readonly object[]) => {
    const { status } = await service.call('POST', `/api/plugins/${plugin.id}/versions`, { semVer, files });
    t.equal(status, 201);
  };
  const number = page.getByRole('textbox', { name: 'Version', exact: true });
  const shows = (mark: string) => page.locator('.view-line').getByText(mark).first().waitFor();

  await soakTest(t, 'beside a pre-release, the stable version from which the number is proposed', async (t) => {
    await publishFiles('1.0.0', compose('stable one'));
    await publishFiles('2.0.0-beta.1', compose('beta one'));
    await followToEditor(page, plugin.id);
    await page.getByText(/^From 1\.0\.0, published/).waitFor();
    await shows('stable one');
    t.equal(await number.inputValue(), '1.0.1');
    await press(page, 'Load other files');
    const choice = page.getByLabel('Draft or version');
    const proposed = await choice.inputValue();
    // In another tab.
    await service.call('POST', `/api/plugins/${plugin.id}/draft`, { files: compose('draft of another tab') });
    await choice.locator('option', { hasText: 'The draft' }).waitFor({ state: 'attached' });
    t.equal(await choice.inputValue(), proposed, 'what the open dialog proposes stays');
    await choice.selectOption('2.0.0-beta.1');
    await pressInDialog(page, 'Load other files');
    await page.getByText(/^From 2\.0\.0-beta\.1, published/).waitFor();
    await shows('beta one');
    t.equal(await number.inputValue(), '2.0.0-beta.2', 'installations of Latest do not get it');
    await inspectVariation(t, page, 'editor-source');
    await press(page, 'Save as draft');
    await page.getByText(/^The draft, saved/).waitFor();
    t.equal(await number.inputValue(), '2.0.0-beta.2', 'nor when it was saved and tried before');
    await followToEditor(page, plugin.id);
    await page.getByText(/^The draft, saved/).waitFor();
    t.equal(await number.inputValue(), '2.0.0-beta.2', 'nor on a later visit');
  });

  await t.test('a draft that is older than Latest, with a notice that loads Latest', async (t) => {
    await service.call('POST', `/api/plugins/${plugin.id}/draft`, { files: compose('draft of long ago') });
    await publishFiles('1.0.1', compose('stable two'));
    await followToEditor(page, plugin.id);
    await page.getByText(/^The draft, saved .* 1\.0\.1 was published after it\.$/).waitFor();
    await shows('draft of long ago');
    await inspectVariation(t, page, 'editor-older-draft');
    await press(page, 'Save as draft');
    await page.getByText(/1\.0\.1 was published after what it was made from\.$/).waitFor();
    await followToEditor(page, plugin.id);
    await page.getByText(/1\.0\.1 was published after what it was made from\.$/).waitFor();
    await press(page, 'Load 1.0.1');
    await pressInDialog(page, 'Load 1.0.1');
    await page.getByText(/^From 1\.0\.1, published/).waitFor();
    await shows('stable two');
    t.equal(await page.getByText('These files are older than').count(), 0);
    t.match(await readDraftFile(service, plugin.id, 'index.ts'), 'draft of long ago');
  });

  await soakTest(t, 'published files are not unsaved, also while the plugin has a draft', async (t) => {
    await write(page, compose('stable three')[1]?.contentText ?? '');
    await shows('stable three');
    await press(page, 'Publish');
    await page.getByText('1.0.2 is published.').waitFor();
    await page.getByText(/^From 1\.0\.2, published/).waitFor();
    await followToEditor(page, plugin.id);
    await page.getByText(/1\.0\.2 was published after what it was made from\.$/).waitFor();
    t.equal(await page.getByText('These are your unsaved changes').count(), 0);
    await write(page, compose('unsaved work')[1]?.contentText ?? '');
    await shows('unsaved work');
    await publishFiles('1.0.3', compose('stable four'));
    await page.getByText(/1\.0\.3 was published after what it was made from\.$/).waitFor();
    await press(page, 'Load 1.0.3');
    await pressInDialog(page, 'Cancel');
    await shows('unsaved work');
    await press(page, 'Load 1.0.3');
    await pressInDialog(page, 'Load 1.0.3');
    await shows('stable four');
    await press(page, 'Save as draft');
    await page.getByText('The draft is saved.').waitFor();
    t.match(await readDraftFile(service, plugin.id, 'index.ts'), 'stable four', 'the draft that it replaces is known');
  });
  t.same(complaints, []);
});

soakTest(
  t,
  'files that the editor leaves out are named, also while a draft is loaded, and before they are lost',
  async (t) => {
    const { page, complaints } = await openAuthoring();
    const { body: plugin } = await service.call('POST', '/api/plugins', { slug: 'pictures', displayName: 'Pictures' });
    const readme = { path: 'readme.md', contentText: '---\nname: Pictures\ndescription: Has one\n---\n' };
    await service.call('POST', `/api/plugins/${plugin.id}/draft`, { files: [readme, INDEX] });
    const texts = [
      ['readme.md', readme.contentText],
      [INDEX.path, INDEX.contentText],
    ];
    const picture = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0]);
    const zip = await zipOf({ ...Object.fromEntries(texts), 'assets/logo.png': picture });
    const body = new FormData();
    body.set('semVer', '1.1.0');
    body.set('file', new Blob([new Uint8Array(zip)]), 'a.zip');
    const headers = { authorization: `Bearer ${service.token}` };
    const address = `${service.url}/api/plugins/${plugin.id}/versions/zip`;
    t.equal((await fetch(address, { method: 'POST', headers, body })).status, 201);
    await followToEditor(page, plugin.id);
    await page.getByText('Neither the draft nor a version').and(page.getByText('assets/logo.png')).waitFor();
    await press(page, 'Publish');
    await page.getByRole('dialog').getByText('assets/logo.png').waitFor();
    await inspectVariation(t, page, 'editor-left-out');
    await pressInDialog(page, 'Cancel');
    const { body: before } = await service.call('GET', `/api/plugins/${plugin.id}`);
    t.notOk(
      before.versions.some(({ semVer }: { semVer: string }) => semVer === '1.1.1'),
      'nothing is published yet',
    );
    await press(page, 'Publish');
    await pressInDialog(page, 'Publish without them');
    await page.getByText('1.1.1 is published.').waitFor();
    t.equal(await page.getByText('Neither the draft nor a version').count(), 0);
    t.same(complaints, []);
  },
);

t.test('a session that ends takes nothing: one signs in over the page, and the save goes on', async (t) => {
  const { context, page } = await openAuthoring();
  const id = await makeDraft(service, 'long-work', [INDEX]);
  await followToEditor(page, id);
  const text = `${INDEX.contentText}const hours = 3;\n`;
  await write(page, text);
  await context.clearCookies();
  await page.keyboard.press('Control+s');
  const dialog = page.getByRole('dialog', { name: 'Your session has ended' });
  await dialog.getByLabel('Token').first().and(page.locator(':focus')).waitFor();
  await inspectVariation(t, page, 'session-ended');
  await dialog.getByLabel('Token').first().fill(service.token);
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  await page.getByText('The draft is saved.').waitFor();
  t.equal(await readDraftFile(service, id, 'index.ts'), text);
  // The session API has it, too.
  await page.getByRole('button', { name: 'Try it' }).click();
  await page.getByRole('button', { name: 'Run the hook' }).waitFor();
});

t.test('the editor’s compiler is the authors’ compiler', async (t) => {
  const { page, context } = await openAuthoring();

  await t.test('examples are clean, and wrong programs are red with the words of the authors’ compiler', async (t) => {
    // All of them compile with the authors' compiler in `test/sdk/package.test.ts`.
    const examples = await Promise.all(amount({ quick: [], soak: listExamples() }).map(readPackage));
    // An error of the test's own in each file: what is listed was checked.
    const files = examples.flatMap((example) =>
      example.files
        .filter(({ path }) => /\.(ts|json)$/.test(path))
        .map(({ path, bytes }) => ({
          path: `${example.slug}/${path}`,
          contentText: `${bytes}${path.endsWith('.ts') ? "\nexport const wrong: number = 'text';\n" : ''}`,
        })),
    );
    const checked = files.filter(({ path }) => path.endsWith('.ts'));
    const wrongFiles = wrongPrograms.map(({ code }, at) => ({ path: `wrong-${at}.ts`, contentText: code }));
    const expected = compile(wrongFiles);
    // One draft holds all of them: each draft costs a check of all of its files.
    await followToEditor(page, await makeDraft(service, 'all-programs', [INDEX, ...files, ...wrongFiles]));
    // Files are opened one after the other: until a later one is, its import is an error, and may make up the number.
    const isEarly = (line: string) => !line.startsWith('wrong-') && line.includes('Cannot find module');
    const listed = await eventually(async () => {
      const lines = await listErrors(page, checked.length + expected.length);
      return !lines.some(isEarly) && lines;
    });
    const ofExamples = listed.filter((line) => !line.startsWith('wrong-'));
    t.same(
      ofExamples.map((line) => line.replace(/:.*/, '')),
      checked.map(({ path }) => path).toSorted(),
    );
    t.same(
      ofExamples.filter((line) => !line.endsWith("Type 'string' is not assignable to type 'number'.")),
      [],
    );
    t.same(
      listed.filter((line) => line.startsWith('wrong-')),
      expected,
    );
    for (const [at, { title, error }] of wrongPrograms.entries()) {
      const first = expected.find((line) => line.startsWith(`wrong-${at}.ts:`)) ?? '';
      t.match(first.replace(/^\S+ /, ''), error, title);
    }
  });

  await soakTest(t, 'a symbol that is renamed in several files is saved in all of them', async (t) => {
    const index = "import { greet } from './words.ts';\nmiddleware.systemPrompt = () => greet;\n";
    const words = { path: 'words.ts', contentText: "export const greet = 'Be brief.';\n" };
    const id = await makeDraft(service, 'renamer', [{ path: 'index.ts', contentText: index }, words]);
    // In the page of other packages, whose files have the same names.
    await followToEditor(page, id);
    await page.locator('.view-line').getByText('greet').first().click();
    await page.keyboard.press('F2');
    // The editor moves the focus a moment after it shows the box, whose text is then selected.
    await page.locator('.rename-box input:focus').waitFor();
    await page.keyboard.type('welcome');
    await page.keyboard.press('Enter');
    await page.locator('.view-line').getByText('welcome').first().waitFor();
    await page.keyboard.press('Control+s');
    await waitForSave(page);
    t.equal(await readDraftFile(service, id, 'words.ts'), "export const welcome = 'Be brief.';\n");
    t.match(await readDraftFile(service, id, 'index.ts'), 'import { welcome }');
  });

  const id = await makeDraft(service, 'fast-typist', [INDEX]);
  await followToEditor(page, id);
  let text = INDEX.contentText;
  await t.test('what is typed fast arrives as it was typed', async (t) => {
    const typed = composeText(amount({ quick: 60, soak: 2_000 }));
    const ms = await typeKeys(page, typed);
    t.comment(`${typed.length} keys, ${(ms / typed.length).toFixed(1)} ms each`);
    await page.keyboard.press('Control+s');
    await waitForSave(page);
    text += typed;
    t.equal(await readDraftFile(service, id, 'index.ts'), text);
  });

  await t.test('unsaved text survives the page, its last keys included, and can be discarded', async (t) => {
    // The service refuses a name that is declared twice.
    const typed = composeText(60).replaceAll('say', 'tell');
    await typeKeys(page, typed);
    if (isSoak()) {
      const other = await context.newPage();
      await openFiles(other, service, id);
      t.equal(await other.getByText('These are your unsaved changes').count(), 0, 'an open tab has its changes itself');
      await other.close({ runBeforeUnload: true });
    }
    const closed = page.waitForEvent('close');
    await page.close({ runBeforeUnload: true });
    await closed;
    const reopened = await context.newPage();
    await openEditor(reopened, service, id);
    await reopened.getByText('These are your unsaved changes').waitFor();
    await inspectVariation(t, reopened, 'editor-kept');
    await reopened.locator('.monaco-editor .view-lines').first().click();
    await reopened.keyboard.press('Control+s');
    await waitForSave(reopened);
    t.equal(await readDraftFile(service, id, 'index.ts'), text + typed);
    if (!isSoak()) return;
    await write(reopened, '// to be discarded');
    await reopened.locator('.view-line').getByText('to be discarded').waitFor();
    t.equal(await reopened.getByRole('button', { name: 'Discard them' }).count(), 0, 'what was kept is saved');
    await go(reopened, 'My plugins');
    await pressInDialog(reopened, 'Leave without saving');
    await followToEditor(reopened, id);
    await write(reopened, '// typed since');
    await reopened.locator('.view-line').getByText('typed since').waitFor();
    await press(reopened, 'Discard them');
    await pressInDialog(reopened, 'Cancel');
    await reopened.getByRole('dialog').waitFor({ state: 'detached' });
    await reopened.locator('.view-line').getByText('typed since').waitFor();
    await press(reopened, 'Discard them');
    await pressInDialog(reopened, 'Discard them');
    await reopened.locator('.view-line').getByText('word.trim').first().waitFor();
    await reopened.getByText('These are your unsaved changes').waitFor({ state: 'detached' });
    await openFiles(reopened, service, id);
    t.equal(await reopened.getByText('These are your unsaved changes').count(), 0);
  });
  await context.close();
});

t.test('users come in, stay in and leave', async (t) => {
  await runSessionCases(t, service, browser);
  await uninstallAll(service);
});

const INDEX = { path: 'index.ts', contentText: 'middleware.systemPrompt = (ctx) => ctx.systemPrompt;\n' };
const PLUGIN = `import { words } from './words.ts';
middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' ' + words;
tools.greet = { description: 'Greets', parameters: { type: 'object' }, handler: () => 'good day' };
`;
/** Installs a plugin whose tool comes first by its name. */
async function installBell(): Promise<void> {
  const { body: bell } = await service.call('POST', '/api/plugins', { slug: 'a-bell', displayName: 'A bell' });
  const code = "tools.bell = { description: 'Rings', parameters: { type: 'object' }, handler: () => 'ding' };\n";
  const readme = { path: 'readme.md', contentText: '---\nname: A bell\ndescription: Rings\n---\n' };
  const files = [readme, { path: 'index.ts', contentText: code }];
  await service.call('POST', `/api/plugins/${bell.id}/versions`, { semVer: '1.0.0', files });
  const { status } = await service.call('POST', '/api/installations', { slug: 'a-bell' });
  if (status !== 201) throw new Error(`the installation was refused with ${status}`);
}

/** Stores texts until not even a character fits. */
const FILL_BROWSER = `for (let chars = 2 ** 22; chars >= 1; chars /= 2)
  try { for (let at = 0; ; at += 1) localStorage.setItem('full ' + chars + ' ' + at, 'x'.repeat(chars)); } catch {}`;
const EMPTY_BROWSER = `for (const key of Object.keys(localStorage)) if (key.startsWith('full ')) localStorage.removeItem(key);`;

const isFocused = (element: object): boolean =>
  element === (globalThis as unknown as { document: { activeElement: object } }).document.activeElement;

/** Asks again while the compiler is not ready, or something else was drawn over its answer. */
const isOffered = (page: Page, after: string, name: RegExp): Promise<boolean> =>
  eventually(async () => {
    await write(page, after);
    await page.keyboard.press('Control+Space');
    const offer = page.locator('.suggest-widget').getByLabel(name).first();
    return offer.waitFor({ timeout: 3_000 }).then(
      () => true,
      () => false,
    );
  });

const nothingIsRed = (page: Page): Promise<boolean> =>
  eventually(async () => (await page.locator('.squiggly-error').count()) === 0);

/** A save is in the session a moment later: the tool is called until it answers with it. */
async function untilCalled(page: Page, said: string): Promise<void> {
  for (;;) {
    await page.getByRole('button', { name: 'Call the tool' }).click();
    const isThere = await page
      .getByText(said)
      .waitFor({ timeout: 1_000 })
      .then(
        () => true,
        () => false,
      );
    if (isThere) return;
  }
}
