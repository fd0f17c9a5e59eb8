/** Media files of an account: rows over blobs, each held by the installations that put it. */
import { createHash } from 'node:crypto';
import type { Pool } from 'pg';
import type { BlobName } from '../files/blobs.ts';
import { inTransaction, type Transaction, takeNamedLock } from '../postgres/pool.ts';

export interface Media {
  readonly id: string;
  readonly sha256: string;
  readonly mediaType: string;
  readonly name: string | null;
  readonly sizeBytes: number;
}
export interface MediaQuota {
  /** Of one account. */
  readonly bytes: number;
  readonly files: number;
}
interface NewMedia extends BlobName {
  readonly accountId: string;
  readonly installationId: string;
  readonly mediaType: string;
  readonly name: string | null;
}

const COLUMNS = `id, sha256, media_type AS "mediaType", name, size_bytes::int AS "sizeBytes"`;

/** The same bytes have the same id within an account, and another in every other account. */
const idOf = (accountId: string, sha256: string): string =>
  createHash('sha256').update(`media\n${accountId}\n${sha256}`).digest('hex');
/** Puts and removals of an account come one after the other: quota and holders are counted. */
const lockMedia = (tx: Transaction, accountId: string): Promise<void> => takeNamedLock(tx, `media:${accountId}`);

/**
 * Records that an installation put a blob, which is on disk already.
 *
 * @returns null when the account would then hold more than its quota, or the installation is gone
 */
export function saveMedia(pool: Pool, made: NewMedia, quota: MediaQuota, signal?: AbortSignal): Promise<Media | null> {
  const id = idOf(made.accountId, made.sha256);
  const keep = async (tx: Transaction): Promise<Media | null> => {
    await lockMedia(tx, made.accountId);
    const used = await tx.query<{ bytes: string; files: string }>(
      `SELECT coalesce(sum(size_bytes), 0) AS bytes, count(*) AS files FROM media WHERE account_id = $1 AND id <> $2`,
      [made.accountId, id],
    );
    const { bytes, files } = used.rows[0] ?? { bytes: '0', files: '0' };
    if (Number(bytes) + made.sizeBytes > quota.bytes || Number(files) + 1 > quota.files) return null;
    const kept = await tx.query<Media>(
      `INSERT INTO media (id, account_id, sha256, media_type, name, size_bytes)
       SELECT $1, $2, $3, $4, $5, $6 WHERE EXISTS (SELECT 1 FROM installations WHERE id = $7)
       ON CONFLICT (id) DO UPDATE SET name = coalesce(media.name, excluded.name) RETURNING ${COLUMNS}`,
      [id, made.accountId, made.sha256, made.mediaType, made.name, made.sizeBytes, made.installationId],
    );
    if (!kept.rows[0]) return null;
    await tx.query('INSERT INTO media_holders (media_id, installation_id) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
      id,
      made.installationId,
    ]);
    return kept.rows[0];
  };
  return inTransaction(pool, keep, signal);
}

/** A media file of this account; another account's is not found. */
export async function findMedia(pool: Pool, accountId: string, id: string): Promise<Media | null> {
  const found = await pool.query<Media>(`SELECT ${COLUMNS} FROM media WHERE id = $1 AND account_id = $2`, [
    id,
    accountId,
  ]);
  return found.rows[0] ?? null;
}

/** Gives up an installation's hold of a file, which goes with its last holder. False: it held none of this id. */
export function releaseMedia(
  pool: Pool,
  of: { readonly accountId: string; readonly installationId: string; readonly id: string },
  signal?: AbortSignal,
): Promise<boolean> {
  const drop = async (tx: Transaction): Promise<boolean> => {
    await lockMedia(tx, of.accountId);
    const dropped = await tx.query('DELETE FROM media_holders WHERE media_id = $1 AND installation_id = $2', [
      of.id,
      of.installationId,
    ]);
    await tx.query(
      'DELETE FROM media m WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM media_holders h WHERE h.media_id = m.id)',
      [of.id],
    );
    return dropped.rowCount === 1;
  };
  return inTransaction(pool, drop, signal);
}

/** Gives up everything an installation holds. */
export async function releaseMediaOfInstallation(tx: Transaction, installationId: string): Promise<void> {
  const owner = await tx.query<{ accountId: string }>(
    'SELECT account_id AS "accountId" FROM installations WHERE id = $1',
    [installationId],
  );
  if (!owner.rows[0]) return;
  await lockMedia(tx, owner.rows[0].accountId);
  await tx.query(
    `WITH dropped AS (DELETE FROM media_holders WHERE installation_id = $1 RETURNING media_id)
     DELETE FROM media m WHERE id IN (SELECT media_id FROM dropped)
        AND NOT EXISTS (SELECT 1 FROM media_holders h WHERE h.media_id = m.id AND h.installation_id <> $1)`,
    [installationId],
  );
}
