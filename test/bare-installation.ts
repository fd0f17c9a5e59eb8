/** An installation that is a row and nothing else: for tests of what hangs on one, not of what it runs. */
import type { Pool } from 'pg';

export interface BareInstallation {
  readonly accountId: string;
  readonly pluginId?: string;
  readonly slug?: string;
  readonly installationId?: string;
}

/** Writes a plugin and its installation, ready, without a version. */
export async function insertBareInstallation(
  pool: Pool,
  { accountId, pluginId = 'p', slug = pluginId, installationId = 'i' }: BareInstallation,
): Promise<void> {
  await pool.query('INSERT INTO plugins (id, owner_id, slug, display_name) VALUES ($1, $2, $3, $3)', [
    ...[pluginId, accountId, slug],
  ]);
  await pool.query(
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, granted_capabilities, status, hook_order)
     VALUES ($1, $2, $3, 'Latest', '{}', 'ready', 1)`,
    [installationId, accountId, pluginId],
  );
}
