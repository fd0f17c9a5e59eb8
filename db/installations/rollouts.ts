/** How far the installations that follow a plugin have been offered its latest version. */
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

/** The plugins whose rollout has not ended. */
export const listRollouts = (pool: Pool): Promise<string[]> =>
  listValues(pool, 'SELECT plugin_id FROM version_rollouts ORDER BY plugin_id', []);
