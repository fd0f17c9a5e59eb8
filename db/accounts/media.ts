/** Media files of an account. A row refers to a blob and exists while at least one installation, session or reply holds it. */

import { hash } from 'node:crypto';
import type { Pool } from 'pg';
import type { BlobName } from '../files/staging.ts';
import { inLockedTransaction, type Transaction, takeNamedLock, type WritingPool } from '../postgres/pool.ts';
import { findRow, listRows, listValues, type Queryable } from '../postgres/rows.ts';

export interface Media {
  readonly id: string;
  readonly sha256: string;
  readonly mediaType: string;
  readonly name: string | null;
  readonly sizeBytes: number;
}
export interface MediaQuota {
  /** Per account. */
  readonly bytes: number;
  readonly files: number;
}
export type MediaHolder = { readonly installationId: string } | { readonly sessionId: string };
interface NewMedia extends BlobName {
  readonly accountId: string;
  readonly holder: MediaHolder;
  readonly mediaType: string;
  readonly name: string | null;
}

const COLUMNS = `id, sha256, media_type AS "mediaType", name, size_bytes::int AS "sizeBytes"`;

/** Equal bytes have the same id within an account, and another id in every other account. */
const createMediaId = (accountId: string, sha256: string): string => hash('sha256', `media\n${accountId}\n${sha256}`);
/** Serializes the writes of an account, which count quota and holders. */
const nameMediaLock = (accountId: string): string => `media:${accountId}`;

/**
 * Inserts the row of a blob that is on disk already, and its holder.
 *
 * @returns null when the quota would be exceeded or the holder is gone
 */
export function saveMedia(
  pool: WritingPool,
  media: NewMedia,
  quota: MediaQuota,
  signal?: AbortSignal,
): Promise<Media | null> {
  const id = createMediaId(media.accountId, media.sha256);
  const { table, column, holders, holderId } = locateHolder(media.holder);
  const save = async (tx: Transaction): Promise<Media | null> => {
    const used = await tx.query<{ bytes: string; files: string }>(
      `SELECT coalesce(sum(size_bytes), 0) AS bytes, count(*) AS files FROM media WHERE account_id = $1 AND id <> $2`,
      [media.accountId, id],
    );
    const { bytes, files } = used.rows[0] ?? { bytes: '0', files: '0' };
    if (Number(bytes) + media.sizeBytes > quota.bytes || Number(files) + 1 > quota.files) return null;
    const saved = await tx.query<Media>(
      `INSERT INTO media (id, account_id, sha256, media_type, name, size_bytes)
       -- Locked before the file's row, as by a removal of the holder.
       SELECT $1, $2, $3, $4, $5, $6 WHERE EXISTS (SELECT 1 FROM ${table} WHERE id = $7 AND account_id = $2 FOR KEY SHARE)
       ON CONFLICT (id) DO UPDATE SET name = coalesce(media.name, excluded.name) RETURNING ${COLUMNS}`,
      [id, media.accountId, media.sha256, media.mediaType, media.name, media.sizeBytes, holderId],
    );
    if (!saved.rows[0]) return null;
    const hold = `INSERT INTO ${holders} (media_id, ${column}) VALUES ($1, $2) ON CONFLICT DO NOTHING`;
    await tx.query(hold, [id, holderId]);
    return saved.rows[0];
  };
  return inLockedTransaction(pool, nameMediaLock(media.accountId), save, signal);
}

const locateHolder = (holder: MediaHolder) =>
  'sessionId' in holder
    ? { table: 'sessions', holders: 'session_media', column: 'session_id', holderId: holder.sessionId }
    : { table: 'installations', holders: 'media_holders', column: 'installation_id', holderId: holder.installationId };

/** Makes a session hold files of its account. @returns those that exist */
export const holdMedia = (
  db: Queryable,
  { accountId, sessionId }: { readonly accountId: string; readonly sessionId: string },
  ids: readonly string[],
): Promise<Media[]> =>
  listRows<Media>(
    db,
    // Counting the session locks it before the files, as its deletion does. A session that was deleted meanwhile holds nothing.
    `WITH session AS MATERIALIZED (SELECT id FROM sessions WHERE id = $2 FOR KEY SHARE),
     -- Locked, so that no last holder removes them meanwhile.
     found AS MATERIALIZED (
       SELECT ${COLUMNS} FROM media WHERE account_id = $1 AND id = ANY ($3) AND (SELECT count(*) FROM session) >= 0
        ORDER BY id FOR SHARE),
     held AS (INSERT INTO session_media (session_id, media_id) SELECT session.id, found.id FROM session, found
       ON CONFLICT DO NOTHING)
     SELECT * FROM found`,
    [accountId, sessionId, [...ids]],
  );

/** Removes a session as a holder of all its files, because its transcript was cleared. */
export async function releaseMediaOfSession(tx: Queryable, sessionId: string): Promise<void> {
  // The files are locked before the rows of their holders, as by `holdMedia`.
  const ofSession = 'SELECT media_id FROM session_media WHERE session_id = $1';
  await tx.query(`SELECT 1 FROM media WHERE id IN (${ofSession}) ORDER BY id FOR UPDATE`, [sessionId]);
  await tx.query('DELETE FROM session_media WHERE session_id = $1', [sessionId]);
}

export const findMedia = (pool: Pool, accountId: string, id: string): Promise<Media | null> =>
  findRow(pool, `SELECT ${COLUMNS} FROM media WHERE id = $1 AND account_id = $2`, [id, accountId]);

/** Removes an installation as a holder of a file, and the file's row if it was the last holder. False: it does not hold this file. */
export function releaseMedia(
  pool: WritingPool,
  { accountId, installationId, id }: { accountId: string; installationId: string; id: string },
  signal?: AbortSignal,
): Promise<boolean> {
  const release = async (tx: Transaction): Promise<boolean> => {
    const sql = 'DELETE FROM media_holders WHERE media_id = $1 AND installation_id = $2';
    const released = await tx.query(sql, [id, installationId]);
    await deleteUnheld(tx, [id]);
    return released.rowCount === 1;
  };
  return inLockedTransaction(pool, nameMediaLock(accountId), release, signal);
}

/** Takes the lock of `releaseMediaOfInstallation`. Take it before the row of an installation or a session, as `saveMedia` does. */
export const lockMedia = (tx: Transaction, accountId: string): Promise<void> =>
  takeNamedLock(tx, nameMediaLock(accountId));

/** Removes an installation as a holder of all its files. The caller must hold `lockMedia`. */
export async function releaseMediaOfInstallation(tx: Transaction, installationId: string): Promise<void> {
  const sql = 'DELETE FROM media_holders WHERE installation_id = $1 RETURNING media_id';
  await deleteUnheld(tx, await listValues<string>(tx, sql, [installationId]));
}

async function deleteUnheld(tx: Transaction, ids: readonly string[]): Promise<void> {
  // Waits for a session or a reply that is taking the file; only the next statement sees its row.
  await tx.query('SELECT 1 FROM media WHERE id = ANY ($1) ORDER BY id FOR UPDATE', [ids]);
  await tx.query(
    `DELETE FROM media m WHERE id = ANY ($1) AND NOT EXISTS (SELECT 1 FROM media_holders h WHERE h.media_id = m.id)
        AND NOT EXISTS (SELECT 1 FROM session_media s WHERE s.media_id = m.id)
        AND NOT EXISTS (SELECT 1 FROM delivery_media d WHERE d.media_id = m.id)`,
    [ids],
  );
}
