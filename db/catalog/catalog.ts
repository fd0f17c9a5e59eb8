/** What the catalog shows to an account: every listed plugin and its own private ones. */
import type { Pool } from 'pg';
import { decodeCursor, type Page, toPage } from '../postgres/cursors.ts';
import { type PageQuery, PLUGIN_COLUMNS, type Plugin } from './plugins.ts';

/** What everybody sees. Word for word the condition of the catalog's partial indexes. */
export const LISTED = `p.visibility = 'listed' AND p.blocked_reason IS NULL AND p.deleted_at IS NULL`;
/** What the account $1 sees besides. */
export const OWN = `p.visibility = 'private' AND p.deleted_at IS NULL AND p.owner_id = $1`;

/**
 * One page of the catalog, by slug. Listed and own ones are read apart, each in the order of an index, so that a page
 * costs the same however many plugins there are.
 */
export async function pageCatalog(pool: Pool, accountId: string, query: PageQuery): Promise<Page<Plugin>> {
  const part = (seen: string) => `(SELECT p.id FROM plugins p WHERE ${seen} AND p.slug > $2 ORDER BY p.slug LIMIT $3)`;
  const found = await pool.query<Plugin>(
    `SELECT ${PLUGIN_COLUMNS} FROM (${part(LISTED)} UNION ALL ${part(OWN)}) seen
       JOIN plugins p ON p.id = seen.id JOIN accounts o ON o.id = p.owner_id
      ORDER BY p.slug LIMIT $3`,
    [accountId, decodeCursor(query.cursor) ?? '', query.limit + 1],
  );
  return toPage(found.rows, query.limit, (row) => row.slug);
}
