/** What the catalog shows to an account: every listed plugin and its own private ones. */
import type { Pool } from 'pg';
import { decodeCursor, type Page, pageOf } from './cursors.ts';
import { type PageQuery, PLUGIN_COLUMNS, type Plugin } from './plugins.ts';

export interface CatalogQuery extends PageQuery {
  /** Text to find in slug, name or description. */
  readonly q?: string | undefined;
}

/** One page of the catalog, by slug. */
export async function pageCatalog(pool: Pool, accountId: string, query: CatalogQuery): Promise<Page<Plugin>> {
  const found = await pool.query<Plugin>(
    `SELECT ${PLUGIN_COLUMNS} FROM plugins p JOIN accounts o ON o.id = p.owner_id
      WHERE (p.visibility = 'listed' OR (p.visibility = 'private' AND p.owner_id = $1))
        AND p.blocked_reason IS NULL AND p.deleted_at IS NULL
        AND ($2::text IS NULL OR p.slug ILIKE $2 OR p.display_name ILIKE $2 OR p.description ILIKE $2)
        AND ($3::text IS NULL OR p.slug > $3)
      ORDER BY p.slug LIMIT $4`,
    [accountId, query.q ? `%${escapeLike(query.q)}%` : null, decodeCursor(query.cursor), query.limit + 1],
  );
  return pageOf(found.rows, query.limit, (row) => row.slug);
}

const escapeLike = (text: string): string => text.replace(/[\\%_]/g, '\\$&');
