/** The service that the pages are of, the fixture of the parity test's actions, and clicks that they share. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import rootTest from 'tap';
import {
  type CalledService,
  type Environment,
  startApiAlone,
  startApiAndSupervisor,
} from '../deploy/service-fixture.ts';
import { type Teardown, temporaryFolder, testDatabase } from '../runner/harness.ts';
import { BROWSER_VARIABLE } from '../runner/unpacked-browser.ts';

const BUILDER = fileURLToPath(new URL('../../console/build-console.ts', import.meta.url));

/** Starts API and supervisor without `npm start`. Builds the console before, if `npm test` has not done so with the whole run. */
export async function startConsoleService(t: Teardown, env: Environment = {}): Promise<CalledService> {
  await buildConsole();
  return startApiAndSupervisor(t, env);
}

/** Starts the API alone, for pages that ask the supervisor nothing. @returns its address */
export async function startConsoleApi(t: Teardown, env: Environment): Promise<string> {
  await buildConsole();
  const { url: DATABASE_URL } = await testDatabase(t);
  const { url } = await startApiAlone(t, { ...env, DATABASE_URL, DATA_DIR: await temporaryFolder(t) });
  // The host of PUBLIC_URL, unless it is set.
  return url.replace('127.0.0.1', 'localhost');
}

async function buildConsole(): Promise<void> {
  if (process.env[BROWSER_VARIABLE] === undefined) await promisify(execFile)(process.execPath, [BUILDER]);
}

let shared: Promise<CalledService> | undefined;

/**
 * The service of this process, started by the first file that asks for it, as `shareBrowser` does with the browser. Each file calls it
 * as an account of its own, with slugs and names that no other file uses.
 */
export async function shareConsoleService(account: string): Promise<CalledService> {
  // A delivery that failed waits until it is tried on its page.
  shared ??= startConsoleService(rootTest, { DELIVERY_WAITS: '600,600' });
  return (await shared).asUser(account);
}

/** Uninstalls everything, for the next file of the same account: hooks of these plugins would run in its sessions. */
export async function uninstallAll(service: CalledService): Promise<void> {
  const { body } = await service.call('GET', '/api/installations');
  for (const { id } of body.items) await service.call('DELETE', `/api/installations/${id}`);
}

export interface ConsoleFixture {
  readonly page: Page;
  readonly service: CalledService;
  /** A package as a folder, and the same zipped. */
  readonly folder: string;
  readonly zip: string;
}
export interface PageAction {
  /** Method and path as the OpenAPI document has them. */
  readonly operation: string;
  /** Page, and what the user does there. */
  readonly where: string;
  readonly does: (fixture: ConsoleFixture) => Promise<unknown>;
}

export const press = (page: Page, name: string | RegExp) =>
  page.getByRole('button', { name, exact: true }).first().click();
export const pressInDialog = (page: Page, name: string | RegExp) =>
  page.getByRole('dialog').getByRole('button', { name, exact: true }).click();
/** Confirms what a button of another dialog asks. */
export const confirm = (page: Page, name: string) =>
  page
    .getByRole('dialog', { name: `${name}?` })
    .getByRole('button', { name, exact: true })
    .click();
/** Clicks where the mouse is. @param count the number of the click in a double click */
export async function clickByMouse({ mouse }: Page, count: number): Promise<void> {
  await mouse.down({ clickCount: count });
  await mouse.up({ clickCount: count });
}
export const go = (page: Page, name: string) => page.getByRole('link', { name, exact: true }).first().click();
export const tab = (page: Page, name: string) => page.getByRole('tab', { name }).click();
/** Consents to the update that the page of an installation shows. */
export async function allowUpdate(page: Page, semVer: string): Promise<void> {
  await page.getByRole('checkbox', { name: 'I allow this plugin what is listed above' }).check();
  await press(page, `Update to ${semVer}`);
}
