/** Keys as rows, each sealed under the key of the cluster, which is never stored with them. */
import { createHmac, hash } from 'node:crypto';
import type { Transaction } from '../postgres/pool.ts';
import { changeRows, hasRow, listRows, type Queryable } from '../postgres/rows.ts';
import { openBox, sealBox } from './cipher.ts';
import type { KeyPurpose, KeyStore } from './key-files.ts';

interface SealedRow {
  readonly id: string;
  readonly purpose: KeyPurpose;
  readonly sealed: Buffer;
}

const FINGERPRINT_CHARS = 16;

/** Names a cluster's key without revealing it. */
const fingerprintClusterKey = (key: Buffer): string =>
  createHmac('sha256', key).update('bulkhead cluster key').digest('hex').slice(0, FINGERPRINT_CHARS);
export const fingerprintKey = (purpose: KeyPurpose, key: Buffer): string =>
  hash('sha256', purpose === 'secrets' ? key : Buffer.from(JSON.parse(key.toString('utf8')).x, 'base64url'));

/** @param key 32 bytes */
export function openSealedKeys(db: Queryable, key: Buffer): KeyStore {
  return {
    place: 'the database',
    fingerprint: fingerprintClusterKey(key),
    async list(purpose, tx = db) {
      const rows = await listSealed(tx);
      const own = rows.filter((row) => row.purpose === purpose);
      // After a change of the cluster's key, a process that has the old one keeps what it read before.
      return new Map(own.flatMap((row) => tryOpen(key, row)));
    },
    async add(purpose, id, content, onlyFirst = false) {
      if (onlyFirst && (await listSealed(db)).some((row) => row.purpose === purpose)) return;
      await db.query(
        `INSERT INTO recorded_keys AS k (id, purpose, fingerprint, sealed) VALUES ($1, $2, $3, $4)
         ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed
           WHERE k.sealed IS NULL AND k.fingerprint = excluded.fingerprint`,
        [id, purpose, fingerprintKey(purpose, content), seal(key, purpose, id, content)],
      );
    },
    async remove(purpose, id) {
      await db.query('DELETE FROM recorded_keys WHERE id = $1 AND purpose = $2', [id, purpose]);
    },
    async explainMissing(id) {
      const isSealed = await hasRow(db, 'SELECT 1 FROM recorded_keys WHERE id = $1 AND sealed IS NOT NULL', [id]);
      return isSealed
        ? 'is sealed under another cluster key than that of this process. Set the current key of the cluster and restart the process.'
        : 'is not in the database. Restore it from a backup.';
    },
  };
}

/**
 * Seals all keys with another key. Processes with the old key go on with the keys that they have read.
 *
 * @param tx in which all of it happens
 * @returns how many
 * @throws Error when another command has changed the key meanwhile
 */
export async function changeClusterKey(tx: Transaction, oldKey: Buffer, newKey: Buffer): Promise<number> {
  await tx.query('LOCK TABLE recorded_keys IN SHARE ROW EXCLUSIVE MODE');
  const rows = await listSealed(tx);
  for (const row of rows) {
    const { id, purpose } = row;
    const [opened] = tryOpen(oldKey, row);
    if (opened === undefined)
      throw new Error('The keys are sealed under another cluster key by now. Nothing was changed.');
    await tx.query('UPDATE recorded_keys SET sealed = $2 WHERE id = $1', [id, seal(newKey, purpose, id, opened[1])]);
  }
  await changeRows(tx, 'UPDATE cluster SET key_fingerprint = $1', [fingerprintClusterKey(newKey)]);
  return rows.length;
}

const listSealed = (db: Queryable): Promise<SealedRow[]> =>
  listRows(db, 'SELECT id, purpose, sealed FROM recorded_keys WHERE sealed IS NOT NULL');

function tryOpen(key: Buffer, { id, purpose, sealed }: SealedRow): [string, Buffer][] {
  try {
    return [[id, openBox(key, sealed, nameKey(purpose, id))]];
  } catch {
    return [];
  }
}

/** Binds a key to its row. */
const nameKey = (purpose: KeyPurpose, id: string): string => JSON.stringify(['key', purpose, id]);
const seal = (key: Buffer, purpose: KeyPurpose, id: string, content: Buffer): Buffer =>
  sealBox(key, content, nameKey(purpose, id));
