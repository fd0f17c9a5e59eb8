/** Actions of users on their tokens, and of operators on accounts, on pages. */
import { issueToken } from '../../deploy/issue-token.ts';
import { confirm, go, type PageAction, press, pressInDialog, tab } from './console-fixture.ts';

export const tokens: readonly PageAction[] = [
  {
    operation: 'GET /me/tokens',
    where: 'Tokens',
    async does({ page, service }) {
      await issueToken(['local', '--name', 'laptop'], () => service.env);
      await go(page, 'Tokens');
      await page.getByRole('table', { name: 'Your tokens' }).waitFor();
    },
  },
  {
    operation: 'PATCH /me/tokens/{id}',
    where: 'Tokens: Rename',
    async does({ page }) {
      await press(page, 'Rename laptop');
      await page.getByRole('dialog').getByLabel('Name').fill('lost');
      await pressInDialog(page, 'Rename laptop');
      await page.getByRole('button', { name: 'Revoke lost' }).first().waitFor();
    },
  },
  {
    operation: 'DELETE /me/tokens/{id}',
    where: 'Tokens: Revoke',
    async does({ page }) {
      await press(page, 'Revoke lost');
      await pressInDialog(page, 'Revoke lost');
      await page.getByText('lost is revoked').waitFor();
    },
  },
  {
    operation: 'GET /me/delegations',
    where: 'Tokens: Services that act for you',
    async does({ page }) {
      await page.reload();
      await page.getByText('No service may act for you.').waitFor();
    },
  },
  {
    operation: 'POST /me/delegations',
    where: 'Tokens: Allow a service',
    async does({ page }) {
      await press(page, 'Allow a service');
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Name').fill('Helpdesk');
      await dialog.getByLabel('Issuer').fill('https://issuer.example');
      await dialog.getByLabel('Subject').fill('helpdesk');
      await dialog.getByLabel('Read sessions').check();
      await pressInDialog(page, 'Allow a service');
      await page.getByRole('table', { name: 'Services that act for you' }).waitFor();
    },
  },
  {
    operation: 'GET /me/actions',
    where: 'Tokens: Changes of SSH hosts and services',
    async does({ page }) {
      await page.reload();
      await page
        .getByRole('table', { name: 'Changes of SSH hosts and services' })
        .getByText('delegation.add')
        .waitFor();
    },
  },
  {
    operation: 'DELETE /me/delegations/{id}',
    where: 'Tokens: Services that act for you, Remove',
    async does({ page }) {
      await press(page, 'Remove Helpdesk');
      await pressInDialog(page, 'Remove Helpdesk');
      await page.getByText('Helpdesk may no longer act for you').waitFor();
    },
  },
];

export const accounts: readonly PageAction[] = [
  {
    operation: 'GET /operator/accounts',
    where: 'Administration: Accounts',
    async does({ page, service }) {
      await issueToken(['bob', '--name', 'tablet'], () => service.env);
      await go(page, 'Administration');
      await tab(page, 'Accounts');
      await page.getByRole('button', { name: 'Suspend bob' }).first().waitFor();
    },
  },
  {
    operation: 'POST /operator/accounts/{name}/suspend',
    where: 'Administration: Accounts, Suspend',
    async does({ page }) {
      await press(page, 'Suspend bob');
      await page.getByRole('dialog').getByLabel('Reason').fill('Looked at');
      await pressInDialog(page, 'Suspend bob');
      await page.getByText('bob (suspended: Looked at)').waitFor();
    },
  },
  {
    operation: 'POST /operator/accounts/{name}/resume',
    where: 'Administration: Accounts, Resume',
    async does({ page }) {
      await press(page, 'Resume bob');
      await page.getByText('bob (suspended: Looked at)').waitFor({ state: 'detached' });
    },
  },
  {
    operation: 'POST /operator/accounts/{name}/appoint',
    where: 'Administration: Accounts, Appoint',
    async does({ page }) {
      await press(page, 'Appoint bob');
      await pressInDialog(page, 'Appoint bob');
      await page.getByText('bob is now an operator').waitFor();
    },
  },
  {
    operation: 'POST /operator/accounts/{name}/demote',
    where: 'Administration: Accounts, Demote',
    async does({ page }) {
      await press(page, 'Demote bob');
      await pressInDialog(page, 'Demote bob');
      await page.getByText('bob is no longer an operator').waitFor();
    },
  },
  {
    operation: 'GET /operator/accounts/{name}/tokens',
    where: 'Administration: Accounts, Tokens',
    does: ({ page }) => press(page, 'Tokens of bob'),
  },
  {
    operation: 'DELETE /operator/accounts/{name}/tokens/{id}',
    where: 'Administration: Accounts, Tokens, Revoke',
    async does({ page }) {
      await pressInDialog(page, 'Revoke tablet');
      await confirm(page, 'Revoke tablet');
      await page.getByText('Bulkhead has issued this account no token').waitFor();
    },
  },
  {
    operation: 'DELETE /operator/accounts/{name}/tokens',
    where: 'Administration: Accounts, Tokens, Revoke all tokens',
    async does({ page }) {
      await pressInDialog(page, 'Revoke all tokens');
      await confirm(page, 'Revoke all tokens');
      await page.getByText('All tokens of bob are revoked').waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      await go(page, 'Installations');
      await go(page, 'Front desk');
    },
  },
];

/** Last: it signs out. */
export const signingOut: readonly PageAction[] = [
  {
    operation: 'DELETE /me/tokens',
    where: 'Tokens: Revoke all tokens',
    async does({ page, service }) {
      await page.goto(`${service.url}/tokens`);
      await press(page, 'Revoke all tokens');
      await pressInDialog(page, 'Revoke all tokens');
      await page.getByLabel('Token').first().waitFor();
    },
  },
];
