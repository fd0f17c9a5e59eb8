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
