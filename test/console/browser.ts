/** A real browser for the console's tests and measurements: from npm, so that nothing else need be installed. */
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import chromium from '@sparticuz/chromium';
import axe, { type AxeResults, type RunOptions } from 'axe-core';
import {
  type Browser,
  type BrowserContext,
  chromium as driver,
  type Page,
  type Response,
  type Route,
} from 'playwright-core';
import type { CalledService } from '../deploy/service-fixture.ts';
import type { Teardown } from '../runner/harness.ts';
import { getRootTest } from '../runner/leak-guard.ts';
import { BROWSER_VARIABLE, unpackBrowser } from '../runner/unpacked-browser.ts';

const SMALL = { width: 390, height: 844 };
const WIDE = { width: 1280, height: 900 };
/** Rules that no page may violate: those of WCAG and related best practices. */
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
/**
 * Those of the package are for a cloud function: in one process a closed page takes the browser along, and without web
 * security what a user's browser forbids would go unnoticed.
 */
const NOT_OURS = /^--(single-process|no-zygote|disable-web-security|disable-site-isolation|allow-running-insecure)/;
// No page needs WebGL, and its emulation takes half of a processor.
chromium.setGraphicsMode = false;
/** Most code of a page runs a few times: to optimize it takes a tenth more of the browser's processor time than it saves. */
const COMPILER = '--js-flags=--no-opt --no-maglev --single-threaded-gc';
const ARGUMENTS = [...chromium.args.filter((one) => !NOT_OURS.test(one)), '--disable-gpu', COMPILER];
/**
 * Variables that the browser adds to its own environment while its threads read it, which ends it with SIGSEGV once in some dozen
 * starts. A variable that is there already is changed in place.
 */
const SET_BY_BROWSER = { DBUS_SESSION_BUS_ADDRESS: 'disabled:', FC_FONTATIONS: '1', VK_ICD_FILENAMES: '' };
/** Beside other tests everything takes its time, milliseconds. */
const PATIENCE_MS = 90_000;
/** Characters of an offending element that a report shows. */
const PIECE_CHARS = 160;

/** Starts it, unpacked before if `npm test` has not done so; it ends with the test. */
export async function startBrowser(t: Teardown): Promise<Browser> {
  const folder = await mkdtemp(join(tmpdir(), 'bulkhead-browser-'));
  const executablePath = process.env[BROWSER_VARIABLE] ?? (await unpackBrowser(folder));
  const beside = dirname(executablePath);
  const env = {
    ...process.env,
    TMPDIR: folder,
    HOME: folder,
    LD_LIBRARY_PATH: join(beside, 'al2023', 'lib'),
    ...SET_BY_BROWSER,
    ...(existsSync('/etc/fonts') ? {} : { FONTCONFIG_PATH: join(beside, 'fonts') }),
  } as Record<string, string>;
  const browser = await driver.launch({ executablePath, args: ARGUMENTS, headless: true, env });
  t.teardown(async () => {
    await browser.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  return browser;
}

let shared: Promise<Browser> | undefined;

/** The browser of this process, started by the first file that asks for it. A file's pages are closed with the file. */
export async function shareBrowser(t: Teardown): Promise<Browser> {
  shared ??= startBrowser(getRootTest());
  const browser = await shared;
  t.teardown(() => Promise.all(browser.contexts().map((context) => context.close())));
  return browser;
}

/**
 * Answers requests for these addresses instead of the service, until the returned function is called. The route itself stays:
 * a request that is sent while the driver ends its interception may never get a response.
 */
export async function answerInstead(
  context: BrowserContext,
  addresses: string,
  answer: (route: Route) => Promise<void>,
) {
  let isOver = false;
  await context.route(addresses, (route) => (isOver ? route.continue() : answer(route)));
  return () => {
    isOver = true;
  };
}

/** Passes on the request, as when only its response is lost. */
export async function loseResponse(route: Route): Promise<void> {
  await route.fetch();
  await route.abort();
}

/** Passes on the request, as when a proxy before the service loses the response. */
export async function loseResponseBehindProxy(route: Route): Promise<void> {
  await route.fetch();
  await route.fulfill({ status: 504, contentType: 'text/html', body: '<h1>Gateway timeout</h1>' });
}

/** Fails the first two requests for these addresses: as when a new version replaced the file, and as when a request is lost. */
export async function failTwice(context: BrowserContext, addresses: string): Promise<void> {
  const failures = [(route: Route) => route.fulfill({ status: 404 }), (route: Route) => route.abort()];
  await context.route(addresses, (route) => failures.shift()?.(route) ?? route.continue());
}

export interface Look {
  readonly scheme: 'light' | 'dark';
  readonly size: 'wide' | 'phone';
}
export const LOOKS: readonly Look[] = [
  { scheme: 'light', size: 'wide' },
  { scheme: 'dark', size: 'wide' },
  { scheme: 'dark', size: 'phone' },
  { scheme: 'light', size: 'phone' },
];

/** A service as the account of a token calls it. */
export type SignedInService = Pick<CalledService, 'url' | 'token'>;

/** A page of its own with whatever it complains about, signed out or signed in by a link. */
export async function openConsole(browser: Browser, address: string): Promise<OpenConsole> {
  return openTab(await openContext(browser), address);
}

/** The same, signed in as the account of the token. @param path of the page */
export async function openSignedIn(browser: Browser, service: SignedInService, path = '/'): Promise<OpenConsole> {
  const context = await openContext(browser);
  await signIn(context, service);
  return openTab(context, service.url + path);
}

async function openContext(browser: Browser): Promise<BrowserContext> {
  const context = await browser.newContext({ viewport: WIDE, acceptDownloads: true, reducedMotion: 'reduce' });
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  context.setDefaultTimeout(PATIENCE_MS);
  return context;
}

/** Exchanges the token for the console's cookie, as its sign-in page does. All pages of the context have it. */
export async function signIn({ request }: BrowserContext, { url, token }: SignedInService): Promise<void> {
  const headers = { origin: url, 'x-bulkhead-console': '1' };
  const response = await request.post(`${url}/api/sign-in`, { headers, data: { token }, failOnStatusCode: true });
  await response.dispose();
}

/**
 * A further page of a context. It shares sessions and the cache of files: a page in a new context takes three times as much
 * processor time.
 */
export async function openTab(context: BrowserContext, address: string): Promise<OpenConsole> {
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    // A refusal of the service is written there by the browser itself.
    const isRefusal = message.text().startsWith('Failed to load resource');
    if (message.type() === 'error' && !isRefusal) complaints.push(message.text());
  });
  page.on('dialog', (dialog) => {
    complaints.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  // The page exchanges the link for a cookie; leaving it before would end that.
  const exchanges = address.includes('#code=');
  const isExchange = (response: Response) =>
    response.url().endsWith('/api/sign-in') && response.request().method() === 'POST';
  const exchanged = exchanges ? page.waitForResponse(isExchange) : undefined;
  await page.goto(address);
  await exchanged;
  return { context, page, complaints };
}

export interface SharedConsole {
  /** As the test before left it. */
  readonly opened: OpenConsole;
  /** Opens a path in it, without the routes, complaints, window size and typed text of the tests before. */
  openAt(path?: string, size?: { readonly width: number; readonly height: number }): Promise<OpenConsole>;
}

/** A page that the tests of a file share, signed in. A page in a new context takes three times as much processor time as a new address. */
export async function shareConsole(browser: Browser, service: SignedInService): Promise<SharedConsole> {
  const context = await openContext(browser);
  await signIn(context, service);
  // Before the page's own listeners, which ask about text that is not saved.
  await context.addInitScript(`addEventListener('beforeunload', (event) => {
    if (globalThis.isLeft) event.stopImmediatePropagation();
  }, true)`);
  const picture = `${service.url}/icon.svg`;
  const opened = await openTab(context, picture);
  const { page, complaints } = opened;
  return {
    opened,
    async openAt(path = '/', size = WIDE) {
      await page.evaluate('globalThis.isLeft = true');
      // Of the same origin, so that the browser starts no other process. No request may be under way while the driver ends its
      // interception: it may never get a response.
      await page.goto(picture);
      for (const routed of [context, page]) await routed.unrouteAll({ behavior: 'ignoreErrors' });
      await page.setViewportSize(size);
      complaints.length = 0;
      await page.goto(service.url + path);
      return opened;
    },
  };
}

export interface OpenConsole {
  readonly context: BrowserContext;
  readonly page: Page;
  readonly complaints: string[];
}

export async function look(page: Page, { scheme, size }: Look): Promise<void> {
  await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
  await page.setViewportSize(size === 'phone' ? SMALL : WIDE);
  // The page reacts to its new size in the next frame, when resize observers run.
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))');
}

/** Lists the violations that axe-core finds, one line each. The page's policy forbids script elements, so the driver evaluates axe. */
export async function violations(page: Page): Promise<string[]> {
  // axe-core is large, so each page loads it once.
  if (!(await page.evaluate<boolean>('typeof axe === "object"'))) await page.evaluate(axe.source);
  // During a transition, no element has its final colour. A spinner that waits for a response never stops.
  await page.evaluate(`Promise.allSettled(
    document.getAnimations().filter((one) => one.effect.getComputedTiming().endTime !== Infinity).map((one) => one.finished)
  ).then(() => 0)`);
  const options: RunOptions = { runOnly: { type: 'tag', values: RULES }, resultTypes: ['violations'] };
  // The rest of the results is as large as the page.
  const found = await page.evaluate<AxeResults['violations']>(
    `axe.run(${JSON.stringify(options)}).then(({ violations }) => violations)`,
  );
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, PIECE_CHARS)).join(' | ')}`);
}

/**
 * Buttons that may share a name: those of rows of the same second, which look the same, those that do the same, and those of the
 * code in the documentation, which have no better name.
 */
const MAY_REPEAT = /\d:\d\d:\d\d|^(Verify|Unverify) author |^Copy$/;

/** Names that several buttons of the page's main part share: a screen reader's list of them does not say which is which. */
export async function repeatedButtons(page: Page): Promise<string[]> {
  const snapshots = await Promise.all((await page.getByRole('main').all()).map((main) => main.ariaSnapshot()));
  const names = [...snapshots.join('\n').matchAll(/- button "(.+?)"(?: \[|:|$)/gm)].map(([, name = '']) => name);
  return names.filter((name, at) => names.indexOf(name) !== at && !MAY_REPEAT.test(name));
}

/** Whether something is wider than the page. */
export const scrollsSideways = (page: Page): Promise<boolean> =>
  page.evaluate<boolean>('document.documentElement.scrollWidth > document.documentElement.clientWidth + 1');
