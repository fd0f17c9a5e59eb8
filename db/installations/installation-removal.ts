/** Removes installations with everything they own. */
import type { Pool } from 'pg';
import { SECOND } from '../../sdk/contract/limits.ts';
import { listAgentSessions, lockAgents } from '../accounts/agents.ts';
import { lockMedia, releaseMediaOfInstallation } from '../accounts/media.ts';
import { sweepDeletedPlugins } from '../catalog/plugins.ts';
import { lockSecrets } from '../files/secrets.ts';
import type { Queues } from '../jobs/queues.ts';
import { inTransaction, readingPool, type Transaction, type WritingPool } from '../postgres/pool.ts';
import { findValue, hasRow, SWEEP_BATCH } from '../postgres/rows.ts';
import { listChannelSessions, lockChannels } from '../sessions/conversations.ts';
import { deleteWithSessions } from '../sessions/session-removal.ts';

/**
 * Removes an installation that is being uninstalled, with its secrets, storage, media, agents, sessions and runtime state,
 * and the row of a deleted plugin with its last installation. Log lines and audit entries remain until their retention
 * ends; they can no longer be read.
 */
export async function removeInstallation(pool: WritingPool, queues: Queues, installationId: string): Promise<void> {
  const accountId = await findUninstalling(readingPool(pool), installationId);
  if (accountId === null) return;
  await deleteMinutes(pool, installationId);
  const [channels, agents] = [
    { accountId, installationId },
    { accountId, madeBy: installationId },
  ];
  await deleteWithSessions(pool, queues, {
    accountId,
    async lock(tx) {
      await lockMedia(tx, accountId);
      if (!(await lockUninstalling(tx, installationId))) return false;
      await lockChannels(tx, channels);
      await lockAgents(tx, agents, null);
      return true;
    },
    async listSessions(db, limit) {
      const ofChannels = await listChannelSessions(db, channels, limit);
      return [...ofChannels, ...(await listAgentSessions(db, agents, null, limit - ofChannels.length))];
    },
    async delete(tx) {
      await releaseMediaOfInstallation(tx, installationId);
      await lockSecrets(tx, installationId);
      // With its channels and agents.
      await tx.query('DELETE FROM installations WHERE id = $1', [installationId]);
      await sweepDeletedPlugins(tx);
    },
  });
}

/**
 * Deletes the sums of its calls, which may be millions of rows: in batches, because the session streams of all accounts wait for a
 * transaction, and one for all would run into the time limit. No sums are added to an installation that is being uninstalled.
 */
async function deleteMinutes(pool: WritingPool, installationId: string): Promise<void> {
  for (const table of ['call_minutes', 'usage_minutes']) {
    // Each batch begins where the one before ended: it need not read the rows that were deleted.
    const sql = `WITH batch AS MATERIALIZED (
        SELECT ctid AS place, minute FROM ${table} WHERE installation_id = $1 AND minute >= $2
         ORDER BY minute LIMIT ${SWEEP_BATCH} FOR UPDATE SKIP LOCKED),
      deleted AS (DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT place FROM batch)))
      SELECT max(minute) FROM batch HAVING count(*) = ${SWEEP_BATCH}`;
    for (let last: string | null = '-infinity'; last !== null; ) {
      const from: string = last;
      last = await inTransaction(pool, (tx) => findValue<string>(tx, sql, [installationId, from]));
    }
  }
}

const findUninstalling = (pool: Pool, installationId: string): Promise<string | null> =>
  findValue(pool, `SELECT account_id FROM installations WHERE id = $1 AND status = 'uninstalling'`, [installationId]);

/** Locks the installation against writers that add to it. False: there is nothing to remove. */
const lockUninstalling = (tx: Transaction, installationId: string): Promise<boolean> =>
  hasRow(tx, `SELECT 1 FROM installations WHERE id = $1 AND status = 'uninstalling' FOR UPDATE`, [installationId]);

/**
 * Whether a `pluginUninstalled` event is pending that was recorded within the last `maxMs`. By the clock of the database, which recorded
 * it: a supervisor whose clock is ahead would remove the installation before the event is delivered.
 */
export const hasNewUninstallEvent = (pool: Pool, installationId: string, maxMs: number): Promise<boolean> =>
  hasRow(
    pool,
    `SELECT 1 FROM events WHERE installation_id = $1 AND type = 'pluginUninstalled' AND state = 'pending'
        AND occurred_at > now() - make_interval(secs => $2) LIMIT 1`,
    [installationId, maxMs / SECOND],
  );

/** Queues every unfinished removal again, after a kill. @returns how many */
export async function requeueRemovals(pool: Pool, queues: Queues): Promise<number> {
  const found = await pool.query<{ id: string; accountId: string }>(
    `SELECT id, account_id AS "accountId" FROM installations WHERE status = 'uninstalling'`,
  );
  for (const { id, accountId } of found.rows)
    await queues.send(pool, 'uninstall', { installationId: id }, { group: { id, accountId } });
  return found.rows.length;
}
