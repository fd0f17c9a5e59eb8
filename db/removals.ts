/** The end of an installation: everything it owned goes with it. */
import type { Pool } from 'pg';
import { removeAgentsOf } from './agents.ts';
import { deleteConversations } from './conversations.ts';
import { abandonEvents } from './events.ts';
import { dropMediaOf } from './media.ts';
import { sweepDeletedPlugins } from './plugins.ts';
import { inTransaction } from './pool.ts';
import type { Queues } from './queues.ts';

/**
 * Removes an installation that is being uninstalled, with secrets, storage, media, its agents and their chats, and
 * runtime state, and the row of a deleted plugin with its last one. Log lines and audit entries stay until their time is over: nobody can ask for them by an
 * installation that is gone.
 */
export async function removeInstallation(pool: Pool, installationId: string): Promise<void> {
  await inTransaction(pool, async (tx) => {
    await deleteConversations(tx, { installationId });
    await dropMediaOf(tx, installationId);
    await removeAgentsOf(tx, installationId);
    await tx.query(`DELETE FROM installations WHERE id = $1 AND status = 'uninstalling'`, [installationId]);
    await abandonEvents(tx, installationId, 'the installation was removed');
    await sweepDeletedPlugins(tx);
  });
}

/** When the plugin's last word, `pluginUninstalled`, was recorded; null when it was said, given up or never asked for. */
export async function findLastWord(pool: Pool, installationId: string): Promise<Date | null> {
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
