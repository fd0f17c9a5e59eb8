/** Installation secrets: sealed with AES-256-GCM before they reach Postgres, opened only for the child that owns them. */
import { createCipheriv, createDecipheriv, randomBytes, randomUUIDv7 } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { ClientBase, Pool } from 'pg';
import { syncPath } from './data-dir.ts';

const KEY_BYTES = 32;
/** GCM's own nonce size; random, so far fewer than 2^32 values may be sealed with one key. */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = 'aes-256-gcm';
const KEY_FILE = /^([0-9a-f-]{36})\.key$/;

export interface SealedSecret {
  readonly keyId: string;
  /** Nonce, ciphertext, tag. */
  readonly sealed: Buffer;
}
/** The keys of a data directory. New values are sealed with the newest; old keys stay to open what they sealed. */
export interface SecretKeys {
  seal(installationId: string, name: string, value: string): Promise<SealedSecret>;
  /** @throws Error when the key is not in `DATA_DIR`, or when the row was changed, moved or renamed */
  open(installationId: string, name: string, secret: SealedSecret): Promise<string>;
  /** Makes a new key for values sealed from now on. Other processes pick it up by themselves. */
  rotate(): Promise<string>;
  /** The id of the key that new values are sealed with; null before the first. */
  readonly newest: string | null;
}

/**
 * Opens the secret keys below `DATA_DIR/keys/secrets`, one file a key, and makes the first one.
 *
 * @param dataDir `DATA_DIR`, shared by the API (which seals) and the supervisor (which opens)
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
    await this.#read();
    // Two processes starting at once may both make a key: both stay, and each opens what either sealed.
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
    // Sealing is rare: it looks for a key that another process has made since.
    await this.#read();
    const keyId = this.newest ?? (await this.rotate());
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, await this.#key(keyId), nonce);
    cipher.setAAD(boundTo(installationId, name));
    const sealed = Buffer.concat([nonce, cipher.update(value, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return { keyId, sealed };
  }

  async open(installationId: string, name: string, { keyId, sealed }: SealedSecret): Promise<string> {
    const decipher = createDecipheriv(CIPHER, await this.#key(keyId), sealed.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(boundTo(installationId, name));
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
    const plain = decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES));
    return Buffer.concat([plain, decipher.final()]).toString('utf8');
  }

  async #key(keyId: string): Promise<Buffer> {
    if (!this.#keys.has(keyId)) await this.#read();
    const key = this.#keys.get(keyId);
    if (!key) throw new Error(`secret key ${keyId} is not in ${this.#directory}: restore it from a backup`);
    return key;
  }

  async #read(): Promise<void> {
    for (const name of await readdir(this.#directory)) {
      const keyId = KEY_FILE.exec(name)?.[1];
      if (!keyId || this.#keys.has(keyId)) continue;
      const key = Buffer.from(await readFile(join(this.#directory, name), 'utf8'), 'base64');
      if (key.length !== KEY_BYTES) throw new Error(`${join(this.#directory, name)} is no 256-bit key in base64`);
      this.#keys.set(keyId, key);
    }
  }
}

/** Ties a sealed value to its row: one that is copied to another installation or name does not open. */
const boundTo = (installationId: string, name: string) => Buffer.from(JSON.stringify(['secret', installationId, name]));

/** Seals and stores one secret. */
export async function saveSecret(
  tx: ClientBase | Pool,
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

/** Forgets one secret. */
export async function deleteSecret(tx: ClientBase | Pool, installationId: string, name: string): Promise<void> {
  await tx.query('DELETE FROM installation_secrets WHERE installation_id = $1 AND name = $2', [installationId, name]);
}

/** The names of an installation's secrets, sorted: all that ever leaves towards a user. */
export async function listSecretNames(tx: ClientBase | Pool, installationId: string): Promise<string[]> {
  const found = await tx.query<{ name: string }>(
    'SELECT name FROM installation_secrets WHERE installation_id = $1 ORDER BY name',
    [installationId],
  );
  return found.rows.map((row) => row.name);
}

/** The value of one secret, for the host call of the child that owns it; null when it has none. */
export async function readSecret(
  pool: ClientBase | Pool,
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
