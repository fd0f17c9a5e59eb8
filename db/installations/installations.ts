/** Installations: one plugin in one account, the version it runs, and what it was granted. */
import { randomUUIDv7 } from 'node:crypto';
import type { ClientBase, Pool } from 'pg';
import type { Manifest } from '../../sdk/contract/manifest.ts';
import type { PageQuery, Visibility } from '../catalog/plugins.ts';
import type { VersionStatus } from '../catalog/versions.ts';
import type { Channel } from '../channels/channels.ts';
import { decodeCursor, type Page, toPage } from '../postgres/cursors.ts';
import type { RuntimeState } from './installation-runtimes.ts';

export type VersionPolicy = 'Latest' | 'Pinned' | 'Draft';
export type InstallationStatus = 'ready' | 'needs_configuration' | 'paused' | 'failed' | 'uninstalling';
export interface Installation {
  readonly id: string;
  readonly accountId: string;
  readonly pluginId: string;
  readonly pluginOwnerId: string;
  readonly slug: string;
  readonly displayName: string;
  readonly visibility: Visibility;
  readonly deprecationMessage: string | null;
  readonly blockedReason: string | null;
  readonly versionPolicy: VersionPolicy;
  readonly pinnedVersionId: string | null;
  readonly currentVersionId: string | null;
  readonly currentSemVer: string | null;
  readonly currentStatus: VersionStatus | null;
  readonly currentManifest: Manifest | null;
  readonly pendingVersionId: string | null;
  readonly pendingSemVer: string | null;
  readonly pendingCapabilities: readonly string[] | null;
  readonly grantedCapabilities: readonly string[];
  /** Only what the user gave; defaults are the manifest's. */
  readonly settings: Readonly<Record<string, string>>;
  readonly secretNames: readonly string[];
  readonly status: InstallationStatus;
  readonly statusReason: string | null;
  readonly hookOrder: number;
  readonly runtimeState: RuntimeState | null;
  readonly restarts: number | null;
  readonly lastExit: unknown;
  readonly startedAt: Date | null;
  readonly rssBytes: number | null;
  readonly inspected: boolean | null;
  readonly channels: readonly Omit<Channel, 'installationId'>[];
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const SELECT = `
  SELECT i.id, i.account_id AS "accountId", i.plugin_id AS "pluginId", p.owner_id AS "pluginOwnerId", p.slug,
         p.display_name AS "displayName", p.visibility, p.deprecation_message AS "deprecationMessage",
         p.blocked_reason AS "blockedReason", i.version_policy AS "versionPolicy",
         i.pinned_version_id AS "pinnedVersionId", i.current_version_id AS "currentVersionId",
         c.semver AS "currentSemVer", c.status AS "currentStatus", c.manifest AS "currentManifest",
         i.pending_version_id AS "pendingVersionId", n.semver AS "pendingSemVer",
         n.capabilities AS "pendingCapabilities", i.granted_capabilities AS "grantedCapabilities", i.settings,
         ARRAY(SELECT s.name FROM installation_secrets s WHERE s.installation_id = i.id ORDER BY s.name) AS "secretNames",
         i.status, i.status_reason AS "statusReason", i.hook_order AS "hookOrder", r.state AS "runtimeState",
         r.restarts, r.last_exit AS "lastExit", r.started_at AS "startedAt", r.rss_bytes::float8 AS "rssBytes", r.inspected,
         (SELECT coalesce(json_agg(json_build_object('id', h.id, 'name', h.name, 'routingId', h.routing_id,
                   'connectedAt', to_char(h.connected_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
                   ORDER BY h.id), '[]')
            FROM channels h WHERE h.installation_id = i.id) AS channels,
         i.created_at AS "createdAt", i.updated_at AS "updatedAt"
    FROM installations i
    JOIN plugins p ON p.id = i.plugin_id
    LEFT JOIN versions c ON c.id = i.current_version_id
    LEFT JOIN versions n ON n.id = i.pending_version_id
    LEFT JOIN installation_runtime r ON r.installation_id = i.id`;
/** An uninstalled one is gone for its user at once, however long its removal takes. */
const LIVE = `i.status <> 'uninstalling'`;

/** One live installation of an account; another account's is simply not there. */
export async function findInstallation(
  pool: ClientBase | Pool,
  accountId: string,
  id: string,
): Promise<Installation | null> {
  const found = await pool.query<Installation>(`${SELECT} WHERE i.id = $1 AND i.account_id = $2 AND ${LIVE}`, [
    id,
    accountId,
  ]);
  return found.rows[0] ?? null;
}

/** One live installation whosever it is: for operators. */
export async function findAnyInstallation(pool: Pool, id: string): Promise<Installation | null> {
  const found = await pool.query<Installation>(`${SELECT} WHERE i.id = $1 AND ${LIVE}`, [id]);
  return found.rows[0] ?? null;
}

/**
 * An account's installation, keeping its row until the transaction ends. Locked and read in two steps: a joined row that was read while
 * waiting for the lock would be joined to what the installation was before.
 */
export async function lockInstallation(tx: ClientBase, accountId: string, id: string): Promise<Installation | null> {
  await tx.query('SELECT 1 FROM installations WHERE id = $1 AND account_id = $2 FOR UPDATE', [id, accountId]);
  return findInstallation(tx, accountId, id);
}

/** The account's live installation of a plugin. */
export async function findInstallationOfPlugin(
  pool: ClientBase | Pool,
  accountId: string,
  pluginId: string,
): Promise<Installation | null> {
  const found = await pool.query<Installation>(`${SELECT} WHERE i.account_id = $1 AND i.plugin_id = $2 AND ${LIVE}`, [
    accountId,
    pluginId,
  ]);
  return found.rows[0] ?? null;
}

/** An account's live installations, oldest first. */
export async function pageInstallations(pool: Pool, accountId: string, query: PageQuery): Promise<Page<Installation>> {
  const found = await pool.query<Installation>(
    `${SELECT} WHERE i.account_id = $1 AND ${LIVE} AND ($2::text IS NULL OR i.id > $2) ORDER BY i.id LIMIT $3`,
    [accountId, decodeCursor(query.cursor), query.limit + 1],
  );
  return toPage(found.rows, query.limit, (row) => row.id);
}

/**
 * How many live installations an account has and the greatest hook order among them. Keeps the account's row, so that
 * two installs of one account cannot both see the last free place.
 */
export async function lockAccountInstallations(
  tx: ClientBase,
  accountId: string,
): Promise<{ count: number; lastHookOrder: number }> {
  // NO KEY: rows that merely refer to the account (sessions, plugins) are still written meanwhile.
  await tx.query('SELECT 1 FROM accounts WHERE id = $1 FOR NO KEY UPDATE', [accountId]);
  const found = await tx.query<{ count: number; lastHookOrder: number }>(
    `SELECT count(*)::int AS count, coalesce(max(i.hook_order), 0) AS "lastHookOrder"
       FROM installations i WHERE i.account_id = $1 AND ${LIVE}`,
    [accountId],
  );
  return found.rows[0] ?? { count: 0, lastHookOrder: 0 };
}

export interface NewInstallation {
  readonly accountId: string;
  readonly pluginId: string;
  readonly versionPolicy: VersionPolicy;
  readonly pinnedVersionId: string | null;
  readonly currentVersionId: string;
  readonly grantedCapabilities: readonly string[];
  readonly status: InstallationStatus;
  readonly statusReason: string | null;
  readonly hookOrder: number;
}

/** Makes an installation. Null: the account has one of this plugin already. */
export async function insertInstallation(tx: ClientBase, made: NewInstallation): Promise<string | null> {
  const id = randomUUIDv7();
  const inserted = await tx.query(
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, pinned_version_id, current_version_id,
       granted_capabilities, status, status_reason, hook_order)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
     ON CONFLICT (account_id, plugin_id) WHERE status <> 'uninstalling' DO NOTHING`,
    [
      id,
      made.accountId,
      made.pluginId,
      made.versionPolicy,
      made.pinnedVersionId,
      made.currentVersionId,
      made.grantedCapabilities,
      made.status,
      made.statusReason,
      made.hookOrder,
    ],
  );
  return inserted.rowCount === 0 ? null : id;
}

/** What may change of an installation; a field that is left out stays. */
export interface InstallationChanges {
  readonly versionPolicy?: VersionPolicy;
  readonly pinnedVersionId?: string | null;
  readonly currentVersionId?: string | null;
  readonly pendingVersionId?: string | null;
  readonly grantedCapabilities?: readonly string[];
  readonly settings?: Readonly<Record<string, string>>;
  readonly status?: InstallationStatus;
  readonly statusReason?: string | null;
  readonly hookOrder?: number;
}
const CHANGEABLE: Readonly<Record<keyof InstallationChanges, string>> = {
  versionPolicy: 'version_policy',
  pinnedVersionId: 'pinned_version_id',
  currentVersionId: 'current_version_id',
  pendingVersionId: 'pending_version_id',
  grantedCapabilities: 'granted_capabilities',
  settings: 'settings',
  status: 'status',
  statusReason: 'status_reason',
  hookOrder: 'hook_order',
};

/** Changes a row the caller's transaction has locked. `updatedAt` moves, which is what lets a failed one be tried again. */
export async function changeInstallation(tx: ClientBase, id: string, changes: InstallationChanges): Promise<void> {
  const given = (Object.keys(CHANGEABLE) as (keyof InstallationChanges)[]).filter((key) => changes[key] !== undefined);
  const columns = given.map((key, index) => `${CHANGEABLE[key]} = $${index + 2}, `).join('');
  const values = given.map((key) => (key === 'settings' ? JSON.stringify(changes[key]) : changes[key]));
  await tx.query(`UPDATE installations SET ${columns}updated_at = now() WHERE id = $1`, [id, ...values]);
}

/** The live installations of a plugin that follow a policy, locked until the transaction ends, in one fixed order. */
export async function lockInstallationsByPolicy(
  tx: ClientBase,
  pluginId: string,
  policy: VersionPolicy,
): Promise<Installation[]> {
  return lockWhere(tx, pluginId, 'i.version_policy = $2', policy);
}

/** The live installations of a plugin that run a version, whatever their policy. */
export async function lockInstallationsRunning(
  tx: ClientBase,
  pluginId: string,
  versionId: string,
): Promise<Installation[]> {
  return lockWhere(tx, pluginId, 'i.current_version_id = $2', versionId);
}

/**
 * Takes all installations off a version that is about to go, those that are being removed included. Live ones are locked
 * already.
 *
 * @returns the ids of those being removed
 */
export async function detachInstallations(tx: ClientBase, versionId: string): Promise<string[]> {
  const left = await tx.query<{ id: string; status: InstallationStatus }>(
    'UPDATE installations SET current_version_id = NULL WHERE current_version_id = $1 RETURNING id, status',
    [versionId],
  );
  return left.rows.filter(({ status }) => status === 'uninstalling').map(({ id }) => id);
}

/** The live installations of a plugin whose user is asked about a version. */
export async function lockInstallationsOffered(
  tx: ClientBase,
  pluginId: string,
  versionId: string,
): Promise<Installation[]> {
  return lockWhere(tx, pluginId, 'i.pending_version_id = $2', versionId);
}

/** All live installations of a plugin. */
export async function lockInstallationsOfPlugin(tx: ClientBase, pluginId: string): Promise<Installation[]> {
  return lockWhere(tx, pluginId, '$2::text IS NULL', null);
}

async function lockWhere(
  tx: ClientBase,
  pluginId: string,
  condition: string,
  value: string | null,
): Promise<Installation[]> {
  const where = `WHERE i.plugin_id = $1 AND ${condition} AND ${LIVE} ORDER BY i.id`;
  await tx.query(`SELECT 1 FROM installations i ${where} FOR UPDATE`, [pluginId, value]);
  const found = await tx.query<Installation>(`${SELECT} ${where}`, [pluginId, value]);
  return found.rows;
}

/** How many live installations each of these plugins has, as counted when they changed. Plugins with none may be left out. */
export async function countInstallations(pool: Pool, pluginIds: readonly string[]): Promise<Map<string, number>> {
  const found = await pool.query<{ pluginId: string; count: number }>(
    'SELECT c.plugin_id AS "pluginId", c.installs AS count FROM install_counts c WHERE c.plugin_id = ANY ($1)',
    [pluginIds],
  );
  return new Map(found.rows.map((row) => [row.pluginId, row.count]));
}

/** Which of these plugins the account has installed: plugin id to installation id. */
export async function findInstallationIds(
  pool: Pool,
  accountId: string,
  pluginIds: readonly string[],
): Promise<Map<string, string>> {
  const found = await pool.query<{ pluginId: string; id: string }>(
    `SELECT i.plugin_id AS "pluginId", i.id FROM installations i
      WHERE i.account_id = $1 AND i.plugin_id = ANY ($2) AND ${LIVE}`,
    [accountId, pluginIds],
  );
  return new Map(found.rows.map((row) => [row.pluginId, row.id]));
}
