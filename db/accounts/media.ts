/** Media files of an account. A row refers to a blob and exists while at least one installation holds it. */

import { createHash } from 'node:crypto';
import type { Pool } from 'pg';
import type { BlobName } from '../files/staging.ts';
import { inTransaction, type Transaction, takeNamedLock, type WritingPool } from '../postgres/pool.ts';
import { findRow } from '../postgres/rows.ts';

interface Media {
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
interface NewMedia extends BlobName {
  readonly accountId: string;
  readonly installationId: string;
  readonly mediaType: string;
  readonly name: string | null;
}

const COLUMNS = `id, sha256, media_type AS "mediaType", name, size_bytes::int AS "sizeBytes"`;

/** Equal bytes have the same id within an account, and another id in every other account. */
const createMediaId = (accountId: string, sha256: string): string =>
  createHash('sha256').update(`media\n${accountId}\n${sha256}`).digest('hex');
/** Serializes the writes of an account, which count quota and holders. */
const lockMedia = (tx: Transaction, accountId: string): Promise<void> => takeNamedLock(tx, `media:${accountId}`);

/**
 * Inserts the row of a blob that is on disk already, and its holder.
 *
 * @returns null when the quota would be exceeded or the installation is gone
 */
export function saveMedia(
  pool: WritingPool,
  media: NewMedia,
  quota: MediaQuota,
  signal?: AbortSignal,
): Promise<Media | null> {
  const id = createMediaId(media.accountId, media.sha256);
  const save = async (tx: Transaction): Promise<Media | null> => {
    await lockMedia(tx, media.accountId);
    const used = await tx.query<{ bytes: string; files: string }>(
      `SELECT coalesce(sum(size_bytes), 0) AS bytes, count(*) AS files FROM media WHERE account_id = $1 AND id <> $2`,
      [media.accountId, id],
    );
    const { bytes, files } = used.rows[0] ?? { bytes: '0', files: '0' };
    if (Number(bytes) + media.sizeBytes > quota.bytes || Number(files) + 1 > quota.files) return null;
    const saved = await tx.query<Media>(
      `INSERT INTO media (id, account_id, sha256, media_type, name, size_bytes)
       SELECT $1, $2, $3, $4, $5, $6 WHERE EXISTS (SELECT 1 FROM installations WHERE id = $7)
       ON CONFLICT (id) DO UPDATE SET name = coalesce(media.name, excluded.name) RETURNING ${COLUMNS}`,
      [id, media.accountId, media.sha256, media.mediaType, media.name, media.sizeBytes, media.installationId],
    );
    if (!saved.rows[0]) return null;
    await tx.query('INSERT INTO media_holders (media_id, installation_id) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
      id,
      media.installationId,
    ]);
    return saved.rows[0];
  };
  return inTransaction(pool, save, signal);
}

export const findMedia = (pool: Pool, accountId: string, id: string): Promise<Media | null> =>
  findRow(pool, `SELECT ${COLUMNS} FROM media WHERE id = $1 AND account_id = $2`, [id, accountId]);

/** Removes an installation as a holder, and the row with its last holder. False: it does not hold this file. */
export function releaseMedia(
  pool: WritingPool,
  { accountId, installationId, id }: { accountId: string; installationId: string; id: string },
  signal?: AbortSignal,
): Promise<boolean> {
  const release = async (tx: Transaction): Promise<boolean> => {
    await lockMedia(tx, accountId);
    const released = await tx.query('DELETE FROM media_holders WHERE media_id = $1 AND installation_id = $2', [
      id,
      installationId,
    ]);
    await tx.query(
      'DELETE FROM media m WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM media_holders h WHERE h.media_id = m.id)',
      [id],
    );
    return released.rowCount === 1;
  };
  return inTransaction(pool, release, signal);
}

/** Removes an installation as a holder of all its files. */
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
