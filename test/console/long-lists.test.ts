/** What a page says when it does not show everything: long transcripts, logs and lists of versions. */
import type { Pool } from 'pg';
import t from 'tap';
import { ROWS_MAX } from '../../api/operators/operator-resource.ts';
import { orderedId } from '../../db/postgres/ordered-id.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { insertAudit } from '../../db/records/audit.ts';
import { insertLogs } from '../../db/records/logs.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { enlargeOffers } from '../api/plugins/copied-versions.ts';
import { createLogLine } from '../fixtures/log-line.ts';
import { soakTest } from '../runner/soak.ts';
import { answerInstead, shareBrowser, shareConsole } from './browser.ts';
import { go, press, pressInDialog, shareConsoleService, tab } from './console-fixture.ts';
import { publish, publishFrontDesk } from './front-desk.ts';
import { inspectVariation } from './pictures.ts';

/** More than a session's page shows. */
const MESSAGES = 201;

/** How many lines the page of a log loads, and more than that. */
const LOADED = 1_000;
const LINES = 1_500;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** How many host calls a page of their list has, and how many pages are refreshed. */
const CALLS_PAGE = 100;
const REFRESHED_PAGES = 3;
/** How often they are. Milliseconds. */
const FOLLOW_MS = 2_500;
/** Four times the default quota. */
const INSTALLATIONS = 400;

const service = await shareConsoleService('local');
const { opened, openAt } = await shareConsole(await shareBrowser(t), service);

t.test('the page of a long session shows its newest messages, and says that older ones are left out', async (t) => {
  const { body: session } = await service.session('POST', '/sessions', { agentId: 'ann' });
  const append = (...texts: readonly string[]) =>
    service.session('POST', `/sessions/${session.id}/messages`, {
      messages: texts.map((text) => ({ role: 'user', text })),
    });
  await append(...Array.from({ length: MESSAGES }, (_, at) => `message ${at + 1}`));
  const { page, complaints } = await openAt(`/playground/${session.id}`);
  const messages = page.getByRole('list', { name: 'Messages' }).getByRole('listitem');
  await messages.last().getByText(`message ${MESSAGES}`, { exact: true }).waitFor();
  t.match(await messages.first().innerText(), /message 2$/, 'oldest first');
  await page.getByText(`Only the newest ${MESSAGES - 1} messages are shown.`).waitFor();
  await inspectVariation(t, page, 'session-long');
  await append('one\nmore');
  await messages.last().getByText('more').waitFor();
  t.match(await messages.last().innerText(), /one\nmore$/, 'lines stay lines');
  const list = page.getByRole('list', { name: 'Messages' });
  const readDistance = () => list.evaluate(MEASURE_TO_END);
  t.ok((await readDistance()) < 2, 'its end is visible, so it follows');
  const read = messages.filter({ hasText: /message 100$/ });
  await read.scrollIntoViewIfNeeded();
  await list.focus();
  const before = (await read.boundingBox())?.y ?? 0;
  await append('the next one');
  await messages.last().getByText('the next one', { exact: true }).waitFor();
  const moved = ((await read.boundingBox())?.y ?? 0) - before;
  t.ok(Math.abs(moved) < 2, `what is read stays where it is (moved by ${moved} px)`);
  t.ok(await list.evaluate(isFocused), 'and the list keeps the focus');
  await service.session('POST', `/sessions/${session.id}/clear`, {
    reason: 'test',
    by: 'user',
    trigger: 'user',
  });
  await append('the first');
  await messages.last().getByText('the first', { exact: true }).waitFor();
  t.equal(await page.getByText('Only the newest').count(), 0);
  t.same(complaints, []);
});

t.test('the page of a long log says that older lines are not loaded, and loads them', async (t) => {
  const plugin = await publishFrontDesk(service, 'host.storage', { slug: 'long-desk', displayName: 'Long desk' });
  const { body: desk } = await service.call('POST', '/api/installations', { slug: 'long-desk' });
  await withDatabase((pool) =>
    insertLogs(
      pool,
      Array.from({ length: LINES }, (_, at) =>
        createLogLine({ id: orderedId(Date.now()), message: `line ${at + 1}`, installationId: desk.id }),
      ),
    ),
  );
  const { page, complaints } = await openAt(`/installations/${desk.id}?tab=logs`);
  const view = page.getByRole('region', { name: 'Log lines' });
  await view.getByText(`line ${LINES}`, { exact: true }).waitFor();
  await page.getByText('Older lines are not loaded').waitFor();
  await inspectVariation(t, page, 'log-long');
  await page.getByLabel('Filter by text').fill('line 33 ');
  await page.getByText('None of the loaded lines match the filter.').waitFor();
  await page.getByLabel('Filter by text').fill('');
  await view.getByText(`line ${LINES}`, { exact: true }).waitFor();
  await view.evaluate(SCROLL_TO_TOP);
  const firstLoaded = view.getByText(`line ${LINES - LOADED + 1}`, { exact: true });
  await firstLoaded.waitFor();
  await press(page, 'Pause the log');
  await press(page, 'Load older lines');
  await page.getByText(`${LINES} lines ·`).waitFor();
  // The lines that were in sight stay there: few others are in the document.
  await firstLoaded.waitFor();
  await press(page, 'Resume (0 new)');
  await page.getByLabel('Filter by text').fill('line 33 ');
  await view.getByText('line 33', { exact: true }).waitFor();
  t.equal(await page.getByText('Older lines are not loaded').count(), 0);
  t.same(complaints, []);
  await service.call('DELETE', `/api/plugins/${plugin}/listing`);
});

soakTest(t, 'lines that are written before the stream of an empty log is open are shown', async (t) => {
  await publishFrontDesk(service, 'host.storage', { slug: 'quiet-desk', displayName: 'Quiet desk' });
  const { body: desk } = await service.call('POST', '/api/installations', { slug: 'quiet-desk' });
  const { context, page, complaints } = opened;
  const write = (message: string) =>
    withDatabase((pool) =>
      insertLogs(pool, [createLogLine({ id: orderedId(Date.now()), message, installationId: desk.id })]),
    );
  const endOutage = await answerInstead(context, '**/api/plugin-logs/stream*', async (route) => {
    endOutage();
    await write('while the service restarts');
    await route.fulfill({ status: 503 });
  });
  await go(page, 'Installations');
  await go(page, 'Quiet desk');
  await tab(page, 'Logs');
  const view = page.getByRole('region', { name: 'Log lines' });
  await view.getByText('while the service restarts', { exact: true }).waitFor();
  await write('when it is back');
  await view.getByText('when it is back', { exact: true }).waitFor();
  await page.getByText('2 lines ·').waitFor();
  t.same(complaints, []);
});

soakTest(t, 'versions that do not fit into an answer are listed without details, and can be yanked', async (t) => {
  const named = { slug: 'large-desk', displayName: 'Large desk' };
  const plugin = await publishFrontDesk(service, 'host.storage', named);
  await publish(service, plugin, '1.1.0', 'host.storage', { name: named.displayName });
  await withDatabase((pool) => enlargeOffers(pool, plugin, MIB));
  const { page, complaints } = await openAt(`/plugins/${plugin}`);
  await page.getByText('the lowest version number is listed without them').waitFor();
  const rows = page.getByRole('table', { name: 'Versions' }).locator('tbody tr');
  t.equal(await rows.count(), 2);
  await inspectVariation(t, page, 'versions-left-out');
  await press(page, 'Files of 1.0.0');
  await page.getByRole('dialog').getByText('inboundMessage').waitFor();
  await pressInDialog(page, 'Close');
  await press(page, 'Yank 1.1.0');
  await pressInDialog(page, 'Yank 1.1.0');
  await page.getByText('A plugin keeps one published version').waitFor();
  for (const name of ['Delete', 'Rename', 'Yank 1.0.0'])
    t.equal(await page.getByRole('button', { name, exact: true }).count(), 0, `1.0.0 is published: no ${name}`);
  await publish(service, plugin, '1.2.0', 'host.storage', { name: named.displayName });
  await press(page, 'Yank 1.0.0');
  await pressInDialog(page, 'Yank 1.0.0');
  await rows.last().getByText('yanked', { exact: true }).waitFor();

  const gone = {
    title: 'The resource was removed',
    status: 410,
    code: 'gone',
    detail: 'Its files were removed.',
    requestId: 'r',
  };
  const endRemoval = await answerInstead(page.context(), '**/versions/*/files**', (route) =>
    route.fulfill({
      status: 410,
      contentType: 'application/problem+json',
      body: JSON.stringify({ type: 'about:blank', ...gone }),
    }),
  );
  await press(page, 'Files of 1.1.0');
  await page.getByRole('dialog').getByText(gone.detail).waitFor();
  for (const name of ['Go back', 'Go to the catalog'])
    t.equal(
      await page.getByRole('dialog').getByText(name).count(),
      0,
      `nothing in the dialog leaves the page: ${name}`,
    );
  await pressInDialog(page, 'Close');
  endRemoval();
  t.same(complaints, []);
});

soakTest(t, 'pages of operators say when they do not list everything', async (t) => {
  const { page, complaints } = opened;
  const rows = Array.from({ length: ROWS_MAX }, (_, at) => ({ slug: `plugin-${at}`, installationId: `i${at}` }));
  const child = { account: 'ann', semVer: null, state: 'running', restarts: 0, rssBytes: 1, startedAt: null };
  const children = rows.map((row) => ({ ...row, ...child, lastExit: null, failedUpdate: null }));
  const author = { author: 'ann', verified: false, blockedReason: null };
  const costs = { ...author, installations: 0, calls: 0, failures: 0, p95Ms: null, restarts: 0, processorMs: 0 };
  const plugins = rows.map(({ slug }) => ({ slug, ...costs }));
  const letter = {
    kind: 'event',
    what: 'pluginInstalled',
    attempts: 5,
    at: '2026-01-01T00:00:00.000Z',
    lastError: null,
  };
  const deadLetters = rows.map((row) => ({ id: row.slug, ...row, ...letter }));
  await page.route('**/api/operator/fleet', (route) => route.fulfill({ json: { children } }));
  await page.route(/operator\/plugins/, (route) => {
    const isNarrow = route.request().url().includes('search=ann');
    return route.fulfill({ json: { plugins: isNarrow ? plugins.slice(1) : plugins } });
  });
  await page.route('**/api/operator/queues', (route) => route.fulfill({ json: { queues: [], deadLetters } }));
  await go(page, 'Administration');
  await page.getByText(`Only ${ROWS_MAX} processes are listed`).waitFor();
  await inspectVariation(t, page, 'processes-cut');
  await tab(page, 'Queues');
  await page.getByText(`Only the newest ${ROWS_MAX} dead letters are listed.`).waitFor();
  await tab(page, 'Plugins');
  await page.getByText(`Only ${ROWS_MAX} plugins are listed`).waitFor();
  await page.getByLabel('Find a plugin or an author').fill('plugin');
  await page.getByRole('status').getByText(`${ROWS_MAX} plugins, and maybe more`).waitFor();
  await page.getByLabel('Find a plugin or an author').fill('ann');
  await page.getByText(`Only ${ROWS_MAX} plugins are listed`).waitFor({ state: 'detached' });
  t.same(complaints, []);
});

soakTest(t, 'the costs of plugins are read once a minute', async (t) => {
  // A request of the page of the test before may still be sent.
  const { page } = await openAt('/agents');
  let reads = 0;
  page.on('request', (request) => {
    if (request.url().includes('/operator/plugins')) reads += 1;
  });
  await page.clock.install();
  await openAt('/operator?tab=plugins');
  await page.getByRole('table', { name: 'Plugins by cost' }).waitFor();
  await page.clock.runFor(MINUTE_MS / 2);
  // The page sends its requests in order: a read of the first half minute comes before this one.
  await page.evaluate(() => fetch('/api/operator/fleet'));
  const next = page.waitForRequest(/operator\/plugins/);
  await page.clock.runFor(MINUTE_MS / 2);
  await next;
  t.equal(reads, 2);
});

soakTest(t, 'the more installations a page lists, the less often it reads them', async (t) => {
  await publishFrontDesk(service, 'host.storage', { slug: 'many-desk', displayName: 'Many desk' });
  const { body: desk } = await service.call('POST', '/api/installations', { slug: 'many-desk' });
  const items = Array.from({ length: INSTALLATIONS }, (_, at) => ({ ...desk, id: `desk-${at}`, hookOrder: at }));
  // With the clock of the test before.
  const { context, page, complaints } = await openAt('/agents');
  let reads = 0;
  const endMany = await answerInstead(context, '**/api/installations?*', (route) => {
    reads += 1;
    return route.fulfill({ json: { items, nextCursor: null } });
  });
  await page.goto(`${service.url}/installations`);
  await page
    .getByRole('listitem')
    .nth(INSTALLATIONS - 1)
    .waitFor();
  const before = reads;
  await page.clock.runFor(FOLLOW_MS);
  // The page sends its requests in order: a read of that time comes before this one.
  await page.evaluate(() => fetch('/api/me'));
  t.equal(reads, before, 'so many are not read every 2.5 s');
  const next = page.waitForRequest(/api\/installations\?/);
  await page.clock.runFor(4 * FOLLOW_MS);
  await next;
  endMany();
  await service.call('DELETE', `/api/installations/${desk.id}`);
  t.same(complaints, []);
});

soakTest(t, 'a version that was yanked elsewhere is no longer offered a minute later', async (t) => {
  const named = { slug: 'yanked-desk', displayName: 'Yanked desk' };
  const plugin = await publishFrontDesk(service, 'host.storage', named);
  const [first] = (await service.call('GET', `/api/plugins/${plugin}`)).body.versions;
  await publish(service, plugin, '1.1.0', 'host.storage', { name: named.displayName });
  const { body: desk } = await service.call('POST', '/api/installations', { slug: named.slug });
  // With the clock of the test before.
  const { page, complaints } = await openAt(`/installations/${desk.id}`);
  const goBack = page.getByRole('button', { name: 'Go back to 1.0.0' });
  await goBack.waitFor();
  await service.call('POST', `/api/plugins/${plugin}/versions/${first.id}/yank`);
  await page.clock.runFor(MINUTE_MS);
  await goBack.waitFor({ state: 'detached' });
  t.equal(await page.getByLabel('Runs').getByText('1.0.0').count(), 0);
  t.same(complaints, []);
});

soakTest(t, 'a list of many pages is refreshed on request only: each refresh reads all of them', async (t) => {
  await publishFrontDesk(service, 'host.storage', { slug: 'busy-desk', displayName: 'Busy desk' });
  const { body: desk } = await service.call('POST', '/api/installations', { slug: 'busy-desk' });
  await service.call('POST', `/api/installations/${desk.id}/configure`, { secrets: { key: 'k3y' } });
  const insert = (count: number, member: string) =>
    withDatabase((pool) =>
      insertAudit(
        pool,
        Array.from({ length: count }, () => ({
          id: orderedId(Date.now()),
          at: new Date().toISOString(),
          installationId: desk.id,
          sessionId: null,
          invocationId: null,
          member,
          outcome: 'ok' as const,
          durationMs: 1,
          argumentsSha256: null,
          detail: null,
        })),
      ),
    );
  await insert(CALLS_PAGE * (REFRESHED_PAGES + 1), 'storage.get');
  // With the clock of the test before.
  const { page, complaints } = opened;
  let reads = 0;
  page.on('request', (request) => {
    if (request.url().includes('/audit')) reads += 1;
  });
  await openAt(`/installations/${desk.id}?tab=calls`);
  const rows = page.getByRole('table', { name: 'Host calls' }).locator('tbody tr');
  const refresh = page.getByRole('button', { name: 'Refresh', exact: true });
  for (let pages = 1; pages < REFRESHED_PAGES; pages += 1) {
    await rows.nth(CALLS_PAGE * pages - 1).waitFor();
    await press(page, 'Show more');
  }
  await rows.nth(CALLS_PAGE * REFRESHED_PAGES - 1).waitFor();
  const again = page.waitForRequest(/audit/);
  await page.clock.runFor(FOLLOW_MS);
  await again;
  t.equal(await refresh.count(), 0, 'so many pages are refreshed');

  await press(page, 'Show more');
  await rows.nth(CALLS_PAGE * (REFRESHED_PAGES + 1) - 1).waitFor();
  await refresh.waitFor();
  await inspectVariation(t, page, 'calls-long');
  await insert(1, 'storage.set');
  const before = reads;
  // The page itself goes on reading its installation.
  const followed = page.waitForRequest(new RegExp(`/installations/${desk.id}$`));
  await page.clock.runFor(2 * FOLLOW_MS);
  await followed;
  t.equal(reads, before, 'more pages are not');
  await refresh.click();
  await rows.first().getByText('storage.set').waitFor();

  await tab(page, 'Events');
  const event = page.getByRole('table', { name: 'Events' }).locator('tbody tr').first();
  await event.getByRole('button', { name: /^Replay pluginInstalled of \d+:/ }).waitFor();
  await page.clock.fastForward(DAY_MS);
  await event
    .locator('time')
    .getByText(/\b20\d\d\b/)
    .waitFor();
  await event.getByRole('button', { name: /^Replay pluginInstalled of .*\b20\d\d\b/ }).waitFor();
  t.same(complaints, []);
});

soakTest(
  t,
  'metrics are shown although the clock of the computer is wrong, and in place of a failed period another one',
  async (t) => {
    // With the clock of the test before, which is a day ahead.
    const { context, page, complaints } = opened;
    const refusal = {
      type: 'about:blank',
      title: 'Refused',
      status: 400,
      code: 'bad_request',
      detail: 'No.',
      requestId: 'r',
    };
    const endRefusal = await answerInstead(context, '**/metrics?*', (route) =>
      route.fulfill({ status: 400, contentType: 'application/problem+json', body: JSON.stringify(refusal) }),
    );
    await tab(page, 'Metrics');
    await page.getByRole('alert').getByText('Could not load').waitFor();
    endRefusal();
    await page.getByLabel('Period').selectOption({ label: 'The last week' });
    await page.getByRole('table', { name: 'Handlers' }).waitFor();
    const read = page.waitForResponse(/metrics\?.*step=60$/);
    await page.getByLabel('Period').selectOption({ label: 'The last hour' });
    await read;
    await page.getByRole('table', { name: 'Handlers' }).waitFor();

    const counts = { calls: 1, errors: 0, timeouts: 0, hostCalls: 0, denials: 0, logLines: 0, restarts: 0 };
    const point = { ...counts, p50Ms: 1, p95Ms: 1, memoryMaxBytes: 0 };
    const points = ['2026-01-01T12:00:00.000Z', '2026-01-02T12:00:00.000Z'].map((at) => ({ ...point, at }));
    await answerInstead(context, '**/metrics?*', (route) => route.fulfill({ json: { points, handlers: [] } }));
    await page.getByLabel('Period').selectOption({ label: 'The last day' });
    await page
      .locator('.chart-times')
      .first()
      .getByText(/^Jan \d, \d+:\d\d/)
      .first()
      .waitFor();
    t.same(complaints, []);
  },
);

interface Scrolled {
  readonly scrollHeight: number;
  readonly scrollTop: number;
  readonly clientHeight: number;
}
const MEASURE_TO_END = (view: object): number => {
  const { scrollHeight, scrollTop, clientHeight } = view as Scrolled;
  return scrollHeight - scrollTop - clientHeight;
};
const isFocused = (element: object): boolean =>
  element === (globalThis as unknown as { document: { activeElement: object } }).document.activeElement;

const SCROLL_TO_TOP = (view: object): void => {
  Object.assign(view, { scrollTop: 0 });
};

async function withDatabase(run: (pool: Pool) => Promise<void>): Promise<void> {
  const { DATABASE_URL = '' } = service.env as { DATABASE_URL?: string };
  const { pool, close } = openPool(DATABASE_URL, { name: 'test', connections: 1, onError: () => undefined });
  await run(pool);
  await close();
}
