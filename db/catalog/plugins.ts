/** Plugins: owner, slug and visibility in the catalog. */

import type { ClientBase, Pool } from 'pg';
import { hostToolGroups } from '../../sdk/contract/full-names.ts';
import type { Page } from '../postgres/cursors.ts';
import { orderedId } from '../postgres/ordered-id.ts';
import { changeRows, findRow, findValue, type PageQuery, type Queryable, readPage } from '../postgres/rows.ts';

export type Visibility = 'private' | 'listed' | 'delisted';
export interface Plugin {
  readonly id: string;
  readonly ownerId: string;
  readonly ownerName: string;
  /** An operator verified the owner, so the plugin's tier is `verified`. */
  readonly ownerVerified: boolean;
  readonly slug: string;
  readonly displayName: string;
  readonly description: string;
  readonly visibility: Visibility;
  readonly deprecationMessage: string | null;
  readonly blockedReason: string | null;
  readonly latestVersionId: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}
type NewPlugin = Pick<Plugin, 'ownerId' | 'slug' | 'displayName' | 'description'>;

/** The columns of a `Plugin`, from `plugins p` joined to its owner `o`. */
export const PLUGIN_COLUMNS = `p.id, p.owner_id AS "ownerId", o.name AS "ownerName",
  o.verified_at IS NOT NULL AS "ownerVerified", p.slug, p.display_name AS "displayName", p.description, p.visibility,
  p.deprecation_message AS "deprecationMessage", p.blocked_reason AS "blockedReason",
  p.latest_version_id AS "latestVersionId", p.created_at AS "createdAt", p.updated_at AS "updatedAt"`;
const SELECT = `SELECT ${PLUGIN_COLUMNS} FROM plugins p JOIN accounts o ON o.id = p.owner_id`;
/** The row of a deleted plugin remains until its last installation is removed. */
const PRESENT = 'p.deleted_at IS NULL';

/** Null: the slug is in use, or reserved: for the host's own tools, or because a version was once published under it. */
export async function insertPlugin(pool: Queryable, plugin: NewPlugin): Promise<Plugin | null> {
  if (hostToolGroups.some((group) => group === plugin.slug)) return null;
  const id = orderedId(Date.now());
  const made = await pool.query(
    `INSERT INTO plugins (id, owner_id, slug, display_name, description)
     SELECT $1, $2, $3, $4, $5 WHERE NOT EXISTS (SELECT 1 FROM reserved_slugs WHERE slug = $3)
     ON CONFLICT (slug) DO NOTHING`,
    [id, plugin.ownerId, plugin.slug, plugin.displayName, plugin.description],
  );
  return made.rowCount === 0 ? null : findPlugin(pool, id);
}

export const findPlugin = (pool: Queryable, id: string): Promise<Plugin | null> =>
  findRow(pool, `${SELECT} WHERE p.id = $1 AND ${PRESENT}`, [id]);

export const findPluginBySlug = (pool: Queryable, slug: string): Promise<Plugin | null> =>
  findRow(pool, `${SELECT} WHERE p.slug = $1 AND ${PRESENT}`, [slug]);

/**
 * Reads a plugin and locks its row until the transaction ends. A change of the latest version locks it `exclusive`; an
 * install locks it `shared`, so that it cannot miss a concurrent publish.
 */
export async function lockPlugin(tx: ClientBase, id: string, mode: 'exclusive' | 'shared'): Promise<Plugin | null> {
  const strength = mode === 'exclusive' ? 'FOR UPDATE' : 'FOR SHARE';
  return findRow(tx, `${SELECT} WHERE p.id = $1 AND ${PRESENT} ${strength} OF p`, [id]);
}

export async function countPlugins(db: Queryable, ownerId: string): Promise<number> {
  const sql = `SELECT count(*)::int FROM plugins p WHERE p.owner_id = $1 AND ${PRESENT}`;
  return (await findValue<number>(db, sql, [ownerId])) ?? 0;
}

/** An account's plugins, oldest first. */
export const pagePlugins = (pool: Pool, ownerId: string, query: PageQuery): Promise<Page<Plugin>> =>
  readPage(
    pool,
    `${SELECT} WHERE p.owner_id = $1 AND ${PRESENT} AND ($2::text IS NULL OR p.id > $2) ORDER BY p.id LIMIT $3`,
    [ownerId],
    query,
  );

/** Reserves a slug permanently. */
export async function reserveSlug(tx: ClientBase, slug: string): Promise<void> {
  await tx.query('INSERT INTO reserved_slugs (slug) VALUES ($1) ON CONFLICT DO NOTHING', [slug]);
}

/**
 * Records the latest version, whose frontmatter names and describes the plugin.
 *
 * @param versionId null: no published version is left; the plugin keeps its name
 */
export async function setLatestVersion(tx: ClientBase, id: string, versionId: string | null): Promise<void> {
  await tx.query(
    `UPDATE plugins p SET latest_version_id = $2, updated_at = now(),
       display_name = coalesce((SELECT v.manifest ->> 'name' FROM versions v WHERE v.id = $2), p.display_name),
       description = coalesce((SELECT v.manifest ->> 'description' FROM versions v WHERE v.id = $2), p.description)
      WHERE p.id = $1`,
    [id, versionId],
  );
}

/** Names and describes a plugin that has no published version. Undefined: as before. */
export async function renamePlugin(
  tx: ClientBase,
  id: string,
  { displayName, description }: { displayName?: string | undefined; description?: string | undefined },
): Promise<void> {
  await tx.query(
    `UPDATE plugins SET display_name = coalesce($2, display_name), description = coalesce($3, description),
       updated_at = now() WHERE id = $1`,
    [id, displayName, description],
  );
}

export async function setVisibility(
  tx: ClientBase,
  id: string,
  visibility: Visibility,
  deprecationMessage: string | null,
): Promise<void> {
  const sql = 'UPDATE plugins SET visibility = $2, deprecation_message = $3, updated_at = now() WHERE id = $1';
  await tx.query(sql, [id, visibility, deprecationMessage]);
}

/**
 * Marks a plugin as deleted and frees its slug, unless it is reserved. `sweepDeletedPlugins` removes the row when its last
 * installation is removed.
 */
export async function deletePlugin(tx: ClientBase, id: string): Promise<void> {
  // A valid slug contains no tilde, so the changed one cannot conflict.
  await tx.query(
    `UPDATE plugins SET deleted_at = now(), visibility = 'private', slug = slug || '~' || id WHERE id = $1`,
    [id],
  );
}

/** Removes the rows of deleted plugins that have no installations left. */
export const sweepDeletedPlugins = (pool: Queryable): Promise<number> =>
  changeRows(
    pool,
    `DELETE FROM plugins p
      WHERE p.deleted_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM installations i WHERE i.plugin_id = p.id)`,
  );
