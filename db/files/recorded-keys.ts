/**
 * Compares the keys of this process with those that the database recorded, before any is created. A start with an empty or
 * wrong DATA_DIR would make new keys: tokens and secrets of the old ones would be lost.
 */
import type { Pool } from 'pg';
import { endSessionsOfKeys } from '../accounts/console-sessions.ts';
import { notifyAllAccountsChanged } from '../postgres/notifications.ts';
import { inTransaction } from '../postgres/pool.ts';
import { findValue, hasRow, listRows, listValues, type Queryable } from '../postgres/rows.ts';
import type { KeyPurpose, KeyStore } from './key-files.ts';
import { fingerprintKey } from './sealed-keys.ts';

interface Key {
  readonly id: string;
  readonly purpose: KeyPurpose;
  readonly fingerprint: string;
}
export interface KeyPlaces {
  readonly dataDir: string;
  /** The keys that it uses: key files, or keys sealed in the database. */
  readonly keys: KeyStore;
  /** The key files of its data directory. */
  readonly keyFiles: KeyStore;
  /** False with OIDC_ISSUER: only exchanged tokens are signed, and their keys are not checked. */
  readonly signsTokens: boolean;
}
interface RecordedKey extends Key {
  /** Whether this is the newest key of its purpose, which seals new values or signs new tokens. */
  readonly isNewest: boolean;
}

const PURPOSES: readonly KeyPurpose[] = ['identity', 'secrets'];
/** In place of the fingerprint of a key that the operator gave up. */
const LOST = 'lost';

/**
 * Finds out why the keys of this process are not those of this database. Call it before the keys are opened: opening creates
 * missing ones.
 *
 * @returns what is wrong and what to do, without a full stop; null: the keys fit
 */
export async function findKeyMismatch(
  pool: Pool,
  { dataDir, keys, keyFiles, signsTokens }: KeyPlaces,
): Promise<string | null> {
  // Records first: a process that starts at the same time writes a key's file before its record.
  const recorded = (await listRecordedKeys(pool)).filter(({ purpose }) => signsTokens || purpose === 'secrets');
  const found = new Map([...(await readKeys(keyFiles)), ...(await readKeys(keys))].map((key) => [key.id, key]));
  const lost = new Set(recorded.flatMap(({ id, fingerprint }) => (fingerprint === LOST ? [id] : [])));
  const changed = recorded.find(
    ({ id, fingerprint }) => !lost.has(id) && (found.get(id)?.fingerprint ?? fingerprint) !== fingerprint,
  );
  if (changed !== undefined)
    return `DATA_DIR ${dataDir} has another key under the id ${changed.id} than this database recorded: restore DATA_DIR/keys from a backup`;
  const sealing = await listValues<string>(pool, 'SELECT DISTINCT key_id FROM sealed_values');
  const needed = new Set([...recorded.flatMap(({ id, isNewest }) => (isNewest ? [id] : [])), ...sealing]);
  const missing = [...needed].filter((id) => !found.has(id) && !lost.has(id));
  if (missing.length === 0) return null;
  const lacking = `DATA_DIR ${dataDir} lacks keys that this database uses (${missing.join(', ')})`;
  const isSealed = await hasRow(pool, 'SELECT 1 FROM recorded_keys WHERE sealed IS NOT NULL AND id = ANY ($1)', [
    missing,
  ]);
  return isSealed
    ? `${lacking}, but the database has them, sealed under a cluster key: set CLUSTER_KEY_FILE, CLUSTER_KEY_COMMAND or CLUSTER_KEY to the key that sealed them`
    : `${lacking}: set DATA_DIR to the folder of this database, or restore it from a backup`;
}

/** Whether this database has recorded keys: a service has started on it. */
export const hasRecordedKeys = (db: Queryable): Promise<boolean> => hasRow(db, 'SELECT 1 FROM recorded_keys LIMIT 1');

/** Records the keys that are new. Call it after they were opened. */
export async function recordKeys(db: Queryable, keys: KeyStore): Promise<void> {
  for (const { id, purpose, fingerprint } of await readKeys(keys, db))
    await db.query(
      'INSERT INTO recorded_keys (id, purpose, fingerprint) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING',
      [id, purpose, fingerprint],
    );
}

/**
 * Deletes the records of key files that were removed. Call it after the removal: a process that starts before records the file
 * again. A record that stays would be that of the newest key, if the database's clock was ahead when it was made, and every later
 * start would be refused.
 */
export async function forgetRemovedKeys(db: Queryable, purpose: KeyPurpose, keys: KeyStore): Promise<void> {
  const left = [...(await keys.list(purpose, db)).keys()];
  // A sealed key is removed with its row. One that another cluster key seals is not in the list.
  await db.query('DELETE FROM recorded_keys WHERE purpose = $1 AND sealed IS NULL AND NOT id = ANY ($2)', [
    purpose,
    left,
  ]);
}

/**
 * Records that these keys, which sign tokens, must not be used any more, and ends what was begun with their tokens. Call it before the
 * keys are removed.
 *
 * @param tx the transaction that records the action
 */
export async function revokeKeys(tx: Queryable, ids: readonly string[]): Promise<void> {
  await tx.query('INSERT INTO revoked_keys (id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING', [ids]);
  await endSessionsOfKeys(tx, ids);
  await notifyAllAccountsChanged(tx);
}

export const isKeyRevoked = (db: Queryable, id: string): Promise<boolean> =>
  hasRow(db, 'SELECT 1 FROM revoked_keys WHERE id = $1', [id]);

/**
 * The keys without those that were revoked. The file of a revoked key can come back: each pod start copies missing keys from a
 * Kubernetes Secret, and another machine may have a copy of the folder.
 */
export const omitRevokedKeys = (keys: KeyStore, db: Queryable): KeyStore => ({
  ...keys,
  async list(purpose, tx = db) {
    const found = await keys.list(purpose, tx);
    // Only keys that sign tokens are revoked: secrets need their old keys.
    if (purpose !== 'identity') return found;
    const revoked = new Set(await listRevokedIds(tx));
    return new Map([...found].filter(([id]) => !revoked.has(id)));
  },
});

/** Deletes the files of revoked keys that came back. Call it when this folder is known to be that of the database. */
export async function deleteRevokedKeyFiles(db: Queryable, { keyFiles }: KeyPlaces): Promise<void> {
  const revoked = new Set(await listRevokedIds(db));
  // The folder may be read-only, such as a mounted Secret. The file can stay, because no process uses a revoked key.
  for (const id of (await keyFiles.list('identity')).keys())
    if (revoked.has(id)) await keyFiles.remove('identity', id).catch(() => undefined);
}

async function listRevokedIds(db: Queryable): Promise<string[]> {
  // A process also starts before the migration, and waits for it. A statement that fails would end the caller's transaction.
  const isMigrated = await findValue<boolean>(db, `SELECT to_regclass('revoked_keys') IS NOT NULL`);
  return isMigrated === true ? listValues(db, 'SELECT id FROM revoked_keys') : [];
}

/**
 * Copies the key files into the database, sealed by the cluster key, without revoked ones. The files stay. Does nothing without a
 * cluster key.
 */
export async function adoptKeyFiles(db: Queryable, { keys, keyFiles }: KeyPlaces): Promise<void> {
  if (keys.fingerprint === null) return;
  const files = omitRevokedKeys(keyFiles, db);
  for (const purpose of PURPOSES)
    for (const [id, content] of await files.list(purpose)) await keys.add(purpose, id, content);
}

interface LostSecret {
  readonly account: string;
  /** Null: the login of an SSH host. */
  readonly plugin: string | null;
  readonly secret: string;
}
export interface LostSecrets {
  /** All, also those that are not listed. */
  readonly count: number;
  readonly listed: readonly LostSecret[];
}

/** Finds the secrets that none of these keys opens. */
export async function findLostSecrets(pool: Pool, keys: KeyStore, limit: number): Promise<LostSecrets> {
  const known = [...(await keys.list('secrets')).keys()];
  const counting = 'SELECT count(*)::int FROM sealed_values WHERE NOT key_id = ANY ($1)';
  const listed = await listRows<LostSecret>(
    pool,
    `SELECT a.name AS account, p.slug AS plugin,
            CASE WHEN i.id IS NULL THEN 'login of the SSH host ' || s.name ELSE s.name END AS secret
       FROM sealed_values s LEFT JOIN installations i ON i.id = s.owner LEFT JOIN plugins p ON p.id = i.plugin_id
       JOIN accounts a ON a.id = coalesce(i.account_id, regexp_replace(s.owner, '^ssh:', ''))
      WHERE NOT s.key_id = ANY ($1) ORDER BY account, plugin, secret LIMIT $2`,
    [known, limit],
  );
  return { count: (await findValue<number>(pool, counting, [known])) ?? 0, listed };
}

/** The ids of the keys for secrets that the operator gave up, without those whose file came back. @param known the keys that are there */
export const listLostKeys = (db: Queryable, known: readonly string[]): Promise<string[]> =>
  listValues(db, `SELECT id FROM recorded_keys WHERE purpose = 'secrets' AND fingerprint = $1 AND id <> ALL ($2)`, [
    LOST,
    known,
  ]);

/**
 * Makes the keys of this process those of this database. Secrets sealed with lost keys stay: they open again when the key's file
 * comes back.
 */
export function acceptKeys(pool: Pool, keys: KeyStore): Promise<void> {
  return inTransaction(pool, async (tx) => {
    const known = await readKeys(keys, tx);
    await tx.query('DELETE FROM recorded_keys WHERE sealed IS NULL OR NOT id = ANY ($1)', [known.map(({ id }) => id)]);
    await recordKeys(tx, keys);
    await tx.query(
      `INSERT INTO recorded_keys (id, purpose, fingerprint) SELECT DISTINCT key_id, 'secrets', $1 FROM sealed_values
       ON CONFLICT (id) DO NOTHING`,
      [LOST],
    );
  });
}

/** Without revoked keys: an older release recorded a revoked key again when its file came back. */
const listRecordedKeys = async (pool: Pool): Promise<RecordedKey[]> =>
  listRows(
    pool,
    `SELECT id, purpose, fingerprint, recorded_at = max(recorded_at) OVER (PARTITION BY purpose) AS "isNewest"
       FROM recorded_keys WHERE NOT id = ANY ($1)`,
    [await listRevokedIds(pool)],
  );

async function readKeys(keys: KeyStore, db?: Queryable): Promise<Key[]> {
  const found: Key[] = [];
  for (const purpose of PURPOSES)
    for (const [id, content] of await keys.list(purpose, db))
      found.push({ id, purpose, fingerprint: fingerprintKey(purpose, content) });
  return found;
}
