/** Versions and drafts. Rows are immutable, except that a version can be yanked and a draft is replaced. */

import type { ClientBase, Pool } from 'pg';
import { type Manifest, placeFields } from '../../sdk/contract/manifest.ts';
import { hooks, type Registrations } from '../../sdk/contract/protocol.ts';
import { throwQuotaProblem } from '../accounts/usage.ts';
import { orderedId } from '../postgres/ordered-id.ts';
import { findRow, findValue, hasRow, listRows, listValues, type Queryable } from '../postgres/rows.ts';

/** `replaced`: a draft that is no longer the plugin's, but that an installation still runs. */
export type VersionStatus = 'published' | 'yanked' | 'draft' | 'replaced';
export interface BuiltPackage {
  readonly sourceSha256: string;
  readonly bundleSha256: string;
  readonly sourceMapSha256: string | null;
  readonly sizeBytes: number;
  /** Its size on disk: files, bundle and source map. */
  readonly storedBytes: number;
  readonly manifest: Manifest;
  /** The body of readme.md, without frontmatter. */
  readonly readme: string;
  /** Declared and registered, sorted. */
  readonly capabilities: readonly string[];
  readonly discovered: unknown;
  readonly registrations: Registrations;
  readonly files: readonly VersionFile[];
}
export interface VersionFile {
  readonly path: string;
  /** The blob that holds it. */
  readonly sha256: string;
  readonly sizeBytes: number;
}
/** A version without its readme, registrations and files. */
export interface Version
  extends Pick<
    BuiltPackage,
    'sourceSha256' | 'bundleSha256' | 'sizeBytes' | 'manifest' | 'capabilities' | 'discovered'
  > {
  readonly id: string;
  readonly pluginId: string;
  /** Null: the draft. */
  readonly semVer: string | null;
  readonly status: VersionStatus;
  readonly addedCapabilities: readonly string[];
  readonly createdAt: string;
  readonly yankedAt: string | null;
}

/** The columns of a `Version`, from `versions v`. */
const COLUMNS = `v.id, v.plugin_id AS "pluginId", v.semver AS "semVer", v.status, v.source_sha256 AS "sourceSha256",
  v.bundle_sha256 AS "bundleSha256", v.size_bytes::float8 AS "sizeBytes", v.manifest, v.capabilities,
  v.added_capabilities AS "addedCapabilities", v.discovered, v.created_at AS "createdAt", v.yanked_at AS "yankedAt"`;

/**
 * Inserts a version with its files, in the transaction that has locked the plugin's row.
 *
 * @param semVer null: a draft; the previous one must be replaced already
 * @throws Problem `quota_exceeded`
 */
export async function insertVersion(
  tx: ClientBase,
  pluginId: string,
  semVer: string | null,
  built: BuiltPackage,
  addedCapabilities: readonly string[],
): Promise<Version> {
  const id = orderedId(Date.now());
  const { manifest } = built;
  const inserted = tx.query(
    `INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, source_map_sha256, size_bytes,
       stored_bytes, manifest, readme, capabilities, added_capabilities, discovered, registrations)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
    [
      id,
      pluginId,
      semVer,
      semVer === null ? 'draft' : 'published',
      built.sourceSha256,
      built.bundleSha256,
      built.sourceMapSha256,
      built.sizeBytes,
      built.storedBytes,
      JSON.stringify({ ...manifest, settings: placeFields(manifest.settings), secrets: placeFields(manifest.secrets) }),
      built.readme,
      built.capabilities,
      addedCapabilities,
      JSON.stringify(built.discovered),
      JSON.stringify(built.registrations),
    ],
  );
  await inserted.catch(throwQuotaProblem);
  await insertFiles(tx, id, built.files);
  const version = await findVersion(tx, id);
  if (!version) throw new Error(`Version ${id} was not inserted.`);
  return version;
}

async function insertFiles(tx: ClientBase, id: string, files: readonly VersionFile[]): Promise<void> {
  await tx.query(
    `INSERT INTO version_files (version_id, path, sha256, size_bytes)
     SELECT $1, f.* FROM unnest($2::text[], $3::text[], $4::bigint[]) AS f(path, sha256, size_bytes)`,
    [id, files.map((file) => file.path), files.map((file) => file.sha256), files.map((file) => file.sizeBytes)],
  );
}

export const findVersion = (pool: Queryable, id: string): Promise<Version | null> =>
  findRow(pool, `SELECT ${COLUMNS} FROM versions v WHERE v.id = $1`, [id]);

/** In no particular order. */
export async function findVersions(pool: Queryable, ids: readonly string[]): Promise<Version[]> {
  if (ids.length === 0) return [];
  return listRows(pool, `SELECT ${COLUMNS} FROM versions v WHERE v.id = ANY ($1)`, [ids]);
}

/** The fields of a version that a list of plugins shows. */
export type VersionSummary = Pick<Version, 'id' | 'semVer' | 'capabilities' | 'createdAt'>;

/** In no particular order. */
export const listVersionSummaries = (pool: Queryable, ids: readonly string[]): Promise<VersionSummary[]> =>
  listRows(
    pool,
    'SELECT id, semver AS "semVer", capabilities, created_at AS "createdAt" FROM versions WHERE id = ANY ($1)',
    [ids],
  );

export const findDraft = (pool: Queryable, pluginId: string): Promise<Version | null> =>
  findRow(pool, `SELECT ${COLUMNS} FROM versions v WHERE v.plugin_id = $1 AND v.status = 'draft'`, [pluginId]);

export type VersionNumber = Pick<Version, 'id' | 'status'> & { readonly semVer: string };

/** The numbers of all versions, also yanked ones, oldest first. Only the numbers, because there may be thousands. */
export const listVersionNumbers = (pool: Queryable, pluginId: string): Promise<VersionNumber[]> =>
  listRows(
    pool,
    `SELECT id, semver AS "semVer", status FROM versions WHERE plugin_id = $1 AND semver IS NOT NULL ORDER BY id`,
    [pluginId],
  );

/** A version that can be pinned. */
export interface PublishedVersion extends Pick<Version, 'id' | 'createdAt' | 'capabilities' | 'manifest'> {
  readonly semVer: string;
}

/** Newest first, without yanked versions. */
export const listPublishedVersions = (pool: Pool, pluginId: string, limit: number): Promise<PublishedVersion[]> =>
  listRows(
    pool,
    `SELECT id, semver AS "semVer", created_at AS "createdAt", capabilities, manifest FROM versions
      WHERE plugin_id = $1 AND status = 'published' ORDER BY id DESC LIMIT $2`,
    [pluginId, limit],
  );

/** Includes yanked versions. */
export const versionExists = (pool: Queryable, pluginId: string, semVer: string): Promise<boolean> =>
  hasRow(pool, 'SELECT 1 FROM versions WHERE plugin_id = $1 AND semver = $2', [pluginId, semVer]);

/** Without frontmatter. */
export const readReadme = async (pool: Queryable, versionId: string): Promise<string> =>
  (await findValue(pool, 'SELECT readme FROM versions WHERE id = $1', [versionId])) ?? '';

const SELECT_FILES = 'SELECT path, sha256, size_bytes::float8 AS "sizeBytes" FROM version_files WHERE version_id = $1';

/** By path. */
export const listFiles = (pool: Queryable, versionId: string): Promise<VersionFile[]> =>
  listRows(pool, `${SELECT_FILES} ORDER BY path COLLATE "C"`, [versionId]);

/** Lists files by path, as many as `limit`. @param after the path before the first one; '': from the start */
export const pageFiles = (pool: Queryable, versionId: string, after: string, limit: number): Promise<VersionFile[]> =>
  listRows(pool, `${SELECT_FILES} AND path COLLATE "C" > $2 ORDER BY path COLLATE "C" LIMIT $3`, [
    versionId,
    after,
    limit,
  ]);

export const findFile = (pool: Queryable, versionId: string, path: string): Promise<VersionFile | null> =>
  findRow(pool, `${SELECT_FILES} AND path = $2`, [versionId, path]);

/** A folder of a version's files, such as `skills/bread`. */
interface VersionFolder {
  readonly versionId: string;
  readonly folder: string;
}
interface FolderFile extends Pick<VersionFile, 'path' | 'sizeBytes'> {
  /** Index of its folder in the list. */
  readonly index: number;
}

/** Lists the files below these folders, by folder and path. */
export const listFilesBelow = (
  pool: Queryable,
  folders: readonly VersionFolder[],
  limit: number,
): Promise<FolderFile[]> =>
  listRows(
    pool,
    `SELECT below.position::int - 1 AS index, f.path, f.size_bytes::float8 AS "sizeBytes"
       FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS below(version_id, folder, position)
       JOIN version_files f ON f.version_id = below.version_id AND starts_with(f.path, below.folder || '/')
      ORDER BY below.position, f.path COLLATE "C" LIMIT $3`,
    [folders.map(({ versionId }) => versionId), folders.map(({ folder }) => folder), limit],
  );

export async function markYanked(tx: ClientBase, id: string): Promise<void> {
  const sql = `UPDATE versions SET status = 'yanked', yanked_at = now() WHERE id = $1 AND status = 'published'`;
  await tx.query(sql, [id]);
}

/**
 * The owner's list still shows yanked versions, so the values keep the shapes of `Manifest` and `Discovered`. Hooks stay: a user
 * who requires the plugin and consented to this version must be asked before another one without them is installed.
 */
const EMPTY_TEXTS = `readme = '', registrations = '{}', added_capabilities = '{}',
  capabilities = ARRAY(SELECT c FROM unnest(capabilities) c WHERE c = ANY ('{${Object.keys(hooks).join(',')}}')),
  manifest = manifest || '{"capabilities": [], "settings": {}, "secrets": {}}', discovered =
  '{"commands": [], "skills": [], "middleware": [], "lifecycle": [], "tools": [], "providers": [], "channel": null}'`;

/**
 * Gives up the files, bundles, source maps and texts of yanked versions that no installation uses. One that only ran before, failed
 * or is pinned is not used: nothing moves an installation to it any more. The rows stay, because a version number is never reusable.
 *
 * @param pluginId null: all plugins
 */
export async function releaseYankedVersions(tx: ClientBase | Pool, pluginId: string | null): Promise<void> {
  const isUsedAs = (column: string) => `EXISTS (SELECT 1 FROM installations i WHERE i.${column} = v.id)`;
  await tx.query(
    `WITH unused AS (
       SELECT v.id FROM versions v
        WHERE v.status = 'yanked' AND v.stored_bytes > 0 AND ($1::text IS NULL OR v.plugin_id = $1)
          AND NOT ${isUsedAs('current_version_id')} AND NOT ${isUsedAs('pending_version_id')}
          AND NOT ${isUsedAs('target_version_id')}),
     emptied AS (DELETE FROM version_files WHERE version_id IN (SELECT id FROM unused))
     UPDATE versions SET stored_bytes = 0, ${EMPTY_TEXTS} WHERE id IN (SELECT id FROM unused)`,
    [pluginId],
  );
}

/** Makes room for another draft. The row stays until `deleteReplacedDrafts`. */
export async function replaceDraft(tx: ClientBase, pluginId: string): Promise<void> {
  await tx.query(`UPDATE versions SET status = 'replaced' WHERE plugin_id = $1 AND status = 'draft'`, [pluginId]);
}

/** Deletes the replaced drafts of a plugin that no installation refers to. Earlier releases let their owner pin one. */
export async function deleteReplacedDrafts(tx: ClientBase, pluginId: string): Promise<void> {
  await tx.query(
    `DELETE FROM versions v WHERE v.plugin_id = $1 AND v.status = 'replaced' AND NOT EXISTS (
       SELECT 1 FROM installations i
        WHERE v.id IN (i.current_version_id, i.target_version_id, i.previous_version_id, i.pinned_version_id,
                       i.pending_version_id))`,
    [pluginId],
  );
}

/** False: `releaseYankedVersions` gave up the version's content. */
const HAS_CONTENT = `(status <> 'yanked' OR stored_bytes > 0)`;
/** Blobs in use: as a version's file, bundle or source map, or as media. Each column has an index. */
const BLOB_USES = [
  ['sha256', 'version_files WHERE true'],
  ['bundle_sha256', `versions WHERE bundle_sha256 <> '' AND ${HAS_CONTENT}`],
  ['source_map_sha256', `versions WHERE source_map_sha256 IS NOT NULL AND ${HAS_CONTENT}`],
  ['sha256', 'media WHERE true'],
] as const;

const USED_BLOBS = BLOB_USES.map(([column, rows]) => `SELECT ${column} AS name FROM ${rows}`).join(' UNION ');

export const findUsedBlobs = async (pool: Queryable, names: readonly string[]): Promise<Set<string>> =>
  new Set(await listValues(pool, `SELECT name FROM (${USED_BLOBS}) AS used WHERE name = ANY ($1)`, [names]));

/** The page of each use, in the order of its index: a page of their union would read all remaining names. */
const USED_BLOB_PAGES = BLOB_USES.map(
  ([column, rows]) => `(SELECT DISTINCT ${column} AS name FROM ${rows} AND ${column} > $1 ORDER BY 1 LIMIT $2)`,
).join(' UNION ');

/** Finds a file of a version that is longer. */
export const findLongFile = (
  pool: Queryable,
  maxBytes: number,
): Promise<{
  readonly slug: string;
  readonly semVer: string | null;
  readonly path: string;
  readonly sizeBytes: number;
} | null> =>
  findRow(
    pool,
    `SELECT p.slug, v.semver AS "semVer", f.path, f.size_bytes::float8 AS "sizeBytes"
       FROM version_files f JOIN versions v ON v.id = f.version_id JOIN plugins p ON p.id = v.plugin_id
      WHERE f.size_bytes > $1 LIMIT 1`,
    [maxBytes],
  );

/** Lists names of blobs in use that follow a name, in order. */
export const listUsedBlobs = (pool: Queryable, after: string, limit: number): Promise<string[]> =>
  listValues(pool, `${USED_BLOB_PAGES} ORDER BY name LIMIT $2`, [after, limit]);
