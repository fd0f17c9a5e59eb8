/** The end of an installation: everything it owned goes with it. */
import type { Pool } from 'pg';
import { deleteAgentsOfInstallation } from '../accounts/agents.ts';
import { releaseMediaOfInstallation } from '../accounts/media.ts';
import { sweepDeletedPlugins } from '../catalog/plugins.ts';
import type { Queues } from '../jobs/queues.ts';
import { inTransaction, type Transaction } from '../postgres/pool.ts';
import { deleteChannelSessions } from '../sessions/conversations.ts';
import { lockAccountSessions } from '../sessions/session-removal.ts';
import { abandonEvents } from './events.ts';

/**
 * Removes an installation that is being uninstalled, with secrets, storage, media, its agents and their chats, and
 * runtime state, and the row of a deleted plugin with its last one. Log lines and audit entries stay until their time is over: nobody can ask for them by an
 * installation that is gone.
 */
export async function removeInstallation(pool: Pool, queues: Queues, installationId: string): Promise<void> {
  await inTransaction(pool, async (tx) => {
    const accountId = await lockLeaving(tx, installationId);
    if (accountId === null) return;
    const of = { accountId, installationId };
    await deleteChannelSessions(tx, queues, of);
    await releaseMediaOfInstallation(tx, installationId);
    await deleteAgentsOfInstallation(tx, queues, of);
    await tx.query('DELETE FROM installations WHERE id = $1', [installationId]);
    await abandonEvents(tx, installationId, 'the installation was removed');
    await sweepDeletedPlugins(tx);
  });
}

/** Its account; null: there is nothing to remove. What adds to an installation waits for the end, and finds it gone. */
async function lockLeaving(tx: Transaction, installationId: string): Promise<string | null> {
  const found = await tx.query<{ accountId: string }>(
    'SELECT account_id AS "accountId" FROM installations WHERE id = $1',
    [installationId],
  );
  const accountId = found.rows[0]?.accountId;
  if (accountId === undefined) return null;
  await lockAccountSessions(tx, accountId);
  const locked = await tx.query(`SELECT 1 FROM installations WHERE id = $1 AND status = 'uninstalling' FOR UPDATE`, [
    installationId,
  ]);
  return locked.rowCount === 1 ? accountId : null;
}

/** When the plugin's last word, `pluginUninstalled`, was recorded; null when it was said, given up or never asked for. */
export async function findUninstallEventTime(pool: Pool, installationId: string): Promise<Date | null> {
  const found = await pool.query<{ occurredAt: Date }>(
    `SELECT occurred_at AS "occurredAt" FROM events
      WHERE installation_id = $1 AND type = 'pluginUninstalled' AND state = 'pending' ORDER BY id LIMIT 1`,
    [installationId],
  );
  return found.rows[0]?.occurredAt ?? null;
}

/** Gives a job to every installation whose removal was begun: what a kill left behind. */
export async function requeueRemovals(pool: Pool, queues: Queues): Promise<number> {
  const begun = await pool.query<{ id: string }>(`SELECT id FROM installations WHERE status = 'uninstalling'`);
  for (const { id } of begun.rows) await queues.send(pool, 'uninstall', { installationId: id }, { group: id });
  return begun.rows.length;
}
