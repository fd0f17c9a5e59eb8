/** The first load and a long log are light; what happens elsewhere appears; untrusted texts do nothing. */
import type { Page, Request } from 'playwright-core';
import t, { type Test } from 'tap';
import type { CalledService } from '../deploy/service-fixture.ts';
import { eventually } from '../runner/eventually.ts';
import { amount, isSoak, soakTest } from '../runner/soak.ts';
import { answerInstead, openConsole, openTab, shareBrowser, signIn } from './browser.ts';
import { clickByMouse, go, press, pressInDialog, shareConsoleService, tab, uninstallAll } from './console-fixture.ts';
import { failInstallation, installationThat, publish, publishFrontDesk, TRICKS } from './front-desk.ts';
import { inspect, inspectVariation } from './pictures.ts';

/** Compressed JavaScript that is loaded until the catalog can be used. */
const FIRST_LOAD_MAX_BYTES = 250_000;
/** Files of it: on a slow network, a browser requests six at a time. */
const FIRST_LOAD_MAX_FILES = 20;
const LINES = amount({ quick: 2_000, soak: 100_000 });
/** One of them in the middle. */
const FOUND_LINE = LINES / 2 + 77;
/** Rows in the page at once, whatever is in the log: those in sight, and some above and below. */
const ROWS_MAX = 120;
/** A jump to anywhere in the log, also on a busy machine, milliseconds. */
const JUMP_MAX_MS = amount({ quick: 10_000, soak: 2_000 });
const FRAMES = amount({ quick: 30, soak: 150 });
const DESK = { slug: 'live-desk', displayName: 'Live desk' };

t.test('pages are light, what happens elsewhere appears, and untrusted texts do nothing', async (t) => {
  const service = await shareConsoleService('local');
  const plugin = await publishFrontDesk(service, 'host.storage, host.agents', DESK);
  const desk = await install(service, DESK.slug, { key: 'k3y' });
  const browser = await shareBrowser(t);

  const first = await openConsole(browser, 'about:blank');
  await signIn(first.context, service);

  await t.test('the catalog comes with little JavaScript, the editor with none of it', async (t) => {
    const { page } = first;
    const scripts = new Map<string, Promise<number>>();
    const countScript = (request: Request) => {
      if (new URL(request.url()).pathname.endsWith('.js'))
        scripts.set(
          request.url(),
          request.sizes().then(({ responseBodySize }) => responseBodySize),
        );
    };
    page.on('requestfinished', countScript);
    await page.goto(service.url);
    await page.getByRole('link', { name: 'Live desk' }).waitFor();
    page.off('requestfinished', countScript);
    const bytes = (await Promise.all(scripts.values())).reduce((sum, one) => sum + one, 0);
    t.comment(`${bytes} bytes of JavaScript in ${scripts.size} files`);
    t.ok(bytes > 0 && bytes < FIRST_LOAD_MAX_BYTES, `${bytes} bytes`);
    t.ok(scripts.size <= FIRST_LOAD_MAX_FILES, `${scripts.size} files`);
    t.notOk([...scripts.keys()].some((url) => /editor|worker/.test(url)));
  });

  await t.test('a long log scrolls as a short one does', async (t) => {
    const { page, complaints } = first;
    await page.route(/\/api\/plugin-logs\?/, (route) =>
      route.fulfill({ json: { items: lines(desk), nextCursor: null } }),
    );
    await page.goto(`${service.url}/installations/${desk}?tab=logs`);
    await page.getByText(`${LINES} lines`).waitFor();
    await page.getByText(`line ${LINES} `).waitFor();
    t.ok((await rows(page)) < ROWS_MAX, 'few of them are in the page');
    for (const part of [0, 0.5, 0.123, 1]) {
      const ms = await jump(page, part);
      const shown = await rows(page);
      t.ok(shown > 10 && shown < ROWS_MAX, `${shown} rows at ${part}`);
      t.ok(ms < JUMP_MAX_MS, `there in ${ms} ms`);
    }
    const frames = await scroll(page);
    t.comment(`scrolling: ${frames.join(', ')} (half, 95 %, slowest of ${FRAMES} frames, milliseconds)`);
    await page.getByLabel('Filter by text').fill(`line ${FOUND_LINE} `);
    await page.getByText('1 line ·').waitFor();
    t.same(complaints, []);
    await page.close();
  });

  const { page, complaints } = await openTab(first.context, `${service.url}/installations/${desk}`);

  await soakTest(t, 'a crash: the process is seen to end and to come back', async (t) => {
    await say(service, 'wake up');
    await page.getByText('running', { exact: true }).waitFor();
    await say(service, 'crash');
    await page.getByText('How it ended last').waitFor();
    await inspect(t, page, 'crashed');
  });

  await soakTest(t, 'a headline blames what the log blames, and a failed one is restarted', async (t) => {
    const ended = await eventually(async () => {
      const { items } = (await service.call('GET', `/api/plugin-logs?installationId=${desk}&levels=error`)).body;
      return items.find(({ message }: { message: string }) => message.startsWith("The plugin's process ended"));
    });
    const reason = ended.message.replace("The plugin's process ended: ", '');
    await eventually(async () => {
      const { runtime } = (await service.call('GET', `/api/installations/${desk}`)).body;
      return runtime.lastExit?.reason === reason;
    });
    await failInstallation(service, desk, reason);
    await page.getByText('failed', { exact: true }).waitFor();
    await page.getByRole('alert').getByText(`Its process ended too often: ${reason}.`).waitFor();
    await inspectVariation(t, page, 'failed');
    await page.getByRole('button', { name: 'Restart' }).click();
    await page.getByText('ready', { exact: true }).waitFor();
    t.equal(await page.getByRole('button', { name: 'Restart' }).count(), 0);
  });

  await t.test('a blocked plugin is shown as blocked, with the reason and what to do', async (t) => {
    await service.call('POST', '/api/operator/plugins/live-desk/block', { reason: 'It is looked at.' });
    await page.getByText('blocked', { exact: true }).waitFor();
    t.equal(await page.getByText('ready', { exact: true }).count(), 0, 'not ready');
    await page.getByRole('alert').getByText('The operator blocked this plugin: It is looked at.').waitFor();
    await page.getByRole('alert').getByText('Ask the operator of this service').waitFor();
    await page.getByRole('link', { name: 'Installations' }).click();
    await page.locator('.row-card').getByText('blocked', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'My plugins' }).click();
    // The page of before has a link of this name, too.
    await page.getByRole('heading', { level: 1, name: 'My plugins' }).waitFor();
    await page.getByRole('link', { name: 'Live desk' }).click();
    await page.getByRole('alert').getByText('Blocked by the operator').waitFor();
    await page.getByRole('alert').getByText('It is looked at.').waitFor();
    await page.getByRole('link', { name: 'Installations' }).click();
    await service.call('POST', '/api/operator/plugins/live-desk/unblock');
    await page.locator('.row-card').getByText('ready', { exact: true }).waitFor();
  });

  await soakTest(
    t,
    'a poisoned delivery: those behind say why they wait, until it is set aside or given up',
    async (t) => {
      const { body: channel } = await service.call('POST', `/api/installations/${desk}/channels`, { name: 'Mail' });
      await go(page, 'Live desk');
      await tab(page, 'Channels');
      await page.getByLabel('Channel', { exact: true }).selectOption({ label: 'Mail' });
      for (const text of ['poison', 'hello']) await service.call('POST', channel.webhookUrl, { text });
      const rows = page.getByRole('table', { name: 'Deliveries' }).locator('tbody tr');
      await rows.nth(1).getByText('It failed once and is attempted again').waitFor();
      await rows
        .nth(0)
        .getByText(/It waits for delivery .*it cannot be read/)
        .waitFor();
      await inspect(t, page, 'deliveries-waiting');
      const dialog = page.getByRole('dialog');
      await rows.nth(0).getByRole('button', { name: 'Show that delivery' }).click();
      const { body: deliveries } = await service.call('GET', `/api/installations/${desk}/deliveries`);
      const [{ id: behind, waitsFor }] = deliveries.items;
      await dialog.getByText(waitsFor, { exact: true }).waitFor();
      await dialog.getByText('poison').waitFor();
      await dialog.getByRole('button', { name: 'Close' }).click();
      await rows.nth(0).getByRole('button', { name: 'Open' }).click();
      await dialog.getByText(behind, { exact: true }).waitFor();
      await dialog.getByRole('button', { name: 'Show that delivery' }).focus();
      await page.keyboard.press('Enter');
      await dialog.getByText(waitsFor, { exact: true }).waitFor();
      t.equal(await dialog.getByText(behind, { exact: true }).count(), 0);
      await dialog.getByRole('button', { name: 'Close' }).click();
      await rows.nth(0).getByRole('button', { name: 'Open' }).click();
      t.equal(await dialog.getByRole('button', { name: 'Replay' }).count(), 0, 'a pending one is not replayed');
      await dialog.getByRole('button', { name: 'Try now' }).click();
      await page.getByText('Try that one now, or give it up').waitFor();
      await dialog.getByRole('button', { name: 'Close' }).click();
      await page.getByText('Try that one now, or give it up').waitFor({ state: 'detached' });
      await rows.nth(1).getByRole('button', { name: 'Open' }).click();
      await dialog.getByRole('button', { name: 'Give up' }).waitFor();
      await inspectVariation(t, page, 'delivery-failed');
      const closeAt = await dialog.getByRole('button', { name: 'Close' }).boundingBox();
      await dialog.getByRole('button', { name: 'Try now' }).click();
      await rows.nth(1).getByText('set aside', { exact: true }).waitFor();
      await rows.nth(0).getByText('delivered', { exact: true }).waitFor();
      await dialog.getByRole('button', { name: 'Give up' }).click();
      const sure = page.getByRole('dialog', { name: 'Give up this delivery' });
      await sure.waitFor();
      await page.keyboard.press('Escape');
      await sure.waitFor({ state: 'detached' });
      t.ok(await dialog.getByRole('button', { name: 'Give up' }).isVisible(), 'Escape closes the upper dialog only');
      await dialog.getByRole('button', { name: 'Give up' }).click();
      await sure.getByRole('button', { name: 'Give up' }).click();
      await rows.nth(1).getByText('dead', { exact: true }).waitFor();
      await service.call('DELETE', `/api/installations/${desk}/channels/${channel.id}`);
      await dialog.getByText('Its channel is disconnected').waitFor();
      t.same(
        await dialog.getByRole('button', { name: 'Close' }).boundingBox(),
        closeAt,
        'Close stays below the pointer while the state changes',
      );
      t.equal(await dialog.getByRole('button', { name: 'Replay' }).count(), 0);
      await pressInDialog(page, 'Close');
      t.equal(await page.getByRole('button', { name: 'Replay all dead ones' }).count(), 0, 'no channel is connected');
      t.equal(
        await page.getByLabel('Channel', { exact: true }).locator('option:checked').textContent(),
        'a removed channel',
      );
      await tab(page, 'Overview');
    },
  );

  await soakTest(t, 'an operator sees whose installation it is, and no button that would be refused', async (t) => {
    const ben = await service.asUser('ben');
    const theirs = await install(ben, 'live-desk', { key: 'k3y' });
    await page.goto(`${service.url}/installations/${theirs}`);
    await page.getByText('installed by ben').waitFor();
    for (const name of ['Overview', 'Settings', 'Channels', 'Events']) {
      await page.getByRole('tab', { name }).click();
      for (const button of ['Pause', 'Run setup again', 'Uninstall', 'Save', 'Connect', 'Replay all dead ones'])
        t.equal(await page.getByRole('button', { name: button, exact: true }).count(), 0, `${name}: ${button}`);
      t.equal(await page.getByRole('button', { name: /^Replay/ }).count(), 0, `${name}: Replay`);
    }
    await inspectVariation(t, page, 'of-another');
    const own = await openConsole(browser, 'about:blank');
    await signIn(own.context, ben);
    const asked: string[] = [];
    own.page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await own.page.goto(`${service.url}/installations/${theirs}`);
    await own.page.getByRole('option', { name: 'Only 1.0.0 (runs now)' }).waitFor({ state: 'attached' });
    t.notOk(asked.includes(`/api/plugins/${plugin}`), 'the plugin is read by its author only');
    await own.context.close();
    await go(page, 'Installations');
    await go(page, 'Live desk');
    await ben.call('DELETE', `/api/installations/${theirs}`);
  });

  await t.test(
    'a new version that asks for no more runs by itself, with the options of its own settings',
    async (t) => {
      await service.call('POST', `/api/installations/${desk}/configure`, { settings: { tone: 'warm' } });
      await page.goto(`${service.url}/installations/${desk}`);
      await tab(page, 'Settings');
      const tone = page.getByLabel('Tone');
      await eventually(async () => (await tone.inputValue()) === 'warm');
      const changed = { name: DESK.displayName, tones: 'cold, plain' };
      if (isSoak()) await publish(service, plugin, '1.0.1-rc.1', 'host.storage, host.agents', changed);
      await publish(service, plugin, '1.0.1', 'host.storage, host.agents', changed);
      await tone.getByRole('option', { name: 'cold' }).waitFor({ state: 'attached' });
      t.equal(await tone.inputValue(), 'plain', 'the default is in force, and not the first option');
      await tone.selectOption('cold');
      await press(page, 'Save');
      await installationThat(service, ({ settings }) => settings.tone === 'cold');
      await tab(page, 'Overview');
    },
  );

  await soakTest(t, 'going back to an older version says that it ends updates', async (t) => {
    await page.getByText('1.0.1', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Go back to 1.0.0' }).click();
    await page.getByRole('dialog').getByText('no newer version runs').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Go back to 1.0.0' }).click();
    await page.getByText('1.0.0', { exact: true }).waitFor();
    await page.getByText('It stays on this version and gets no updates').waitFor();
    const { versionPolicy } = await installationThat(service, ({ currentSemVer }) => currentSemVer === '1.0.0');
    t.equal(versionPolicy, 'Pinned');
  });

  await t.test(
    'the form of a tool whose plugin is paused keeps its arguments, and calls it when it runs again',
    async (t) => {
      const { body: session } = await service.session('POST', '/sessions', { agentId: 'ann' });
      await page.goto(`${service.url}/playground/${session.id}`);
      const typed = '{ "loud": true }';
      await page.getByLabel('Arguments').fill(typed);
      await service.call('POST', `/api/installations/${desk}/pause`);
      await page.getByText('No running plugin has the tool live-desk__bell now').waitFor();
      t.equal(await page.getByLabel('Arguments').inputValue(), typed);
      const call = page.getByRole('button', { name: 'Call the tool' });
      t.ok(await call.isDisabled());
      await inspectVariation(t, page, 'tool-gone');
      await service.call('POST', `/api/installations/${desk}/resume`);
      await call.click();
      await page.getByText('"ding"').waitFor();
      if (isSoak()) {
        const path = `/sessions/${session.id}`;
        await service.session('POST', `${path}/messages`, {
          messages: [{ id: 'm', role: 'user', text: 'a forbidden one' }],
        });
        await page.getByText('a forbidden one').waitFor();
        const { body: turn } = await service.session('POST', `${path}/turns`, {
          id: 'm',
          from: 'bob',
          trigger: 'user',
        });
        t.equal(turn.state, 'vetoed', JSON.stringify(turn));
        await page.getByText('Cancelled by live-desk: that word is not allowed here').waitFor();
      }
      await go(page, 'Installations');
      await go(page, 'Live desk');
    },
  );

  await t.test('Enter while a call of the playground runs starts no second one', async (t) => {
    const { body: session } = await service.session('POST', '/sessions', { agentId: 'ann' });
    await page.goto(`${service.url}/playground/${session.id}`);
    const released = Promise.withResolvers<void>();
    const calls: string[] = [];
    await page.route('**/hooks/inboundMessage', async (route) => {
      calls.push(route.request().postData() ?? '');
      await released.promise;
      await route.continue();
    });
    const message = page.getByRole('textbox', { name: 'Message', exact: true });
    await message.fill('the first message');
    await message.press('Enter');
    await page.getByRole('button', { name: 'Cancel', exact: true }).waitFor();
    await message.fill('the second message');
    await message.press('Enter');
    released.resolve();
    await page.getByText('the first message').first().waitFor();
    t.equal(calls.length, 1);
    t.match(calls[0], /the first message/);
    t.equal(await message.inputValue(), 'the second message', 'it can be sent next');
    await page.unroute('**/hooks/inboundMessage');
    await go(page, 'Installations');
    await go(page, 'Live desk');
  });

  await t.test('log lines and deliveries; copied is what is shown', async (t) => {
    await page.getByRole('tab', { name: 'Logs' }).click();
    await say(service, `good morning ${TRICKS}`);
    await page.getByText('inbound good morning ⟨U+202E⟩gnp.exe').waitFor();
    if (isSoak()) {
      const ended = page.waitForEvent('requestfailed', (request) => request.url().includes('/plugin-logs/stream'));
      await page.evaluate(HIDE);
      await ended;
      await say(service, 'while the page is hidden');
      await page.evaluate(SHOW);
      await page.getByText('inbound while the page is hidden').waitFor();
      t.equal(await page.getByText('inbound while the page is hidden').count(), 1);
      await tab(page, 'Overview');
      await page.evaluate(HIDE);
      const read: string[] = [];
      const onRequest = (request: { url(): string }) => {
        if (request.url().includes('/plugin-logs')) read.push(request.url());
      };
      page.on('request', onRequest);
      await page.getByRole('tab', { name: 'Logs' }).click();
      await say(service, 'before the page is seen');
      t.same(read, [], 'lines written after a read would be missing until the stream is open');
      await page.evaluate(SHOW);
      await page.getByText('inbound before the page is seen').waitFor();
      page.off('request', onRequest);
    }
    await page.getByLabel('Filter by text').fill('good morning');
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByText(/lines? (is|are) copied/).waitFor();
    t.match(
      await page.evaluate<string>('navigator.clipboard.readText()'),
      /info {2}middleware\.inboundMessage .* inbound good morning/,
    );
    const { body: channel } = await service.call('POST', `/api/installations/${desk}/channels`, { name: TRICKS });
    if (!isSoak()) return;
    await page.getByRole('tab', { name: 'Channels' }).click();
    await page.getByText('⟨U+202E⟩gnp.exe').first().waitFor();
    await service.call('POST', channel.webhookUrl, { hello: TRICKS });
    const deliveries = page.getByRole('table', { name: 'Deliveries' });
    await deliveries
      .getByRole('row', { name: /from .*gnp\.exe/ })
      .getByText('delivered', { exact: true })
      .waitFor();
  });

  await soakTest(t, 'agents of plugins, whose names may try tricks', async (t) => {
    await page.getByRole('link', { name: 'Agents' }).click();
    await page.getByText('Night clerk').first().waitFor();
    await page.getByText('⟨U+202E⟩gnp.exe').first().waitFor();
    await inspect(t, page, 'agents');
    await page.getByRole('button', { name: 'Open Night clerk' }).click();
    await page.getByRole('dialog').getByText('Answer at night.').waitFor();
    await inspect(t, page, 'agent');
    await page.getByRole('button', { name: 'Close' }).click();
  });

  await t.test('what the account keeps, and where to make room, by keyboard', async (t) => {
    const link = page.getByRole('link', { name: 'Storage' });
    await link.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('progressbar', { name: /^Transcripts: \S+ .+ of 1 GiB$/ }).waitFor();
    t.equal(await page.getByRole('progressbar').count(), 10, 'one bar a kind');
    await inspect(t, page, 'storage');
    const transcripts = page.getByRole('region', { name: 'Transcripts' });
    t.same(await transcripts.getByRole('link').allInnerTexts(), ['Playground', 'Services'], 'sessions and to-dos');
    await page.getByRole('region', { name: 'Versions' }).getByRole('link', { name: 'My plugins' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'My plugins', level: 1 }).waitFor();
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
    let writes = 0;
    page.on('request', (request) => {
      if (request.method() === 'PATCH') writes += 1;
    });
    await page.getByRole('button', { name: /^Run Back desk.* earlier$/ }).focus();
    await page.keyboard.press('Enter');
    await orderIs(service, ['back-desk', 'live-desk']);
    t.equal(writes, 1, 'one move is one write');
    await cards.nth(0).getByText('Back desk').waitFor();
    if (!isSoak()) return;
    const last = page.getByRole('button', { name: /^Run Back desk.* later$/ });
    await last.focus();
    await page.keyboard.press('Enter');
    await page.getByText(/^Back desk.* is 2 of 2$/).waitFor({ state: 'attached' });
    t.ok(await last.evaluate(isFocused), 'the button that cannot move it further keeps the focus');
    // Before the first move is saved.
    await page.getByRole('button', { name: /^Run Back desk.* earlier$/ }).click();
    await orderIs(service, ['back-desk', 'live-desk']);
    await inspectVariation(t, page, 'order');
    await last.hover();
    await clickByMouse(page, 1);
    await cards.nth(1).getByText('Back desk').waitFor();
    await clickByMouse(page, 2);
    await orderIs(service, ['live-desk', 'back-desk']);
    t.match(await cards.allInnerTexts(), [/Live desk/, /Back desk/], 'a double click moves no other plugin');
    await cards.nth(0).dragTo(cards.nth(1));
    await orderIs(service, ['back-desk', 'live-desk']);
    await cards.nth(0).getByText('Back desk').waitFor();
    const endOutage = await answerInstead(page.context(), '**/api/installations/*', (route) =>
      route.request().method() === 'PATCH' ? route.abort() : route.continue(),
    );
    await press(page, /^Run Back desk.* later$/);
    const status = page.getByRole('status');
    await status
      .getByText(/^The new order is not saved: Back desk.* is where it was before$/)
      .waitFor({ state: 'attached' });
    await cards.nth(0).getByText('Back desk').waitFor();
    endOutage();
  });

  const blockAndVerify = async (t: Test) => {
    const costs = page.getByRole('table', { name: 'Plugins by cost' });
    const quiet = await service.asUser('ben');
    await quiet.call('POST', '/api/plugins', { slug: 'quiet-desk', displayName: 'Quiet desk' });
    await page.getByLabel('Find a plugin or an author').fill('ben');
    await costs.getByText('live-desk').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Block quiet-desk' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Block quiet-desk' }).click();
    t.ok(await dialog.getByLabel('Reason').evaluate(isFocused), 'without a reason the dialog stays and asks for it');
    await dialog.getByLabel('Reason').fill('It copies another one.');
    await dialog.getByRole('button', { name: 'Block quiet-desk' }).click();
    await costs.getByText('quiet-desk (blocked: It copies another one.)').waitFor();
    await page.getByRole('button', { name: 'Verify author ben' }).click();
    await dialog.getByText('Verify only an author whose identity you have checked').waitFor();
    await inspect(t, page, 'verify');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.getByLabel('Find a plugin or an author').fill('nobody has this name');
    await page.getByRole('main').getByText('No plugin or author matches').waitFor();
  };

  await t.test('the pages of operators, with untrusted names', async (t) => {
    await page.getByRole('link', { name: 'Administration' }).click();
    await page.getByRole('table', { name: 'Plugin processes' }).getByText('back-desk').waitFor();
    await inspect(t, page, 'processes');
    await page.getByRole('tab', { name: 'Plugins' }).click();
    await page.getByRole('table', { name: 'Plugins by cost' }).waitFor();
    await inspect(t, page, 'plugin-costs');
    if (isSoak()) await blockAndVerify(t);
    await page.getByRole('tab', { name: 'Queues' }).click();
    await page.getByRole('table', { name: 'Queues' }).waitFor();
    await inspect(t, page, 'queues');
    await page.getByRole('link', { name: 'Installations' }).click();
  });

  await t.test('a message at the end of a listing is text, wherever it is shown', async (t) => {
    const deprecationMessage = `Use another ${TRICKS}`;
    await service.call('DELETE', `/api/plugins/${plugin}/listing`, { deprecationMessage });
    await page.getByRole('link', { name: 'Live desk' }).click();
    await page.getByText('Use another ⟨U+202E⟩gnp.exe').waitFor();
    await inspectVariation(t, page, 'deprecated');
    await page.getByRole('link', { name: 'In the catalog' }).click();
    await page.getByText('Use another ⟨U+202E⟩gnp.exe').waitFor();
    await uninstallSays(page);
  });

  t.same(complaints, [], 'no script ran, no dialog came, and the browser complains about nothing');
  await uninstallAll(service);
});

async function install(service: CalledService, slug: string, secrets: Record<string, string>): Promise<string> {
  const { body } = await service.call('POST', '/api/installations', { slug });
  await service.call('POST', `/api/installations/${body.id}/configure`, { secrets });
  return body.id;
}

/** The driver shows all pages of the browser as visible. A hidden one must not hold a connection: the browser has six to a host. */
const HIDE = `Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true });
dispatchEvent(new Event('visibilitychange'));`;
const SHOW = `delete document.visibilityState;
dispatchEvent(new Event('visibilitychange'));`;

const isFocused = (element: object): boolean =>
  element === (globalThis as unknown as { document: { activeElement: object } }).document.activeElement;

/** A message of bob's in a session of its own. */
async function say(service: CalledService, text: string): Promise<void> {
  const { body } = await service.session('POST', '/sessions', { agentId: 'ann' });
  await service.session('POST', `/sessions/${body.id}/hooks/inboundMessage`, {
    context: { message: { id: '1', from: 'bob', text, attachments: [] } },
  });
}

const orderIs = (service: CalledService, wanted: readonly string[]): Promise<boolean> =>
  eventually(async () => {
    const { body } = await service.call('GET', '/api/installations');
    const sorted = body.items.toSorted(
      (a: { hookOrder: number }, b: { hookOrder: number }) => a.hookOrder - b.hookOrder,
    );
    return JSON.stringify(sorted.map(({ slug }: { slug: string }) => slug)) === JSON.stringify(wanted);
  });

/** Checks that the console lists everything that an uninstall deletes before it deletes anything. */
async function uninstallSays(page: Page): Promise<void> {
  await go(page, 'Installations');
  await go(page, 'Live desk');
  await page.getByRole('button', { name: 'Uninstall' }).click();
  const dialog = page.getByRole('dialog');
  for (const said of [
    'its agents: Night clerk',
    /its channels: ⟨U\+202E⟩gnp/,
    'its secrets: key',
    /with all their sessions, also those that another agent answers/,
    /become dead letters/,
  ])
    await dialog.getByText(said).first().waitFor();
}

const lines = (installationId: string) =>
  Array.from({ length: LINES }, (_, at) => ({
    id: String(LINES - at),
    at: new Date(1.79e12 - at).toISOString(),
    level: at % 50 === 0 ? 'error' : 'info',
    message: `line ${LINES - at} ${'x'.repeat(at % 90)}`,
    data: null,
    installationId,
    sessionId: null,
    source: 'middleware.inboundMessage',
    invocationId: null,
    versionId: 'v',
    semVer: '1.0.0',
    truncated: false,
  }));
const rows = (page: Page): Promise<number> => page.locator('.log-line').count();

/** Scrolls by a third of a page a frame, as a wheel does. @returns times of frames, milliseconds: half, 95 %, slowest */
const scroll = (page: Page): Promise<number[]> =>
  page.evaluate<number[]>(`(async () => {
    const view = document.querySelector('.log-view');
    view.scrollTop = view.scrollHeight / 3;
    const times = [];
    let last = await new Promise(requestAnimationFrame);
    for (let frame = 0; frame < ${FRAMES}; frame += 1) {
      view.scrollTop += view.clientHeight / 3;
      const now = await new Promise(requestAnimationFrame);
      times.push(now - last);
      last = now;
    }
    times.sort((a, b) => a - b);
    return [0.5, 0.95, 1].map((part) => Math.round(times[Math.ceil(part * times.length) - 1] * 10) / 10);
  })()`);

/** Scrolls there and waits until its lines are drawn. @returns milliseconds */
const jump = (page: Page, part: number): Promise<number> =>
  page.evaluate<number>(`(async () => {
    const view = document.querySelector('.log-view');
    const start = performance.now();
    view.scrollTop = ${part} * (view.scrollHeight - view.clientHeight);
    const inSight = () => [...view.querySelectorAll('.log-line')].some((row) => {
      const { top, bottom } = row.getBoundingClientRect();
      const box = view.getBoundingClientRect();
      return bottom > box.top && top < box.bottom;
    });
    do await new Promise(requestAnimationFrame); while (!inSight());
    return Math.round(performance.now() - start);
  })()`);
