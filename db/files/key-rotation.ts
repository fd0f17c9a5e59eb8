/** Seals every stored secret anew with the newest key, while the service runs. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import { recordAction } from '../accounts/operator-actions.ts';
import { inTransaction } from '../postgres/pool.ts';
import type { SecretKeys } from './secrets.ts';

/** Secrets in one transaction: each holds its row for a moment only. */
const BATCH = 200;
/** Whoever began to seal with an older key before it saw the new one has written its row by then, milliseconds. */
const LATE_WRITER_MS = 1_000;

export interface Rotation {
  readonly keyId: string;
  /** Whether this finished a rotation that was cut off, instead of making a new key. */
  readonly resumed: boolean;
  readonly sealed: number;
}

/**
 * Makes a new key and seals every secret with it. Both keys open what they sealed, so no call fails meanwhile; the old one
 * stays in `DATA_DIR/keys/secrets` for the backups of before. After a `kill -9` the next call goes on with the same key.
 *
 * @param onProgress told how many are sealed
 */
export async function rotateKey(pool: Pool, keys: SecretKeys, onProgress: (sealed: number) => void): Promise<Rotation> {
  const resumed = keys.newest !== null && (await isUnfinished(pool, keys.newest));
  const keyId = resumed && keys.newest !== null ? keys.newest : await keys.rotate();
  let sealed = 0;
  for (let isLate = false; ; ) {
    const batch = await sealBatch(pool, keys, keyId);
    sealed += batch;
    if (batch > 0) {
      onProgress(sealed);
    } else if (isLate) {
      break;
    } else {
      isLate = true;
      await sleep(LATE_WRITER_MS);
    }
  }
  await inTransaction(pool, (tx) => recordAction(tx, { action: 'rotate-key', subject: keyId }));
  return { keyId, resumed, sealed };
}

/** Some are sealed with the newest key and some are not. A rotation that sealed none yet is simply made again. */
async function isUnfinished(pool: Pool, newest: string): Promise<boolean> {
  const found = await pool.query<{ new: boolean; old: boolean }>(
    'SELECT coalesce(bool_or(key_id = $1), false) AS new, coalesce(bool_or(key_id < $1), false) AS old FROM installation_secrets',
    [newest],
  );
  return found.rows[0]?.new === true && found.rows[0].old === true;
}

/** Ids of keys sort by age. @returns how many rows it sealed. One that its user changes at this moment is waited for. */
function sealBatch(pool: Pool, keys: SecretKeys, keyId: string): Promise<number> {
  return inTransaction(pool, async (tx) => {
    const found = await tx.query<{ id: string; name: string; keyId: string; sealed: Buffer }>(
      `SELECT installation_id AS id, name, key_id AS "keyId", sealed FROM installation_secrets
        WHERE key_id < $1 ORDER BY installation_id, name LIMIT ${BATCH} FOR UPDATE`,
      [keyId],
    );
    for (const { id, name, ...old } of found.rows) {
      const { sealed, keyId: by } = await keys.seal(id, name, await keys.open(id, name, old));
      await tx.query(
        'UPDATE installation_secrets SET key_id = $3, sealed = $4 WHERE installation_id = $1 AND name = $2',
        [id, name, by, sealed],
      );
    }
    return found.rows.length;
  });
}
