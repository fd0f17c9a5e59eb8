import type { Page } from 'playwright-core';
import t from 'tap';
import { startServiceOnTestDatabase } from '../deploy/service-fixture.ts';
import { openConsole, startBrowser } from './browser.ts';
import { installationThat, publishFrontDesk } from './front-desk.ts';

t.setTimeout(900_000);
/** Of compressed JavaScript, until the catalog can be used. */
const FIRST_LOAD_MAX_BYTES = 250_000;
const LINES = 100_000;
/** Rows in the page at once, whatever is in the log: those in sight, and some above and below. */
const ROWS_MAX = 120;
/** A jump to anywhere in the log, also on a busy machine, milliseconds. */
const JUMP_MAX_MS = 2_000;
const FRAMES = 150;

t.test('the first load is small, and a long log is as light as a short one', async (t) => {
  const service = await startServiceOnTestDatabase(t);
  await publishFrontDesk(service);
  const browser = await startBrowser(t);

  await t.test('the catalog comes with little JavaScript, the editor with none of it', async (t) => {
    const { page } = await openConsole(browser, 'about:blank');
    const scripts = new Map<string, Promise<number>>();
    page.on('requestfinished', (request) => {
      if (new URL(request.url()).pathname.endsWith('.js'))
        scripts.set(
          request.url(),
          request.sizes().then(({ responseBodySize }) => responseBodySize),
        );
    });
    await page.goto(`${service.url}/#token=${service.token}`);
    await page.getByRole('link', { name: 'Front desk' }).waitFor();
    const bytes = (await Promise.all(scripts.values())).reduce((sum, one) => sum + one, 0);
    t.comment(`${bytes} bytes of JavaScript in ${scripts.size} files`);
    t.ok(bytes > 0 && bytes < FIRST_LOAD_MAX_BYTES, `${bytes} bytes`);
    t.notOk([...scripts.keys()].some((url) => /editor|worker/.test(url)));
  });

  await t.test('a hundred thousand lines scroll', async (t) => {
    await service.call('POST', '/api/installations', { slug: 'front-desk' });
    const { id } = await installationThat(service, ({ slug }) => slug === 'front-desk');
    const { page, complaints } = await openConsole(browser, `${service.url}/#token=${service.token}`);
    await page.route(/\/api\/plugin-logs\?/, (route) =>
      route.fulfill({ json: { items: lines(id), nextCursor: null } }),
    );
    await page.goto(`${service.url}/installations/${id}?tab=logs`);
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
    await page.getByLabel('Contains').fill('line 77777 ');
    await page.getByText('1 line ·').waitFor();
    t.same(complaints, []);
  });
});

const lines = (installationId: string) =>
  Array.from({ length: LINES }, (_, at) => ({
    ...{ id: String(LINES - at), at: new Date(1.79e12 - at).toISOString(), level: at % 50 === 0 ? 'error' : 'info' },
    ...{ message: `line ${LINES - at} ${'x'.repeat(at % 90)}`, data: null, installationId, sessionId: null },
    ...{ source: 'middleware.inboundMessage', invocationId: null, versionId: 'v', semVer: '1.0.0', truncated: false },
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
