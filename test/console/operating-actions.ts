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
    where: 'Operation: Processes',
    async does({ page }) {
      await go(page, 'Operation');
      await page.getByRole('heading', { name: 'Operation' }).waitFor();
    },
  },
  { operation: 'GET /operator/queues', where: 'Operation: Queues', does: ({ page }) => tab(page, 'Queues') },
  {
    operation: 'GET /operator/plugins',
    where: 'Operation: Plugins',
    async does({ page }) {
      await tab(page, 'Plugins');
      await page.getByRole('table', { name: 'Plugins by cost' }).waitFor();
    },
  },
  {
    operation: 'POST /operator/plugins/{slug}/block',
    where: 'Operation: Plugins, Block',
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
    where: 'Operation: Plugins, Unblock',
    async does({ page }) {
      await press(page, 'Unblock front-desk');
      await page.getByText('blocked: Looked at').waitFor({ state: 'detached' });
    },
  },
  {
    operation: 'POST /operator/accounts/{name}/verify',
    where: 'Operation: Plugins, Verify',
    async does({ page }) {
      await press(page, 'Verify local');
      await page.getByRole('dialog').getByText('Verify only an author whose identity you have checked').waitFor();
      await pressInDialog(page, 'Verify local');
      await page.getByText('local (verified)').waitFor();
    },
  },
  {
    operation: 'POST /operator/accounts/{name}/unverify',
    where: 'Operation: Plugins, Unverify',
    async does({ page }) {
      await press(page, 'Unverify local');
      await pressInDialog(page, 'Unverify local');
      await page.getByText('local (verified)').waitFor({ state: 'detached' });
      await go(page, 'Installations');
      await go(page, 'Front desk');
    },
  },
];
