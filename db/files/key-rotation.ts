/** Rotates the secret key while the service runs: encrypts every stored secret with a new key. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import { recordAction } from '../accounts/operator-actions.ts';
import { inTransaction } from '../postgres/pool.ts';
import { findValue } from '../postgres/rows.ts';
import { listLostKeys } from './recorded-keys.ts';
import type { SecretKeys } from './secrets.ts';

/** Secrets per transaction: keeps row locks short. */
const BATCH = 200;
/** A process that encrypts with the old key, before it sees the new one, commits within this time. Milliseconds. */
const LATE_WRITER_MS = 1_000;

interface Rotation {
  readonly keyId: string;
  /** This call finished an interrupted rotation instead of creating a new key. */
  readonly resumed: boolean;
  readonly sealed: number;
  /** Secrets that were left out, because the operator gave up their key. */
  readonly lost: number;
}

/**
 * Creates a new key and encrypts every secret with it. Calls succeed meanwhile, because both keys remain. The old key stays
 * in `DATA_DIR/keys/secrets` for older backups. After a `kill -9`, the next call continues with the same key.
 *
 * @param onProgress receives the number of secrets so far
 */
export async function rotateKey(pool: Pool, keys: SecretKeys, onProgress: (sealed: number) => void): Promise<Rotation> {
  const lostKeys = await listLostKeys(pool, keys.ids);
  const resumed = keys.newest !== null && (await isUnfinished(pool, keys.newest, lostKeys));
  const keyId = resumed && keys.newest !== null ? keys.newest : await keys.rotate();
  // Before the first secret is sealed: a rotation that is killed and not repeated has changed secrets, too.
  await inTransaction(pool, (tx) => recordAction(tx, { action: 'rotate-key', subject: keyId }));
  let sealed = 0;
  for (let isRepeated = false; ; ) {
    let batch = 0;
    for (const table of SEALED_TABLES) batch += await sealBatch(pool, keys, { keyId, lostKeys }, table);
    sealed += batch;
    if (batch > 0) {
      onProgress(sealed);
    } else if (isRepeated) {
      break;
    } else {
      isRepeated = true;
      await sleep(LATE_WRITER_MS);
    }
  }
  const lost = await findValue<number>(pool, 'SELECT count(*)::int FROM sealed_values WHERE key_id = ANY ($1)', [
    lostKeys,
  ]);
  return { keyId, resumed, sealed, lost: lost ?? 0 };
}

/** A table of sealed values: the columns that name one, and what its owner is called when it is sealed. */
interface SealedTable {
  readonly table: string;
  readonly owner: string;
  readonly name: string;
  readonly prefix: string;
}
/** The tables of the view `sealed_values`. */
const SEALED_TABLES: readonly SealedTable[] = [
  { table: 'installation_secrets', owner: 'installation_id', name: 'name', prefix: '' },
  { table: 'ssh_hosts', owner: 'account_id', name: 'id', prefix: 'ssh:' },
];

/** Whether only some secrets use the newest key. A rotation that encrypted none yet starts over. */
async function isUnfinished(pool: Pool, newest: string, lostKeys: readonly string[]): Promise<boolean> {
  const found = await pool.query<{ new: boolean; old: boolean }>(
    `SELECT coalesce(bool_or(key_id = $1), false) AS new, coalesce(bool_or(key_id < $1), false) AS old
       FROM sealed_values WHERE key_id <> ALL ($2)`,
    [newest, lostKeys],
  );
  return found.rows[0]?.new === true && found.rows[0].old === true;
}

/** Key ids sort by age. @returns the number of rows */
function sealBatch(
  pool: Pool,
  keys: SecretKeys,
  { keyId, lostKeys }: { readonly keyId: string; readonly lostKeys: readonly string[] },
  { table, owner, name: nameColumn, prefix }: SealedTable,
): Promise<number> {
  return inTransaction(pool, async (tx) => {
    const found = await tx.query<{ id: string; name: string; keyId: string; sealed: Buffer }>(
      `SELECT ${owner} AS id, ${nameColumn} AS name, key_id AS "keyId", sealed FROM ${table}
        WHERE key_id < $1 AND key_id <> ALL ($2) ORDER BY 1, 2 LIMIT ${BATCH} FOR UPDATE`,
      [keyId, lostKeys],
    );
    for (const { id, name, ...old } of found.rows) {
      const { sealed, keyId: by } = await keys.seal(prefix + id, name, await keys.open(prefix + id, name, old), tx);
      const sql = `UPDATE ${table} SET key_id = $3, sealed = $4 WHERE ${owner} = $1 AND ${nameColumn} = $2`;
      await tx.query(sql, [id, name, by, sealed]);
    }
    return found.rows.length;
  });
}
