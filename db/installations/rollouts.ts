/** How far the installations of a plugin have been offered its latest version, and yanked versions have been withdrawn from them. */
import type { ClientBase, Pool } from 'pg';
import { changeRows, findValue, listValues } from '../postgres/rows.ts';

/** Records that the followers of a plugin are to be offered its latest version. @param tx has locked the plugin's row */
export const beginRollout = (tx: ClientBase, pluginId: string): Promise<number> =>
  changeRows(
    tx,
    `INSERT INTO version_rollouts (plugin_id) VALUES ($1) ON CONFLICT (plugin_id) DO UPDATE SET after_id = ''`,
    [pluginId],
  );

/** The last installation that was offered the latest version, or '' at the beginning. Null: all were. */
export const findRollout = (tx: ClientBase, pluginId: string): Promise<string | null> =>
  findValue(tx, 'SELECT after_id FROM version_rollouts WHERE plugin_id = $1', [pluginId]);

/** @param afterId null: all were offered the latest version */
export const advanceRollout = (tx: ClientBase, pluginId: string, afterId: string | null): Promise<number> =>
  afterId === null
    ? changeRows(tx, 'DELETE FROM version_rollouts WHERE plugin_id = $1', [pluginId])
    : changeRows(tx, 'UPDATE version_rollouts SET after_id = $2 WHERE plugin_id = $1', [pluginId, afterId]);

/** Records that updates to a yanked version may be under way, or users asked about it. @param tx has locked the plugin's row */
export const beginWithdrawal = (tx: ClientBase, versionId: string): Promise<number> =>
  changeRows(tx, 'INSERT INTO version_withdrawals (version_id) VALUES ($1) ON CONFLICT DO NOTHING', [versionId]);

export const endWithdrawal = (tx: ClientBase, versionId: string): Promise<number> =>
  changeRows(tx, 'DELETE FROM version_withdrawals WHERE version_id = $1', [versionId]);

const UNENDED = 'FROM version_withdrawals w JOIN versions v ON v.id = w.version_id';

/** Finds a version of a plugin whose withdrawal has not ended. Null: all have ended. */
export const findWithdrawal = (tx: ClientBase, pluginId: string): Promise<string | null> =>
  findValue(tx, `SELECT v.id ${UNENDED} WHERE v.plugin_id = $1 ORDER BY v.id LIMIT 1`, [pluginId]);

/** The plugins with a rollout or a withdrawal that has not ended. */
export const listRollouts = (pool: Pool): Promise<string[]> =>
  listValues(pool, `SELECT plugin_id FROM version_rollouts UNION SELECT v.plugin_id ${UNENDED} ORDER BY plugin_id`, []);
