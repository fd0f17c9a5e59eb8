/** Finds the installations that listen to an event of a session. */
import type { EventName } from '../../sdk/contract/protocol.ts';
import { listRows, type Queryable } from '../postgres/rows.ts';
import { DRAFT_SEM_VER, type InstalledPlugin } from './account-plugins.ts';

export type SessionEvent = Extract<EventName, `session${string}`>;

export type Subscriber = Pick<InstalledPlugin, 'installationId' | 'pluginId' | 'versionId' | 'semVer'>;

/**
 * Finds the account's installations whose version handles an event, also those that are paused or not configured: the event
 * waits for them. A plugin that an operator blocked counts as not installed.
 */
export const findSubscribers = (db: Queryable, accountId: string, type: SessionEvent): Promise<Subscriber[]> =>
  listRows(
    db,
    `SELECT i.id AS "installationId", i.plugin_id AS "pluginId", v.id AS "versionId",
            coalesce(v.semver, '${DRAFT_SEM_VER}') AS "semVer"
       FROM installations i
       JOIN versions v ON v.id = i.current_version_id
       JOIN plugins p ON p.id = i.plugin_id
      WHERE i.account_id = $1 AND i.status <> 'uninstalling' AND p.blocked_reason IS NULL
        AND v.registrations -> 'events' ? $2
      ORDER BY i.hook_order, i.id`,
    [accountId, type],
  );
