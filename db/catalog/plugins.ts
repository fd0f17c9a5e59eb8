/** Plugins: owner, slug and visibility in the catalog. */
import { randomUUIDv7 } from 'node:crypto';
import type { ClientBase, Pool } from 'pg';
import { decodeCursor, type Page, toPage } from '../postgres/cursors.ts';

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
  readonly createdAt: Date;
  readonly updatedAt: Date;
}
interface NewPlugin {
  readonly ownerId: string;
  readonly slug: string;
  readonly displayName: string;
  readonly description: string;
}
export interface PageQuery {
  /** Maximum number of rows. */
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/** The columns of a `Plugin`, from `plugins p` joined to its owner `o`. */
export const PLUGIN_COLUMNS = `p.id, p.owner_id AS "ownerId", o.name AS "ownerName",
  o.verified_at IS NOT NULL AS "ownerVerified", p.slug, p.display_name AS "displayName", p.description, p.visibility,
  p.deprecation_message AS "deprecationMessage", p.blocked_reason AS "blockedReason",
  p.latest_version_id AS "latestVersionId", p.created_at AS "createdAt", p.updated_at AS "updatedAt"`;
const SELECT = `SELECT ${PLUGIN_COLUMNS} FROM plugins p JOIN accounts o ON o.id = p.owner_id`;
/** The row of a deleted plugin remains until its last installation is removed. */
const PRESENT = 'p.deleted_at IS NULL';

/** Null: the slug is in use, or reserved because a version was once published under it. */
export async function insertPlugin(pool: ClientBase | Pool, plugin: NewPlugin): Promise<Plugin | null> {
  const id = randomUUIDv7();
  const made = await pool.query(
    `INSERT INTO plugins (id, owner_id, slug, display_name, description)
     SELECT $1, $2, $3, $4, $5 WHERE NOT EXISTS (SELECT 1 FROM reserved_slugs WHERE slug = $3)
     ON CONFLICT (slug) DO NOTHING`,
    [id, plugin.ownerId, plugin.slug, plugin.displayName, plugin.description],
  );
  return made.rowCount === 0 ? null : findPlugin(pool, id);
}

export async function findPlugin(pool: ClientBase | Pool, id: string): Promise<Plugin | null> {
  const found = await pool.query<Plugin>(`${SELECT} WHERE p.id = $1 AND ${PRESENT}`, [id]);
  return found.rows[0] ?? null;
}

export async function findPluginBySlug(pool: ClientBase | Pool, slug: string): Promise<Plugin | null> {
  const found = await pool.query<Plugin>(`${SELECT} WHERE p.slug = $1 AND ${PRESENT}`, [slug]);
  return found.rows[0] ?? null;
}

/**
 * Reads a plugin and locks its row until the transaction ends. A change of the latest version locks it `exclusive`; an
 * install locks it `shared`, so that it cannot miss a concurrent publish.
 */
export async function lockPlugin(tx: ClientBase, id: string, mode: 'exclusive' | 'shared'): Promise<Plugin | null> {
  const strength = mode === 'exclusive' ? 'FOR UPDATE' : 'FOR SHARE';
  const found = await tx.query<Plugin>(`${SELECT} WHERE p.id = $1 AND ${PRESENT} ${strength} OF p`, [id]);
  return found.rows[0] ?? null;
}

/** An account's plugins, oldest first. */
export async function pagePlugins(pool: Pool, ownerId: string, query: PageQuery): Promise<Page<Plugin>> {
  const found = await pool.query<Plugin>(
    `${SELECT} WHERE p.owner_id = $1 AND ${PRESENT} AND ($2::text IS NULL OR p.id > $2) ORDER BY p.id LIMIT $3`,
    [ownerId, decodeCursor(query.cursor), query.limit + 1],
  );
  return toPage(found.rows, query.limit, (row) => row.id);
}

/** Reserves a slug permanently. */
export async function reserveSlug(tx: ClientBase, slug: string): Promise<void> {
  await tx.query('INSERT INTO reserved_slugs (slug) VALUES ($1) ON CONFLICT DO NOTHING', [slug]);
}

/** @param versionId null: no published version is left */
export async function setLatestVersion(tx: ClientBase, id: string, versionId: string | null): Promise<void> {
  await tx.query('UPDATE plugins SET latest_version_id = $2, updated_at = now() WHERE id = $1', [id, versionId]);
}

export async function setVisibility(
  tx: ClientBase,
  id: string,
  visibility: Visibility,
  deprecationMessage: string | null,
): Promise<void> {
  await tx.query('UPDATE plugins SET visibility = $2, deprecation_message = $3, updated_at = now() WHERE id = $1', [
    id,
    visibility,
    deprecationMessage,
  ]);
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
export async function sweepDeletedPlugins(pool: ClientBase | Pool): Promise<number> {
  const swept = await pool.query(
    `DELETE FROM plugins p
      WHERE p.deleted_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM installations i WHERE i.plugin_id = p.id)`,
  );
  return swept.rowCount ?? 0;
}
