/** Installation secrets: encrypted with AES-256-GCM before they reach Postgres, decrypted only for the child that owns them. */

import { randomBytes } from 'node:crypto';
import { throwQuotaProblem } from '../accounts/usage.ts';
import { findRow, listRows, listValues, type Queryable } from '../postgres/rows.ts';
import { KEY_BYTES, openBox, sealBox } from './cipher.ts';
import { createKeyId, type KeyStore, openKeyFiles } from './key-files.ts';

interface SealedSecret {
  readonly keyId: string;
  /** Nonce, ciphertext, tag. */
  readonly sealed: Buffer;
}

/**
 * Opens the keys that seal secrets, and creates the first one.
 *
 * @param dataDir `DATA_DIR`, shared by the API (which encrypts) and the supervisor (which decrypts)
 * @param store default: the files of that folder
 */
export async function openSecretKeys(dataDir: string, store: KeyStore = openKeyFiles(dataDir)): Promise<SecretKeys> {
  const keys = new SecretKeys(store);
  await keys.load();
  return keys;
}

/** The newest key encrypts new values; older ones remain to decrypt existing values. */
export class SecretKeys {
  readonly #store: KeyStore;
  readonly #keys = new Map<string, Buffer>();

  constructor(store: KeyStore) {
    this.#store = store;
  }

  /** The id of the newest key; null without any. */
  get newest(): string | null {
    // Ids are UUIDv7, so the greatest is the newest.
    return this.ids.sort().at(-1) ?? null;
  }

  /** The ids of the keys that are there. */
  get ids(): string[] {
    return [...this.#keys.keys()];
  }

  async load(): Promise<void> {
    await this.#readKeys();
    // Two processes may both create a key at the same time. Both keys remain, and each process reads both.
    if (this.#keys.size === 0) await this.rotate();
  }

  /** Creates a new key for future values. Other processes read it when they need it. */
  async rotate(): Promise<string> {
    await this.#readKeys();
    const keyId = createKeyId(this.#keys.keys());
    const key = randomBytes(KEY_BYTES);
    await this.#store.add('secrets', keyId, key);
    this.#keys.set(keyId, key);
    return keyId;
  }

  /**
   * @param owner the installation, or what else the value belongs to
   * @param tx the transaction of the caller, if it is in one
   */
  async seal(owner: string, name: string, value: string, tx?: Queryable): Promise<SealedSecret> {
    // Another process may have created a newer key.
    await this.#readKeys(tx);
    const keyId = this.newest ?? (await this.rotate());
    const sealed = sealBox(await this.#key(keyId), Buffer.from(value, 'utf8'), nameSecret(owner, name));
    return { keyId, sealed };
  }

  /** @throws Error when the key is missing, or when the row was changed, moved or renamed */
  async open(owner: string, name: string, { keyId, sealed }: SealedSecret): Promise<string> {
    return openBox(await this.#key(keyId), sealed, nameSecret(owner, name)).toString('utf8');
  }

  async #key(keyId: string): Promise<Buffer> {
    if (!this.#keys.has(keyId)) await this.#readKeys();
    const key = this.#keys.get(keyId);
    if (!key) throw new Error(`Secret key ${keyId} ${await this.#store.explainMissing(keyId)}`);
    return key;
  }

  async #readKeys(tx?: Queryable): Promise<void> {
    for (const [keyId, key] of await this.#store.list('secrets', tx)) this.#keys.set(keyId, key);
  }
}

/** Binds a value to its row: it cannot be decrypted under another owner or name. */
const nameSecret = (owner: string, name: string): string => JSON.stringify(['secret', owner, name]);

/**
 * @param capabilities about the secret, which the user allows with the value. Null: those that are granted
 * @throws Problem `quota_exceeded`
 */
export async function saveSecret(
  tx: Queryable,
  keys: SecretKeys,
  installationId: string,
  name: string,
  value: string,
  capabilities: readonly string[] | null = null,
): Promise<void> {
  const { keyId, sealed } = await keys.seal(installationId, name, value, tx);
  const saved = tx.query(
    `INSERT INTO installation_secrets (installation_id, name, key_id, sealed, capabilities) VALUES ($1, $2, $3, $4, $5)
     ON CONFLICT (installation_id, name) DO UPDATE
       SET key_id = excluded.key_id, sealed = excluded.sealed, capabilities = excluded.capabilities, updated_at = now()`,
    [installationId, name, keyId, sealed, capabilities],
  );
  await saved.catch(throwQuotaProblem);
}

/** The capabilities about a secret that its user allowed, of a row `s` of an installation `i`. */
export const ALLOWED_SQL = `coalesce(s.capabilities, ARRAY(
  SELECT g FROM unnest(i.granted_capabilities) g WHERE split_part(g, ':', 1) = 'secrets.' || s.name))`;

/** Locks the secrets of an installation in the order of a rotation of the key, which locks many at once. */
export const lockSecrets = (tx: Queryable, installationId: string): Promise<unknown> =>
  tx.query('SELECT 1 FROM installation_secrets WHERE installation_id = $1 ORDER BY name FOR UPDATE', [installationId]);

/** Allows what the version of an update that its user consented to declares, for the values that there are. */
export async function allowTargetSecrets(tx: Queryable, installationId: string): Promise<void> {
  await lockSecrets(tx, installationId);
  await tx.query(
    `UPDATE installation_secrets s
        SET capabilities = ARRAY(SELECT DISTINCT c FROM unnest(${ALLOWED_SQL} || v.capabilities) c
                                  WHERE split_part(c, ':', 1) = 'secrets.' || s.name)
       FROM installations i JOIN versions v ON v.id = i.target_version_id
      WHERE i.id = $1 AND i.rollback_reason IS NULL AND s.installation_id = i.id`,
    [installationId],
  );
}

export async function deleteSecret(tx: Queryable, installationId: string, name: string): Promise<void> {
  await tx.query('DELETE FROM installation_secrets WHERE installation_id = $1 AND name = $2', [installationId, name]);
}

/** Deletes the secrets with other names. */
export async function deleteOtherSecrets(
  tx: Queryable,
  installationId: string,
  kept: readonly string[],
): Promise<void> {
  await tx.query('DELETE FROM installation_secrets WHERE installation_id = $1 AND name <> ALL ($2)', [
    installationId,
    kept,
  ]);
}

/** Sorted. Users see the names of their secrets, never the values. */
export const listSecretNames = (tx: Queryable, installationId: string): Promise<string[]> =>
  listValues(tx, 'SELECT name FROM installation_secrets WHERE installation_id = $1 ORDER BY name', [installationId]);

/** Decrypts secrets of an installation, by name. */
export async function readSecrets(
  pool: Queryable,
  keys: SecretKeys,
  installationId: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await listRows<SealedSecret & { readonly name: string }>(
    pool,
    'SELECT name, key_id AS "keyId", sealed FROM installation_secrets WHERE installation_id = $1 AND name = ANY ($2)',
    [installationId, names],
  );
  const opened = rows.map(
    async ({ name, ...secret }): Promise<[string, string]> => [name, await keys.open(installationId, name, secret)],
  );
  return new Map(await Promise.all(opened));
}

/**
 * Decrypts one secret, only for the host call of the child that owns it, with the capabilities that its user allowed (null: those
 * that are granted). Null: the installation has no such secret.
 */
export async function readSecret(
  pool: Queryable,
  keys: SecretKeys,
  installationId: string,
  name: string,
): Promise<{ readonly value: string; readonly allowed: readonly string[] | null } | null> {
  const row = await findRow<SealedSecret & { readonly allowed: readonly string[] | null }>(
    pool,
    `SELECT key_id AS "keyId", sealed, capabilities AS allowed FROM installation_secrets
      WHERE installation_id = $1 AND name = $2`,
    [installationId, name],
  );
  return row && { value: await keys.open(installationId, name, row), allowed: row.allowed };
}
