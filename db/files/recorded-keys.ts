/**
 * Compares the keys in DATA_DIR with those that the database recorded, before any is created. A start with an empty or wrong
 * DATA_DIR would make new keys: tokens and secrets of the old ones would be lost.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Pool } from 'pg';
import { z } from 'zod';
import { inTransaction } from '../postgres/pool.ts';
import { listRows, type Queryable } from '../postgres/rows.ts';
import { KEY_FILE } from './secrets.ts';

interface Key {
  readonly id: string;
  readonly purpose: 'identity' | 'secrets';
  readonly fingerprint: string;
}
interface RecordedKey extends Key {
  /** Whether a secret is sealed with it, or it is the newest of its purpose. */
  readonly isUsed: boolean;
}

/** In place of the fingerprint of a key that the operator gave up. */
const LOST = 'lost';
const identityKey = z.object({ kid: z.string(), x: z.string() });

/**
 * Finds why the keys in DATA_DIR are not those of this database. Call it before the keys are opened, which creates missing
 * ones.
 *
 * @param signsTokens false with OIDC_ISSUER: the key that signs tokens is not used
 * @returns what is wrong and what to do, without a full stop; null: the keys fit
 */
export async function findKeyMismatch(pool: Pool, dataDir: string, signsTokens: boolean): Promise<string | null> {
  // Records first: a process that starts at the same time writes a key's file before its record.
  const recorded = (await listRecordedKeys(pool)).filter(({ purpose }) => signsTokens || purpose === 'secrets');
  const found = new Map((await readKeys(dataDir)).map((key) => [key.id, key]));
  const lost = new Set(recorded.flatMap(({ id, fingerprint }) => (fingerprint === LOST ? [id] : [])));
  const changed = recorded.find(
    ({ id, fingerprint }) => !lost.has(id) && (found.get(id)?.fingerprint ?? fingerprint) !== fingerprint,
  );
  if (changed !== undefined)
    return `DATA_DIR ${dataDir} has another key under the id ${changed.id} than this database recorded: restore DATA_DIR/keys from a backup`;
  const sealing = await listSealingKeys(pool);
  const needed = new Set([...recorded.flatMap(({ id, isUsed }) => (isUsed ? [id] : [])), ...sealing]);
  const missing = [...needed].filter((id) => !found.has(id) && !lost.has(id));
  return missing.length === 0
    ? null
    : `DATA_DIR ${dataDir} lacks keys that this database uses (${missing.join(', ')}): set DATA_DIR to the folder of this database, or restore it from a backup`;
}

/** Whether this database knows keys: a service has started on it. */
export const hasRecordedKeys = async (db: Queryable): Promise<boolean> =>
  (await listRows(db, 'SELECT 1 FROM recorded_keys LIMIT 1', [])).length > 0;

/** Records the keys that are new in DATA_DIR. Call it after the keys were opened. */
export async function recordKeys(db: Queryable, dataDir: string): Promise<void> {
  for (const { id, purpose, fingerprint } of await readKeys(dataDir))
    await db.query(
      'INSERT INTO recorded_keys (id, purpose, fingerprint) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING',
      [id, purpose, fingerprint],
    );
}

/**
 * Makes the keys in DATA_DIR those of this database. Secrets sealed with lost keys stay: they open again when the key's file
 * comes back.
 *
 * @returns how many secrets cannot be opened now
 */
export function acceptKeys(pool: Pool, dataDir: string): Promise<number> {
  return inTransaction(pool, async (tx) => {
    await tx.query('DELETE FROM recorded_keys');
    await recordKeys(tx, dataDir);
    await tx.query(
      `INSERT INTO recorded_keys (id, purpose, fingerprint) SELECT DISTINCT key_id, 'secrets', $1 FROM installation_secrets
       ON CONFLICT (id) DO NOTHING`,
      [LOST],
    );
    const { rows } = await tx.query<{ count: number }>(
      `SELECT count(*)::int AS count FROM installation_secrets s JOIN recorded_keys k ON k.id = s.key_id
        WHERE k.fingerprint = $1`,
      [LOST],
    );
    return rows[0]?.count ?? 0;
  });
}

const listRecordedKeys = (pool: Pool): Promise<RecordedKey[]> =>
  listRows(
    pool,
    `SELECT id, purpose, fingerprint, recorded_at = max(recorded_at) OVER (PARTITION BY purpose) AS "isUsed"
       FROM recorded_keys`,
    [],
  );

const listSealingKeys = async (pool: Pool): Promise<string[]> =>
  (await listRows<{ id: string }>(pool, 'SELECT DISTINCT key_id AS id FROM installation_secrets', [])).map(
    ({ id }) => id,
  );

async function readKeys(dataDir: string): Promise<Key[]> {
  const folder = join(dataDir, 'keys', 'secrets');
  const names = await readdir(folder).catch(() => []);
  const secrets = names.flatMap((name) => {
    const id = KEY_FILE.exec(name)?.[1];
    return id === undefined ? [] : [readSecretKey(id, join(folder, name))];
  });
  return [...(await readIdentityKey(dataDir)), ...(await Promise.all(secrets))];
}

async function readSecretKey(id: string, path: string): Promise<Key> {
  const key = Buffer.from(await readFile(path, 'utf8'), 'base64');
  return { id, purpose: 'secrets', fingerprint: hash(key) };
}

async function readIdentityKey(dataDir: string): Promise<Key[]> {
  const text = await readFile(join(dataDir, 'keys', 'identity.jwk.json'), 'utf8').catch(() => null);
  if (text === null) return [];
  const { kid, x } = identityKey.parse(JSON.parse(text));
  return [{ id: kid, purpose: 'identity', fingerprint: hash(Buffer.from(x, 'base64url')) }];
}

const hash = (key: Buffer): string => createHash('sha256').update(key).digest('hex');
