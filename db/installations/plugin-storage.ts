/** `host.storage`: a small key-value store for each installation, removed with it. */
import type { Pool } from 'pg';
import { inTransaction, type Transaction, takeNamedLock } from '../postgres/pool.ts';

/** Keys one `list` answers at most. */
const LIST_LIMIT = 10_000;

/** The JSON text under a key, or null. */
export async function readStorageValue(pool: Pool, installationId: string, key: string): Promise<string | null> {
  const found = await pool.query<{ value: string }>(
    'SELECT value FROM installation_storage WHERE installation_id = $1 AND key = $2',
    [installationId, key],
  );
  return found.rows[0]?.value ?? null;
}

/**
 * Stores a JSON text under a key, unless the installation would then hold more than `maxBytes` of keys and values.
 *
 * @param signal when it aborts before the commit, nothing is stored
 * @returns whether there was room
 */
export function writeStorageValue(
  pool: Pool,
  installationId: string,
  entry: { readonly key: string; readonly value: string },
  maxBytes: number,
  signal?: AbortSignal,
): Promise<boolean> {
  const size = Buffer.byteLength(entry.key) + Buffer.byteLength(entry.value);
  const write = async (tx: Transaction): Promise<boolean> => {
    // Two writes at once must not both see room for one.
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

/** Removes a key. */
export async function deleteStorageValue(pool: Pool, installationId: string, key: string): Promise<void> {
  await pool.query('DELETE FROM installation_storage WHERE installation_id = $1 AND key = $2', [installationId, key]);
}

/** The keys that start with a prefix, sorted. */
export async function listStorageKeys(pool: Pool, installationId: string, prefix: string): Promise<string[]> {
  const found = await pool.query<{ key: string }>(
    `SELECT key FROM installation_storage WHERE installation_id = $1 AND starts_with(key, $2) ORDER BY key LIMIT $3`,
    [installationId, prefix, LIST_LIMIT],
  );
  return found.rows.map((row) => row.key);
}
