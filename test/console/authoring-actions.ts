/** Where the operations for authors are in the console, in the order in which the parity test runs them. */
import type { Page } from 'playwright-core';
import { type ConsoleFixture, go, type PageAction, press, pressInDialog } from './console-fixture.ts';

async function dropFolder({ page, folder }: ConsoleFixture): Promise<void> {
  await page.locator('input[webkitdirectory]').setInputFiles(folder);
  await page.getByRole('region', { name: 'Package' }).getByText('readme.md').waitFor();
}
async function publishAs(page: Page, semVer: string): Promise<void> {
  await page.getByRole('textbox', { name: 'Version', exact: true }).fill(semVer);
  await press(page, 'Publish');
  await page.getByRole('cell', { name: semVer, exact: true }).waitFor();
}
export async function create(page: Page, name: string, slug: string): Promise<void> {
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Slug').fill(slug);
  await press(page, 'Create');
  await page.getByRole('heading', { level: 1, name }).waitFor();
}

export const authoring: readonly PageAction[] = [
  { operation: 'GET /plugins', where: 'My plugins', does: ({ page }) => go(page, 'My plugins') },
  {
    operation: 'POST /plugins',
    where: 'My plugins: New plugin',
    does: ({ page }) => create(page, 'Front desk', 'front-desk'),
  },
  {
    operation: 'GET /plugins/{id}',
    where: 'My plugins: the plugin’s name',
    async does({ page }) {
      await go(page, 'My plugins');
      await go(page, 'Front desk');
    },
  },
  {
    operation: 'PATCH /plugins/{id}',
    where: 'Plugin without versions: Rename',
    async does({ page }) {
      await press(page, 'Rename');
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Name').fill('Reception');
      await pressInDialog(page, 'Rename');
      await page.getByRole('heading', { level: 1, name: 'Reception' }).waitFor();
    },
  },
  {
    operation: 'POST /plugins/{id}/versions',
    where: 'Plugin: drop a folder, Publish',
    async does(fixture) {
      await dropFolder(fixture);
      await publishAs(fixture.page, '1.0.0');
    },
  },
  {
    operation: 'POST /plugins/{id}/versions/zip',
    where: 'Plugin: drop a zip, Publish',
    async does({ page, zip }) {
      await page.locator('input[accept*=zip]').setInputFiles(zip);
      await page.getByText(/^front-desk\.zip, /).waitFor();
      await publishAs(page, '1.0.1');
    },
  },
  {
    operation: 'POST /plugins/{id}/draft',
    where: 'Plugin: drop a folder, Save as draft',
    async does(fixture) {
      await dropFolder(fixture);
      await press(fixture.page, 'Save as draft');
      await fixture.page.getByText('The draft is saved.').waitFor();
    },
  },
  {
    operation: 'GET /plugins/{id}/versions/{versionId}/files',
    where: 'Plugin: Files of a version',
    async does({ page }) {
      await press(page, /^Files of/);
      await page.getByRole('dialog').getByText('inboundMessage').waitFor();
    },
  },
  {
    operation: 'GET /plugins/{id}/versions/{versionId}/archive',
    where: 'Plugin: Files of a version, Save files',
    async does({ page }) {
      const saved = page.waitForEvent('download');
      await pressInDialog(page, 'Save files');
      await saved;
    },
  },
  {
    operation: 'GET /plugins/{id}/versions/{versionId}/agent-plugin',
    where: 'Plugin: Files of a version, Save as agent plugin',
    async does({ page }) {
      const saved = page.waitForEvent('download');
      await pressInDialog(page, 'Save as agent plugin');
      await saved;
      await pressInDialog(page, 'Close');
    },
  },
  {
    operation: 'POST /plugins/{id}/listing',
    where: 'Plugin: List in the catalog',
    async does({ page }) {
      await press(page, 'List in the catalog');
      await page.getByRole('button', { name: 'Take out of the catalog' }).waitFor();
    },
  },
];
