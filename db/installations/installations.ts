/** Installations: one plugin in one account, with its version, grants and configuration. */

import type { ClientBase, Pool } from 'pg';
import { MIB } from '../../sdk/contract/limits.ts';
import type { Manifest } from '../../sdk/contract/manifest.ts';
import { lockAccount } from '../accounts/accounts.ts';
import { weighCapabilitiesSql, weighManifestSql } from '../catalog/answer-sizes.ts';
import type { Visibility } from '../catalog/plugins.ts';
import type { VersionStatus } from '../catalog/versions.ts';
import type { Channel } from '../channels/channels.ts';
import { ALLOWED_SQL } from '../files/secrets.ts';
import { decodeCursor, type Page, toPage } from '../postgres/cursors.ts';
import { orderedId } from '../postgres/ordered-id.ts';
import {
  type Bounded,
  boundedSql,
  findRow,
  hasRow,
  isCutShort,
  listRows,
  listValues,
  type PageQuery,
  planOnce,
  type Queryable,
  weighJsonSql,
} from '../postgres/rows.ts';
import type { LastExit, RuntimeState } from './installation-runtimes.ts';
import type { InstallationStatus } from './installation-state.ts';
import { BLOCKED_REASON_SQL, HAS_LOST_PIN_SQL } from './run-rule.ts';

export type VersionPolicy = 'Latest' | 'Pinned' | 'Draft';
export interface Installation {
  readonly id: string;
  readonly accountId: string;
  readonly accountName: string;
  readonly pluginId: string;
  readonly slug: string;
  readonly displayName: string;
  readonly visibility: Visibility;
  readonly deprecationMessage: string | null;
  readonly blockedReason: string | null;
  readonly versionPolicy: VersionPolicy;
  readonly pinnedVersionId: string | null;
  /** Whether that version was yanked before it ran here. */
  readonly hasLostPin: boolean;
  readonly currentVersionId: string | null;
  readonly currentSemVer: string | null;
  readonly currentStatus: VersionStatus | null;
  readonly currentManifest: Manifest | null;
  readonly pendingVersionId: string | null;
  readonly pendingSemVer: string | null;
  readonly pendingCapabilities: readonly string[] | null;
  readonly pendingManifest: Manifest | null;
  /** The update under way. */
  readonly targetVersionId: string | null;
  readonly targetSemVer: string | null;
  readonly targetManifest: Manifest | null;
  readonly targetSince: string | null;
  /** Why the update under way is a rollback; null: it is an ordinary update. */
  readonly rollbackReason: string | null;
  /** The last update, if it failed. */
  readonly failedVersionId: string | null;
  readonly failedSemVer: string | null;
  readonly failedStatus: VersionStatus | null;
  readonly failedReason: string | null;
  readonly failedAt: string | null;
  /** Whether the failed version had been current. */
  readonly rolledBack: boolean;
  readonly grantedCapabilities: readonly string[];
  /** Values set by the user, without the manifest's defaults. */
  readonly settings: Readonly<Record<string, string>>;
  readonly secretNames: readonly string[];
  /** Capabilities about those secrets that the user allowed. */
  readonly secretsAllow: readonly string[];
  readonly status: InstallationStatus;
  readonly statusReason: string | null;
  readonly hookOrder: number;
  readonly required: boolean;
  readonly runtimeState: RuntimeState | null;
  readonly restarts: number | null;
  readonly lastExit: LastExit | null;
  readonly startedAt: string | null;
  readonly rssBytes: number | null;
  readonly inspected: boolean | null;
  readonly channels: readonly Omit<Channel, 'installationId'>[];
  readonly createdAt: string;
  readonly updatedAt: string;
}

const SELECT = `
  SELECT i.id, i.account_id AS "accountId", a.name AS "accountName", i.plugin_id AS "pluginId", p.slug,
         p.display_name AS "displayName", p.visibility, p.deprecation_message AS "deprecationMessage",
         ${BLOCKED_REASON_SQL} AS "blockedReason", i.version_policy AS "versionPolicy",
         i.pinned_version_id AS "pinnedVersionId", ${HAS_LOST_PIN_SQL} AS "hasLostPin",
         i.current_version_id AS "currentVersionId",
         c.semver AS "currentSemVer", c.status AS "currentStatus", c.manifest AS "currentManifest",
         i.pending_version_id AS "pendingVersionId", n.semver AS "pendingSemVer",
         n.capabilities AS "pendingCapabilities", n.manifest AS "pendingManifest",
         i.target_version_id AS "targetVersionId", g.semver AS "targetSemVer", g.manifest AS "targetManifest",
         i.target_since AS "targetSince", i.rollback_reason AS "rollbackReason",
         i.failed_version_id AS "failedVersionId", f.semver AS "failedSemVer", f.status AS "failedStatus",
         i.failed_reason AS "failedReason", i.failed_at AS "failedAt", i.rolled_back AS "rolledBack", i.granted_capabilities AS "grantedCapabilities", i.settings,
         ARRAY(SELECT s.name FROM installation_secrets s WHERE s.installation_id = i.id ORDER BY s.name) AS "secretNames",
         ARRAY(SELECT unnest(${ALLOWED_SQL}) FROM installation_secrets s WHERE s.installation_id = i.id) AS "secretsAllow",
         i.status, i.status_reason AS "statusReason", i.hook_order AS "hookOrder", i.required, r.state AS "runtimeState",
         r.restarts, r.last_exit AS "lastExit", r.started_at AS "startedAt", r.rss_bytes::float8 AS "rssBytes", r.inspected,
         (SELECT coalesce(json_agg(json_build_object('id', h.id, 'name', h.name, 'routingId', h.routing_id,
                   'agentId', coalesce(h.agent_id, h.id),
                   'connectedAt', to_char(h.connected_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
                   ORDER BY h.id), '[]')
            FROM channels h WHERE h.installation_id = i.id) AS channels,
         i.created_at AS "createdAt", i.updated_at AS "updatedAt"
    FROM installations i
    JOIN accounts a ON a.id = i.account_id
    JOIN plugins p ON p.id = i.plugin_id
    LEFT JOIN versions c ON c.id = i.current_version_id
    LEFT JOIN versions n ON n.id = i.pending_version_id
    LEFT JOIN versions g ON g.id = i.target_version_id
    LEFT JOIN versions f ON f.id = i.failed_version_id
    LEFT JOIN installation_runtime r ON r.installation_id = i.id`;
/** Its user no longer sees an installation that is being uninstalled. */
const LIVE = `i.status <> 'uninstalling'`;

// PostgreSQL needs 2 ms to parse and plan each of these, and a tenth of that to run it.
const FIND_OWN = planOnce(`${SELECT} WHERE i.id = $1 AND i.account_id = $2 AND ${LIVE}`);
const FIND_ANY = planOnce(`${SELECT} WHERE i.id = $1 AND ${LIVE}`);
const FIND_OF_PLUGIN = planOnce(`${SELECT} WHERE i.account_id = $1 AND i.plugin_id = $2 AND ${LIVE}`);
// The subquery hides the array's length, of which PostgreSQL would make a new plan each time.
const LIST_BY_IDS = planOnce(`${SELECT} WHERE i.id = ANY (ARRAY(SELECT unnest($1::text[]))) AND ${LIVE} ORDER BY i.id`);

/** Finds a live installation of this account only. */
export const findInstallation = (pool: Queryable, accountId: string, id: string): Promise<Installation | null> =>
  findRow(pool, FIND_OWN, [id, accountId]);

/** Finds a live installation of any account: for operators. */
export const findAnyInstallation = (pool: Pool, id: string): Promise<Installation | null> =>
  findRow(pool, FIND_ANY, [id]);

/**
 * Locks the row of an account's installation until the transaction ends. Locks and reads in two statements: one statement
 * would join the locked row to data read before it waited for the lock.
 */
export async function lockInstallation(tx: ClientBase, accountId: string, id: string): Promise<Installation | null> {
  await tx.query('SELECT 1 FROM installations WHERE id = $1 AND account_id = $2 FOR UPDATE', [id, accountId]);
  return findInstallation(tx, accountId, id);
}

export const findInstallationOfPlugin = (
  pool: Queryable,
  accountId: string,
  pluginId: string,
): Promise<Installation | null> => findRow(pool, FIND_OF_PLUGIN, [accountId, pluginId]);

/** Size of a channel in an answer. Bytes. */
const CHANNEL_BYTES = 300;
/** Size of an installation's columns of bounded size in an answer. Bytes. */
const ROW_BYTES = 1_500;
/** Size of the installations of one page: 100 with the longest frontmatter. */
const PAGE_MAX_BYTES = 2 * MIB;
const PAGE_IDS = planOnce(
  boundedSql({
    columns: 'b.id',
    table: 'b',
    key: 'id',
    maxBytes: PAGE_MAX_BYTES,
    rows: `SELECT i.id, ${ROW_BYTES}
           + ${CHANNEL_BYTES} * (SELECT count(*) FROM channels h WHERE h.installation_id = i.id)
           + ${weighJsonSql('octet_length(i.settings::text)')}
           + ${weighCapabilitiesSql('i.granted_capabilities')} + ${weighCapabilitiesSql('n.capabilities')}
           + ${weighManifestSql('c.manifest')} + ${weighManifestSql('n.manifest')} + ${weighManifestSql('g.manifest')} AS bytes
      FROM installations i
      LEFT JOIN versions c ON c.id = i.current_version_id
      LEFT JOIN versions n ON n.id = i.pending_version_id
      LEFT JOIN versions g ON g.id = i.target_version_id
     WHERE i.account_id = $1 AND ${LIVE} AND i.id > coalesce($2::text, '') ORDER BY i.id LIMIT $3`,
  }),
);

/** Oldest first. Large manifests and settings, and many capabilities or channels, end the page early. */
export async function pageInstallations(
  pool: Pool,
  accountId: string,
  { limit, cursor }: PageQuery,
): Promise<Page<Installation>> {
  const listed = await listRows<{ id: string } & Bounded>(pool, PAGE_IDS, [accountId, decodeCursor(cursor), limit + 1]);
  // Its end is that of the page, whichever of them are uninstalled meanwhile.
  const ids = toPage(listed, limit, ({ id }) => id, isCutShort(listed, PAGE_MAX_BYTES));
  // A statement of its own: joined, PostgreSQL expects more rows and reads whole tables.
  const items = await listRows<Installation>(pool, LIST_BY_IDS, [ids.items.map(({ id }) => id)]);
  return { items, nextCursor: ids.nextCursor };
}

/**
 * Returns the number of live installations and the greatest hook order. Locks the account's row, so that concurrent
 * installs cannot exceed the quota.
 */
export async function lockAccountInstallations(
  tx: ClientBase,
  accountId: string,
): Promise<{ count: number; lastHookOrder: number }> {
  await lockAccount(tx, accountId);
  const found = await findRow<{ count: number; lastHookOrder: number }>(
    tx,
    `SELECT count(*)::int AS count, coalesce(max(i.hook_order), 0) AS "lastHookOrder"
       FROM installations i WHERE i.account_id = $1 AND ${LIVE}`,
    [accountId],
  );
  return found ?? { count: 0, lastHookOrder: 0 };
}

type ChangeableField =
  | 'versionPolicy'
  | 'pinnedVersionId'
  | 'pendingVersionId'
  | 'grantedCapabilities'
  | 'settings'
  | 'status'
  | 'statusReason'
  | 'hookOrder'
  | 'required';
type NewInstallation = Omit<
  Pick<Installation, 'accountId' | 'pluginId' | 'currentVersionId' | ChangeableField>,
  'pendingVersionId' | 'settings'
>;

/** Null: the account has installed this plugin already. */
export async function insertInstallation(tx: ClientBase, installation: NewInstallation): Promise<string | null> {
  const id = orderedId(Date.now());
  const inserted = await tx.query(
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, pinned_version_id, current_version_id,
       granted_capabilities, status, status_reason, hook_order, required)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
     ON CONFLICT (account_id, plugin_id) WHERE status <> 'uninstalling' DO NOTHING`,
    [
      id,
      installation.accountId,
      installation.pluginId,
      installation.versionPolicy,
      installation.pinnedVersionId,
      installation.currentVersionId,
      installation.grantedCapabilities,
      installation.status,
      installation.statusReason,
      installation.hookOrder,
      installation.required,
    ],
  );
  return inserted.rowCount === 0 ? null : id;
}

/** Absent fields stay as they are. */
type InstallationChanges = Partial<Pick<Installation, ChangeableField>>;
const COLUMNS: Readonly<Record<ChangeableField, string>> = {
  versionPolicy: 'version_policy',
  pinnedVersionId: 'pinned_version_id',
  pendingVersionId: 'pending_version_id',
  grantedCapabilities: 'granted_capabilities',
  settings: 'settings',
  status: 'status',
  statusReason: 'status_reason',
  hookOrder: 'hook_order',
  required: 'required',
};

/**
 * Updates a row that the transaction has locked. A new `updatedAt` makes supervisors retry a failed installation. It is
 * the clock under the lock, not the start of the transaction, so that a later row is never older.
 */
export const changeInstallation = (tx: ClientBase, id: string, changes: InstallationChanges): Promise<void> =>
  changeInstallations(tx, [id], changes);

/** Updates several locked rows as `changeInstallation` does one. */
export async function changeInstallations(
  tx: ClientBase,
  ids: readonly string[],
  changes: InstallationChanges,
): Promise<void> {
  const keys = (Object.keys(COLUMNS) as (keyof InstallationChanges)[]).filter((key) => changes[key] !== undefined);
  const columns = keys.map((key, index) => `${COLUMNS[key]} = $${index + 2}, `).join('');
  const values = keys.map((key) => (key === 'settings' ? JSON.stringify(changes[key]) : changes[key]));
  await tx.query(`UPDATE installations SET ${columns}updated_at = clock_timestamp() WHERE id = ANY ($1)`, [
    ids,
    ...values,
  ]);
}

/** Installations of a plugin that are locked and read at once. Each has up to three manifests. */
export const LOCKED_PAGE = 200;

interface LockedPage {
  /** Default: of any policy. */
  readonly versionPolicy?: Installation['versionPolicy'];
  /** The last installation of the page before. */
  readonly after?: string;
}

/** Locks live installations of a plugin, at most `LOCKED_PAGE`, in the order of their ids. */
export async function lockInstallations(
  tx: ClientBase,
  pluginId: string,
  { versionPolicy, after = '' }: LockedPage = {},
): Promise<Installation[]> {
  const ids = await listValues<string>(
    tx,
    `SELECT i.id FROM installations i
      WHERE i.plugin_id = $1 AND i.id > $2 AND ($3::text IS NULL OR i.version_policy = $3) AND ${LIVE}
      ORDER BY i.id LIMIT ${LOCKED_PAGE} FOR UPDATE`,
    [pluginId, after, versionPolicy ?? null],
  );
  return listRows(tx, `${SELECT} WHERE i.id = ANY ($1) ORDER BY i.id`, [ids]);
}

/** Whether an account has installed a plugin of another one. */
export const hasForeignInstallations = (pool: Pool): Promise<boolean> =>
  hasRow(
    pool,
    `SELECT 1 FROM installations JOIN plugins ON plugins.id = plugin_id
      WHERE owner_id <> account_id AND status <> 'uninstalling' LIMIT 1`,
  );

/** Counts the live installations of each plugin. Plugins without any may be missing. */
export async function countInstallations(db: Queryable, pluginIds: readonly string[]): Promise<Map<string, number>> {
  const found = await db.query<{ pluginId: string; count: number }>(
    'SELECT c.plugin_id AS "pluginId", c.installs AS count FROM install_counts c WHERE c.plugin_id = ANY ($1)',
    [pluginIds],
  );
  return new Map(found.rows.map((row) => [row.pluginId, row.count]));
}

/** Maps the plugins that the account has installed to the ids of their installations. */
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
