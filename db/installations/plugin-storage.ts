/** `host.storage`: a key-value store per installation. */
import type { Pool } from 'pg';
import { limits } from '../../sdk/contract/limits.ts';
import { inTransaction, type Transaction, takeNamedLock, type WritingPool } from '../postgres/pool.ts';

/** @returns JSON text, or null */
export async function readStorageValue(pool: Pool, installationId: string, key: string): Promise<string | null> {
  const found = await pool.query<{ value: string }>(
    'SELECT value FROM installation_storage WHERE installation_id = $1 AND key = $2',
    [installationId, key],
  );
  return found.rows[0]?.value ?? null;
}

/**
 * Stores a JSON text, unless the keys and values of the installation would exceed `maxBytes`.
 *
 * @param signal prevents the write when aborted before the commit
 * @returns false: the storage is full
 */
export function writeStorageValue(
  pool: WritingPool,
  installationId: string,
  entry: { readonly key: string; readonly value: string },
  maxBytes: number,
  signal?: AbortSignal,
): Promise<boolean> {
  const size = Buffer.byteLength(entry.key) + Buffer.byteLength(entry.value);
  if (size > maxBytes) return Promise.resolve(false);
  const write = async (tx: Transaction): Promise<boolean> => {
    // Concurrent writes must not exceed the limit together.
    await takeNamedLock(tx, `storage:${installationId}`);
    const used = await tx.query<{ bytes: string }>(
      `SELECT coalesce(sum(size_bytes), 0) AS bytes FROM installation_storage
        WHERE installation_id = $1 AND key <> $2`,
      [installationId, entry.key],
    );
    if (Number(used.rows[0]?.bytes ?? 0) + size > maxBytes) return false;
    await tx.query(
      `INSERT INTO installation_storage (installation_id, key, value, size_bytes)
       SELECT $1, $2, $3, $4 WHERE EXISTS (SELECT 1 FROM installations WHERE id = $1)
       ON CONFLICT (installation_id, key) DO UPDATE
         SET value = excluded.value, size_bytes = excluded.size_bytes, updated_at = now()`,
      [installationId, entry.key, entry.value, size],
    );
    return true;
  };
  return inTransaction(pool, write, signal);
}

export function deleteStorageValue(pool: WritingPool, installationId: string, key: string): Promise<void> {
  return inTransaction(pool, async (tx) => {
    await tx.query('DELETE FROM installation_storage WHERE installation_id = $1 AND key = $2', [installationId, key]);
  });
}

/** Lists the keys that start with a prefix, sorted. Null: there are more than `limits.storageListKeys`. */
export async function listStorageKeys(pool: Pool, installationId: string, prefix: string): Promise<string[] | null> {
  const found = await pool.query<{ key: string }>(
    `SELECT key FROM installation_storage WHERE installation_id = $1 AND starts_with(key, $2) ORDER BY key LIMIT $3`,
    [installationId, prefix, limits.storageListKeys + 1],
  );
  return found.rows.length > limits.storageListKeys ? null : found.rows.map((row) => row.key);
}
