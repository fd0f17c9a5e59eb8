/** Reads pages of the catalog: every listed plugin, and the account's own private and delisted ones. */

import type { Pool } from 'pg';
import { MIB } from '../../sdk/contract/limits.ts';
import { decodeCursor, type Page, toPage } from '../postgres/cursors.ts';
import { type Bounded, boundedSql, isCutShort, listRows, type PageQuery } from '../postgres/rows.ts';
import { weighCapabilitiesSql, weighManifestSql } from './answer-sizes.ts';
import { PLUGIN_COLUMNS, type Plugin } from './plugins.ts';

/** Visible to every account. Must equal the condition of the catalog's partial indexes. */
export const LISTED = `p.visibility = 'listed' AND p.blocked_reason IS NULL AND p.deleted_at IS NULL`;
/** Visible to the account $1 in addition: its private and delisted plugins. Must equal the condition of `plugins_unlisted`. */
const OWN = `p.visibility <> 'listed' AND p.deleted_at IS NULL AND p.owner_id = $1`;
/** Plugins of `OWN` that a search looks through, by slug. More than an account may own by default. */
const OWN_SEARCHED_MAX = 2_000;
/** The LIMIT makes PostgreSQL read them by their index. */
export const OWN_PLUGINS = `(SELECT * FROM plugins p WHERE ${OWN} ORDER BY p.slug LIMIT ${OWN_SEARCHED_MAX})`;

/** Size of the plugins of one page, which is written in one piece. Bytes of JSON. */
export const PAGE_MAX_BYTES = MIB;
/** Size of a plugin's columns of bounded size in an answer. Bytes. */
const ROW_BYTES = 600;

interface PluginsQuery {
  /** Selects the ids, with a LIMIT. */
  readonly ids: string;
  /** The columns of `plugins p` that sort the page. */
  readonly order: string;
  /** Default: `PAGE_MAX_BYTES`. */
  readonly maxBytes?: number;
  readonly columns?: string;
}

/** Returns SQL that reads plugins until they are large together in an answer. Many capabilities and long texts make a plugin large. */
export const boundedPluginsSql = ({
  ids,
  order,
  maxBytes = PAGE_MAX_BYTES,
  columns = PLUGIN_COLUMNS,
}: PluginsQuery): string =>
  boundedSql({
    columns,
    table: 'fitting',
    maxBytes,
    rows: `SELECT p.id, row_number() OVER (ORDER BY ${order}) AS position, ${ROW_BYTES} + octet_length(p.description)
             + coalesce(octet_length(p.deprecation_message), 0) + ${weighCapabilitiesSql('v.capabilities')} AS bytes
        FROM (${ids}) AS seen JOIN plugins p ON p.id = seen.id LEFT JOIN versions v ON v.id = p.latest_version_id`,
    joins: 'JOIN plugins p ON p.id = fitting.id JOIN accounts o ON o.id = p.owner_id',
  });

/**
 * Reads one page, by slug. Large plugins end it early. Listed and own plugins are read separately, each in index order, so that a
 * page costs the same however many plugins exist.
 */
export async function pageCatalog(pool: Pool, accountId: string, query: PageQuery): Promise<Page<Plugin>> {
  const part = (seen: string) =>
    `(SELECT p.id, p.slug FROM plugins p WHERE ${seen} AND p.slug > $2 ORDER BY p.slug LIMIT $3)`;
  const ids = `${part(LISTED)} UNION ALL ${part(OWN)} ORDER BY slug LIMIT $3`;
  const rows = await listRows<Plugin & Bounded>(pool, boundedPluginsSql({ ids, order: 'p.slug' }), [
    accountId,
    decodeCursor(query.cursor) ?? '',
    query.limit + 1,
  ]);
  return toPage(rows, query.limit, (row) => row.slug, isCutShort(rows, PAGE_MAX_BYTES));
}

/** Size of the versions of one entry, which is written in one piece. Bytes of JSON. */
const VERSIONS_MAX_BYTES = MIB;
/** Size of a version's columns of bounded size in an entry. Bytes. */
const VERSION_BYTES = 200;
const FITTING_VERSIONS = boundedSql({
  columns: 'fitting.id',
  table: 'fitting',
  key: 'id',
  order: 'DESC',
  maxBytes: VERSIONS_MAX_BYTES,
  rows: `SELECT v.id, ${VERSION_BYTES} + ${weighCapabilitiesSql('v.capabilities')} + ${weighManifestSql('v.manifest')} AS bytes
      FROM versions v WHERE v.plugin_id = $1 AND v.status = 'published' ORDER BY v.id DESC LIMIT $2`,
});

/** Counts the newest published versions of a plugin that fit into one entry: at least one, if there is one. */
export async function countFittingVersions(pool: Pool, pluginId: string, limit: number): Promise<number> {
  const fitting = await listRows(pool, FITTING_VERSIONS, [pluginId, limit]);
  return fitting.length;
}
