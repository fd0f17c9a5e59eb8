/** Requires that an installation is the caller's own draft, for routes that only its author may use. */
import type { Pool } from 'pg';
import { type InstalledPlugin, loadInstalledPlugin } from '../../db/installations/account-plugins.ts';
import { findInstallation } from '../../db/installations/installations.ts';
import { mayRun } from '../../db/installations/run-rule.ts';
import { Problem } from '../../sdk/contract/errors.ts';

/**
 * Returns the caller's installation of their own draft, if it may run.
 *
 * @throws Problem `not_found`, `not_a_draft`, `not_running`
 */
export async function requireOwnDraft(pool: Pool, accountId: string, installationId: string): Promise<InstalledPlugin> {
  const installation = await findInstallation(pool, accountId, installationId);
  const plugin = installation && (await loadInstalledPlugin(pool, installationId));
  if (!plugin) throw new Problem('not_found', 'You have no installation with this id.');
  if (installation.versionPolicy !== 'Draft' || plugin.pluginOwnerId !== accountId)
    throw new Problem('not_a_draft', 'This works only for your own draft. Install it with the policy Draft.');
  if (!mayRun(plugin)) throw new Problem('not_running', 'The installation does not run. Its status says why.');
  return plugin;
}

/**
 * Returns the same once the draft that was saved last runs: saving it began an update.
 *
 * @param finishUpdate waits until no update of the installation is under way
 * @throws Problem `not_running` with why it did not start
 */
export async function requireSavedDraft(
  { pool, finishUpdate }: { readonly pool: Pool; finishUpdate(installationId: string): Promise<void> },
  accountId: string,
  installationId: string,
): Promise<InstalledPlugin> {
  await requireOwnDraft(pool, accountId, installationId);
  await finishUpdate(installationId);
  const installation = await findInstallation(pool, accountId, installationId);
  if (installation?.failedReason)
    throw new Problem('not_running', `The draft does not start: ${installation.failedReason}.`);
  if (installation?.targetVersionId)
    throw new Problem('not_running', 'The draft has not started yet. The installation says what its update waits for.');
  return requireOwnDraft(pool, accountId, installationId);
}
