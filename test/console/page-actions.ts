/**
 * Where each operation of the REST interface is in the console, in the order in which the parity test runs them: a
 * plugin is made, published, installed, used, updated and removed, all of it on pages.
 */
import type { Route } from 'playwright-core';
import { REPLAY_MAX } from '../../sdk/contract/limits.ts';
import { accounts, signingOut, tokens } from './account-actions.ts';
import { authoring, create } from './authoring-actions.ts';
import { allowUpdate, go, type PageAction, press, pressInDialog, tab } from './console-fixture.ts';
import { failInstallation, installationThat, publish } from './front-desk.ts';
import { figures, operating } from './operating-actions.ts';

const signingIn: readonly PageAction[] = [
  {
    operation: 'GET /sign-in',
    where: 'any address, signed out',
    does: ({ page, service }) => page.goto(service.url),
  },
  {
    operation: 'POST /sign-in',
    where: 'sign-in: paste a token',
    async does({ page, service }) {
      await page.getByLabel('Token').first().fill(service.token);
      await press(page, 'Sign in');
    },
  },
  {
    operation: 'GET /me',
    where: 'the account’s menu shows who it is',
    async does({ page }) {
      await page.reload();
      await page.getByRole('button', { name: 'local' }).waitFor();
    },
  },
];

const installing: readonly PageAction[] = [
  { operation: 'GET /marketplace', where: 'Catalog', does: ({ page }) => go(page, 'Catalog') },
  { operation: 'GET /marketplace/{slug}', where: 'Catalog: a card', does: ({ page }) => go(page, 'Front desk') },
  {
    operation: 'POST /installations',
    where: 'Catalog entry: Install, without its secret yet',
    async does({ page }) {
      await press(page, 'Install');
      await page.getByRole('dialog').getByLabel('I allow this plugin').check();
      await pressInDialog(page, 'Install');
      await page.getByText('needs settings').waitFor();
    },
  },
  {
    operation: 'POST /installations/{id}/configure',
    where: 'Installation: Settings, Save',
    async does({ page, service }) {
      await page.getByText('Set API key (key) before it can run.').waitFor();
      await go(page, 'Go to its settings');
      await press(page, 'Save');
      await page.getByText('API key is required.').waitFor();
      await page.locator('input:focus').fill('k3y');
      await press(page, 'Save');
      await page.getByText('Saved', { exact: true }).waitFor();
      await installationThat(service, ({ status }) => status === 'ready');
    },
  },
  { operation: 'GET /installations', where: 'Installations', does: ({ page }) => go(page, 'Installations') },
  { operation: 'GET /installations/{id}', where: 'Installations: a name', does: ({ page }) => go(page, 'Front desk') },
  {
    operation: 'GET /installations/{id}/update-changes',
    where: 'Installation: the update that asks for consent',
    async does({ page, service }) {
      const { pluginId } = await installationThat(service, ({ status }) => status === 'ready');
      await publish(service, pluginId, '1.1.0', 'host.storage, host.agents, host.llm');
      await page.getByText('readme.md', { exact: true }).waitFor();
    },
  },
  {
    operation: 'POST /installations/{id}/accept-update',
    where: 'Installation: I allow this plugin what is listed above, Update',
    async does({ page }) {
      await allowUpdate(page, '1.1.0');
      await page.getByText('1.1.0 asks for more access').waitFor({ state: 'detached' });
    },
  },
  {
    operation: 'PATCH /installations/{id}',
    where: 'Installation: Runs, Save',
    async does({ page, service }) {
      await page.getByLabel('Runs').selectOption({ label: 'Only 1.0.0' });
      await press(page, 'Save');
      await installationThat(service, ({ currentSemVer }) => currentSemVer === '1.0.0');
    },
  },
  {
    operation: 'POST /installations/{id}/retry-update',
    where: 'Installation: Try again, after a version that does not start',
    async does({ page, service }) {
      const { id, pluginId, currentVersionId } = await installationThat(service, ({ status }) => status === 'ready');
      const capabilities = 'host.storage, host.agents';
      // Only a real start has the grant.
      const more = 'if (host.storage) throw new Error("no");';
      const broken = await publish(service, pluginId, '1.2.0', capabilities, { more });
      const pin = (pinnedVersionId: string) =>
        service.call('PATCH', `/api/installations/${id}`, { versionPolicy: 'Pinned', pinnedVersionId });
      await pin(broken);
      await installationThat(service, ({ failedUpdate }) => failedUpdate !== null);
      await press(page, 'Try again');
      await page.getByText('The update is tried again').waitFor();
      await pin(currentVersionId);
      await installationThat(service, ({ failedUpdate }) => failedUpdate === null);
    },
  },
];

const watching: readonly PageAction[] = [
  { operation: 'GET /plugin-logs', where: 'Installation: Logs', does: ({ page }) => tab(page, 'Logs') },
  {
    operation: 'GET /plugin-logs/stream',
    where: 'Installation: Logs, which follow by themselves',
    async does({ page }) {
      await page.getByText('error', { exact: true }).first().click();
      await page.getByText('live', { exact: true }).waitFor();
    },
  },
  {
    operation: 'POST /installations/{id}/channels',
    where: 'Installation: Channels, Connect',
    async does({ page, service }) {
      await tab(page, 'Channels');
      await page.getByLabel('New channel').fill('Inbox');
      const agent = (await service.call('GET', '/api/agents')).body.items[0];
      await page.getByLabel('Agent', { exact: true }).fill(agent.id);
      await page.getByText(agent.name, { exact: true }).waitFor();
      await press(page, 'Connect');
      await page.getByLabel('Webhook address for the vendor').waitFor();
      await page.getByText(`answered by ${agent.id}`).waitFor();
    },
  },
  {
    operation: 'GET /installations/{id}/deliveries',
    where: 'Installation: Channels, the list below',
    async does({ page, service }) {
      const address = await page.getByLabel('Webhook address for the vendor').inputValue();
      await service.call('POST', address, { hello: 'desk' });
      await page.getByRole('table', { name: 'Deliveries' }).getByText('delivered', { exact: true }).waitFor();
    },
  },
  {
    operation: 'GET /installations/{id}/deliveries/{deliveryId}',
    where: 'Installation: Channels, Open',
    does: ({ page }) => press(page, /^Open the delivery/),
  },
  {
    operation: 'POST /installations/{id}/deliveries/{deliveryId}/replay',
    where: 'Delivery: Replay',
    async does({ page }) {
      await pressInDialog(page, 'Replay');
      await page.getByText('It is delivered again').waitFor();
      await pressInDialog(page, 'Close');
    },
  },
  {
    operation: 'POST /installations/{id}/deliveries/{deliveryId}/try-now',
    where: 'Delivery: Try now, of one that failed',
    async does({ page, service }) {
      const address = await page.getByLabel('Webhook address for the vendor').inputValue();
      await service.call('POST', address, { a: 'poison' });
      await page.getByText('It failed once').waitFor();
      await press(page, /^Open the delivery/);
      await pressInDialog(page, 'Try now');
      await page.getByText('It is attempted now').waitFor();
    },
  },
  {
    operation: 'POST /installations/{id}/deliveries/{deliveryId}/give-up',
    where: 'Delivery: Give up, of one that is set aside',
    async does({ page }) {
      await page.getByRole('dialog').getByText('set aside', { exact: true }).waitFor();
      await pressInDialog(page, 'Give up');
      await page
        .getByRole('dialog', { name: 'Give up this delivery' })
        .getByRole('button', { name: 'Give up' })
        .click();
      await page.getByText('The delivery is a dead letter').waitFor();
      await pressInDialog(page, 'Close');
    },
  },
  {
    operation: 'POST /installations/{id}/deliveries/replay',
    where: 'Installation: Channels, Replay all dead ones',
    async does({ page }) {
      await page.getByLabel('Channel', { exact: true }).selectOption({ label: 'Inbox' });
      await press(page, 'Replay all dead ones of Inbox');
      await page.getByText('1 delivery is queued again').waitFor();
      const ofMany = (route: Route) => route.fulfill({ json: { replayed: REPLAY_MAX } });
      await page.route('**/deliveries/replay', ofMany, { times: 1 });
      await press(page, 'Replay all dead ones of Inbox');
      await page.getByText('10,000 deliveries are queued again. There may be more: replay them, too').waitFor();
    },
  },
  {
    operation: 'POST /installations/{id}/channels/{channelId}/replace-address',
    where: 'Installation: Channels, Replace address',
    async does({ page }) {
      await press(page, /^Replace address of/);
      await pressInDialog(page, /^Replace address of/);
    },
  },
  {
    operation: 'DELETE /installations/{id}/channels/{channelId}',
    where: 'Installation: Channels, Disconnect',
    async does({ page }) {
      await press(page, /^Disconnect/);
      await pressInDialog(page, /^Disconnect/);
      await page.getByText('No channel is connected').waitFor();
    },
  },
  {
    operation: 'GET /installations/{id}/events',
    where: 'Installation: Events',
    does: ({ page }) => tab(page, 'Events'),
  },
  {
    operation: 'POST /installations/{id}/events/{eventId}/replay',
    where: 'Installation: Events, Replay',
    does: ({ page }) => press(page, /^Replay \w+ of/),
  },
  {
    operation: 'GET /installations/{id}/audit',
    where: 'Installation: Host calls',
    does: ({ page }) => tab(page, 'Host calls'),
  },
  { operation: 'GET /installations/{id}/usage', where: 'Installation: Usage', does: ({ page }) => tab(page, 'Usage') },
];

const agents: readonly PageAction[] = [
  { operation: 'GET /me/usage', where: 'Storage', does: ({ page }) => go(page, 'Storage') },
  { operation: 'GET /agents', where: 'Agents', does: ({ page }) => go(page, 'Agents') },
  {
    operation: 'GET /agents/{id}',
    where: 'Agents: Open',
    async does({ page }) {
      await press(page, 'Open Night clerk');
      await page.getByRole('dialog').getByText('Answer at night.').waitFor();
      await pressInDialog(page, 'Close');
    },
  },
  {
    operation: 'DELETE /agents/{id}',
    where: 'Agents: Remove',
    async does({ page }) {
      await press(page, 'Remove Night clerk');
      await pressInDialog(page, 'Remove Night clerk');
      await page.getByText('No plugin keeps an agent').waitFor();
      await go(page, 'Installations');
      await go(page, 'Front desk');
    },
  },
];

const ending: readonly PageAction[] = [
  {
    operation: 'POST /installations/{id}/restart',
    where: 'Installation: Restart, of one that has failed',
    async does({ page, service }) {
      await tab(page, 'Overview');
      const { id } = await installationThat(service, ({ status }) => status === 'ready');
      await failInstallation(service, id, 'it exceeded its memory limit');
      await press(page, 'Restart');
      await page.getByText('Its failure count is reset').waitFor();
    },
  },
  {
    operation: 'POST /installations/{id}/pause',
    where: 'Installation: Pause, of one that is required',
    async does({ page }) {
      await press(page, 'Pause');
      await pressInDialog(page, 'Pause');
    },
  },
  {
    operation: 'POST /installations/{id}/resume',
    where: 'Installation: Resume',
    does: ({ page }) => press(page, 'Resume'),
  },
  {
    operation: 'POST /installations/{id}/rerun-setup',
    where: 'Installation: Run setup again',
    does: ({ page }) => press(page, 'Run setup again'),
  },
  {
    operation: 'DELETE /installations/{id}',
    where: 'Installation: Uninstall',
    async does({ page }) {
      await press(page, 'Uninstall');
      await pressInDialog(page, 'Uninstall');
      await page.getByText('Nothing is installed yet').waitFor();
    },
  },
  {
    operation: 'POST /plugins/{id}/versions/{versionId}/yank',
    where: 'Plugin: Yank',
    async does({ page }) {
      await go(page, 'My plugins');
      await go(page, 'Front desk');
      await press(page, /^Yank/);
      await pressInDialog(page, /^Yank/);
      await page.getByText('yanked', { exact: true }).waitFor();
    },
  },
  {
    operation: 'DELETE /plugins/{id}/listing',
    where: 'Plugin: Take out of the catalog',
    async does({ page }) {
      await press(page, 'Take out of the catalog');
      await pressInDialog(page, 'Take out of the catalog');
      await page.getByText('delisted', { exact: true }).waitFor();
    },
  },
  {
    operation: 'DELETE /plugins/{id}',
    where: 'Plugin: Delete, of one without a published version',
    async does({ page }) {
      await go(page, 'My plugins');
      await create(page, 'Mistake', 'mistake');
      await press(page, 'Delete');
      await pressInDialog(page, 'Delete');
      await page.getByText('The plugin is deleted').waitFor();
    },
  },
  {
    operation: 'POST /sign-out',
    where: 'the account’s menu: Sign out everywhere',
    async does({ page, service }) {
      await press(page, 'local');
      await page.getByRole('menuitem', { name: 'Sign out everywhere' }).click();
      await page.getByLabel('Token').first().fill(service.token);
      await press(page, 'Sign in');
    },
  },
  {
    operation: 'GET /docs',
    where: 'the account’s menu: REST interface',
    async does({ page }) {
      await press(page, 'local');
      await page.getByRole('menuitem', { name: 'REST interface' }).click();
      await page.getByRole('heading', { level: 1 }).waitFor();
    },
  },
  { operation: 'GET /openapi.json', where: 'REST interface: OpenAPI 3.1', does: ({ page }) => go(page, 'OpenAPI 3.1') },
];

export const pageActions: readonly PageAction[] = [
  ...signingIn,
  ...tokens,
  ...authoring,
  ...installing,
  ...watching,
  ...figures,
  ...agents,
  ...operating,
  ...accounts,
  ...ending,
  ...signingOut,
];
