/** Reads pages of the catalog: every listed plugin, and the account's own private and delisted ones. */

import type { Pool } from 'pg';
import { decodeCursor, type Page, toPage } from '../postgres/cursors.ts';
import type { PageQuery } from '../postgres/rows.ts';
import { PLUGIN_COLUMNS, type Plugin } from './plugins.ts';

/** Visible to every account. Must equal the condition of the catalog's partial indexes. */
export const LISTED = `p.visibility = 'listed' AND p.blocked_reason IS NULL AND p.deleted_at IS NULL`;
/** Visible to the account $1 in addition: its private and delisted plugins. Must equal the condition of `plugins_unlisted`. */
const OWN = `p.visibility <> 'listed' AND p.deleted_at IS NULL AND p.owner_id = $1`;
/** Plugins of `OWN` that a search looks through, by slug. More than an account may own by default. */
const OWN_SEARCHED_MAX = 2_000;
/** The LIMIT makes PostgreSQL read them by their index. */
export const OWN_PLUGINS = `(SELECT * FROM plugins p WHERE ${OWN} ORDER BY p.slug LIMIT ${OWN_SEARCHED_MAX})`;

/**
 * Reads one page, by slug. Listed and own plugins are read separately, each in index order, so that a page costs the same
 * however many plugins exist.
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
