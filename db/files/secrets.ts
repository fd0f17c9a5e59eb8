/** Installation secrets: encrypted with AES-256-GCM before they reach Postgres, decrypted only for the child that owns them. */

import { createCipheriv, createDecipheriv, randomBytes, randomUUIDv7 } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { Queryable } from '../postgres/rows.ts';
import { syncPath } from './data-dir.ts';

const KEY_BYTES = 32;
/** Random nonces: a key must encrypt far fewer than 2^32 values. */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = 'aes-256-gcm';
export const KEY_FILE = /^([0-9a-f-]{36})\.key$/;

interface SealedSecret {
  readonly keyId: string;
  /** Nonce, ciphertext, tag. */
  readonly sealed: Buffer;
}
/** The keys of a data directory. The newest encrypts new values; older ones remain to decrypt existing values. */
export interface SecretKeys {
  seal(installationId: string, name: string, value: string): Promise<SealedSecret>;
  /** @throws Error when the key is not in `DATA_DIR`, or when the row was changed, moved or renamed */
  open(installationId: string, name: string, secret: SealedSecret): Promise<string>;
  /** Creates a new key for future values. Other processes read it from the folder when they need it. */
  rotate(): Promise<string>;
  /** The id of the newest key; null without any. */
  readonly newest: string | null;
}

/**
 * Opens the keys in `DATA_DIR/keys/secrets`, one per file, and creates the first one.
 *
 * @param dataDir `DATA_DIR`, shared by the API (which encrypts) and the supervisor (which decrypts)
 */
export async function openSecretKeys(dataDir: string): Promise<SecretKeys> {
  const ring = new KeyRing(join(dataDir, 'keys', 'secrets'));
  await ring.load();
  return ring;
}

class KeyRing implements SecretKeys {
  readonly #directory: string;
  readonly #keys = new Map<string, Buffer>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  get newest(): string | null {
    // Ids are UUIDv7, so the greatest is the newest.
    return [...this.#keys.keys()].sort().at(-1) ?? null;
  }

  async load(): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    await this.#readKeys();
    // Two processes may both create a key at the same time. Both keys remain, and each process reads both.
    if (this.#keys.size === 0) await this.rotate();
  }

  async rotate(): Promise<string> {
    const keyId = randomUUIDv7();
    const key = randomBytes(KEY_BYTES);
    const target = join(this.#directory, `${keyId}.key`);
    const file = await open(`${target}.new`, 'wx', 0o600);
    try {
      await file.writeFile(key.toString('base64'));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(`${target}.new`, target);
    await syncPath(this.#directory);
    this.#keys.set(keyId, key);
    return keyId;
  }

  async seal(installationId: string, name: string, value: string): Promise<SealedSecret> {
    // Another process may have created a newer key.
    await this.#readKeys();
    const keyId = this.newest ?? (await this.rotate());
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, await this.#key(keyId), nonce);
    cipher.setAAD(additionalData(installationId, name));
    const sealed = Buffer.concat([nonce, cipher.update(value, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return { keyId, sealed };
  }

  async open(installationId: string, name: string, { keyId, sealed }: SealedSecret): Promise<string> {
    const decipher = createDecipheriv(CIPHER, await this.#key(keyId), sealed.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(additionalData(installationId, name));
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
    const plain = decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES));
    return Buffer.concat([plain, decipher.final()]).toString('utf8');
  }

  async #key(keyId: string): Promise<Buffer> {
    if (!this.#keys.has(keyId)) await this.#readKeys();
    const key = this.#keys.get(keyId);
    if (!key) throw new Error(`Secret key ${keyId} is not in ${this.#directory}. Restore it from a backup.`);
    return key;
  }

  async #readKeys(): Promise<void> {
    for (const name of await readdir(this.#directory)) {
      const keyId = KEY_FILE.exec(name)?.[1];
      if (!keyId || this.#keys.has(keyId)) continue;
      const key = Buffer.from(await readFile(join(this.#directory, name), 'utf8'), 'base64');
      if (key.length !== KEY_BYTES) throw new Error(`${join(this.#directory, name)} is not a 256-bit key in base64.`);
      this.#keys.set(keyId, key);
    }
  }
}

/** Binds a value to its row: it cannot be decrypted under another installation or name. */
const additionalData = (installationId: string, name: string) =>
  Buffer.from(JSON.stringify(['secret', installationId, name]));

/** Encrypts and stores one secret. */
export async function saveSecret(
  tx: Queryable,
  keys: SecretKeys,
  installationId: string,
  name: string,
  value: string,
): Promise<void> {
  const { keyId, sealed } = await keys.seal(installationId, name, value);
  await tx.query(
    `INSERT INTO installation_secrets (installation_id, name, key_id, sealed) VALUES ($1, $2, $3, $4)
     ON CONFLICT (installation_id, name) DO UPDATE
       SET key_id = excluded.key_id, sealed = excluded.sealed, updated_at = now()`,
    [installationId, name, keyId, sealed],
  );
}

export async function deleteSecret(tx: Queryable, installationId: string, name: string): Promise<void> {
  await tx.query('DELETE FROM installation_secrets WHERE installation_id = $1 AND name = $2', [installationId, name]);
}

/** Sorted. Users see the names of their secrets, never the values. */
export async function listSecretNames(tx: Queryable, installationId: string): Promise<string[]> {
  const found = await tx.query<{ name: string }>(
    'SELECT name FROM installation_secrets WHERE installation_id = $1 ORDER BY name',
    [installationId],
  );
  return found.rows.map((row) => row.name);
}

/** Decrypts all secrets of an installation, by name. */
export async function readSecrets(
  pool: Queryable,
  keys: SecretKeys,
  installationId: string,
): Promise<ReadonlyMap<string, string>> {
  const found = await pool.query<{ name: string; key_id: string; sealed: Buffer }>(
    'SELECT name, key_id, sealed FROM installation_secrets WHERE installation_id = $1',
    [installationId],
  );
  const opened = found.rows.map(
    async ({ name, key_id: keyId, sealed }): Promise<[string, string]> => [
      name,
      await keys.open(installationId, name, { keyId, sealed }),
    ],
  );
  return new Map(await Promise.all(opened));
}

/** Decrypts one secret, only for the host call of the child that owns it. Null: the installation has no such secret. */
export async function readSecret(
  pool: Queryable,
  keys: SecretKeys,
  installationId: string,
  name: string,
): Promise<string | null> {
  const found = await pool.query<{ key_id: string; sealed: Buffer }>(
    'SELECT key_id, sealed FROM installation_secrets WHERE installation_id = $1 AND name = $2',
    [installationId, name],
  );
  const row = found.rows[0];
  return row ? keys.open(installationId, name, { keyId: row.key_id, sealed: row.sealed }) : null;
}
