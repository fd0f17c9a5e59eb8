/** `host.storage`: a key-value store per installation. */
import type { Pool } from 'pg';
import { limits } from '../../sdk/contract/limits.ts';
import { inLockedTransaction, inTransaction, type Transaction, type WritingPool } from '../postgres/pool.ts';
import { findValue, listValues } from '../postgres/rows.ts';
import { findStorageExcess, measureEntry, type StorageEntry, type StorageExcess } from './storage-limits.ts';

/** @returns JSON text, or null */
export const readStorageValue = (pool: Pool, installationId: string, key: string): Promise<string | null> =>
  findValue(pool, 'SELECT value FROM installation_storage WHERE installation_id = $1 AND key = $2', [
    installationId,
    key,
  ]);

/**
 * Stores a JSON text, unless the keys and values of the installation would exceed `maxBytes`, or its keys `limits.storageKeys`.
 *
 * @param signal prevents the write when aborted before the commit
 * @returns what the installation has too much of; null: the text is stored
 */
export function writeStorageValue(
  pool: WritingPool,
  installationId: string,
  entry: StorageEntry,
  maxBytes: number,
  signal?: AbortSignal,
): Promise<StorageExcess> {
  const size = measureEntry(entry);
  if (size > maxBytes) return Promise.resolve('bytes');
  const write = async (tx: Transaction): Promise<StorageExcess> => {
    const found = await tx.query<{ bytes: number; keys: number; isNew: boolean }>(
      `SELECT coalesce(sum(size_bytes) FILTER (WHERE key <> $2), 0)::float8 AS bytes, count(*)::int AS keys,
              coalesce(bool_and(key <> $2), true) AS "isNew"
         FROM installation_storage WHERE installation_id = $1`,
      [installationId, entry.key],
    );
    const excess = findStorageExcess(found.rows[0] ?? { bytes: 0, keys: 0, isNew: true }, size, maxBytes);
    if (excess !== null) return excess;
    await tx.query(
      `INSERT INTO installation_storage (installation_id, key, value, size_bytes)
       SELECT $1, $2, $3, $4 WHERE EXISTS (SELECT 1 FROM installations WHERE id = $1)
       ON CONFLICT (installation_id, key) DO UPDATE
         SET value = excluded.value, size_bytes = excluded.size_bytes, updated_at = now()`,
      [installationId, entry.key, entry.value, size],
    );
    return null;
  };
  // Concurrent writes must not exceed the limits together.
  return inLockedTransaction(pool, `storage:${installationId}`, write, signal);
}

/** @param signal prevents the deletion when aborted before the commit */
export function deleteStorageValue(
  pool: WritingPool,
  installationId: string,
  key: string,
  signal?: AbortSignal,
): Promise<void> {
  const sql = 'DELETE FROM installation_storage WHERE installation_id = $1 AND key = $2';
  const remove = async (tx: Transaction): Promise<void> => {
    await tx.query(sql, [installationId, key]);
  };
  return inTransaction(pool, remove, signal);
}

/**
 * Lists the keys that start with a prefix, sorted by their bytes, whatever the collation of the database. Null: there are more than
 * `limits.storageListKeys`.
 */
export async function listStorageKeys(pool: Pool, installationId: string, prefix: string): Promise<string[] | null> {
  const keys = await listValues<string>(
    pool,
    `SELECT key FROM installation_storage WHERE installation_id = $1 AND starts_with(key, $2)
      ORDER BY key COLLATE "C" LIMIT $3`,
    [installationId, prefix, limits.storageListKeys + 1],
  );
  return keys.length > limits.storageListKeys ? null : keys;
}
