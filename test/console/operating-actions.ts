/** Pages on which users see the activity of their plugins, and on which operators act. */
import { go, type PageAction, press, pressInDialog, tab } from './console-fixture.ts';

export const figures: readonly PageAction[] = [
  {
    operation: 'GET /installations/{id}/metrics',
    where: 'Installation: Metrics',
    async does({ page }) {
      await tab(page, 'Metrics');
      await page.getByRole('table', { name: 'Handlers' }).waitFor();
    },
  },
];

/** While “front-desk” is installed. */
export const operating: readonly PageAction[] = [
  {
    operation: 'GET /operator/fleet',
    where: 'Administration: Processes',
    async does({ page }) {
      await go(page, 'Administration');
      await page.getByRole('heading', { name: 'Administration' }).waitFor();
    },
  },
  { operation: 'GET /operator/queues', where: 'Administration: Queues', does: ({ page }) => tab(page, 'Queues') },
  {
    operation: 'GET /operator/plugins',
    where: 'Administration: Plugins',
    async does({ page }) {
      await tab(page, 'Plugins');
      await page.getByRole('table', { name: 'Plugins by cost' }).waitFor();
    },
  },
  {
    operation: 'POST /operator/plugins/{slug}/block',
    where: 'Administration: Plugins, Block',
    async does({ page }) {
      await press(page, 'Block front-desk');
      await pressInDialog(page, 'Block front-desk');
      // Without a reason the dialog stays.
      await page.getByRole('dialog').getByLabel('Reason').fill('Looked at');
      await pressInDialog(page, 'Block front-desk');
      await page.getByText('blocked: Looked at').waitFor();
    },
  },
  {
    operation: 'POST /operator/plugins/{slug}/unblock',
    where: 'Administration: Plugins, Unblock',
    async does({ page }) {
      await press(page, 'Unblock front-desk');
      await page.getByText('blocked: Looked at').waitFor({ state: 'detached' });
    },
  },
  {
    operation: 'POST /operator/accounts/{name}/verify',
    where: 'Administration: Plugins, Verify',
    async does({ page }) {
      await press(page, 'Verify author local');
      await page.getByRole('dialog').getByText('Verify only an author whose identity you have checked').waitFor();
      await pressInDialog(page, 'Verify author local');
      await page.getByText('local (verified)').waitFor();
    },
  },
  {
    operation: 'POST /operator/accounts/{name}/unverify',
    where: 'Administration: Plugins, Unverify',
    async does({ page }) {
      await press(page, 'Unverify author local');
      await pressInDialog(page, 'Unverify author local');
      await page.getByText('local (verified)').waitFor({ state: 'detached' });
      await go(page, 'Installations');
      await go(page, 'Front desk');
    },
  },
];
