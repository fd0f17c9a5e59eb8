/** Reads the key of the cluster from where the settings say. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Pool } from 'pg';
import { KEY_BYTES } from '../../db/files/cipher.ts';
import { type KeyStore, openKeyFiles } from '../../db/files/key-files.ts';
import { omitRevokedKeys } from '../../db/files/recorded-keys.ts';
import { openSealedKeys } from '../../db/files/sealed-keys.ts';
import { SettingsError, type SharedSettings } from '../settings/settings.ts';

/** A key management service that takes longer does not answer. Milliseconds. */
const COMMAND_MS = 15_000;
/** A key has 44 characters. Bytes. */
const OUTPUT_MAX_BYTES = 4_096;
const BASE64 = /^[A-Za-z0-9+/]{43}=$/;
const REMEDY = 'must give 32 bytes in base64: make a key with openssl rand -base64 32';

type KeySettings = Pick<SharedSettings, 'DATA_DIR' | 'CLUSTER_KEY' | 'CLUSTER_KEY_FILE' | 'CLUSTER_KEY_COMMAND'>;

/** The keys in the database with a cluster's key, or else in DATA_DIR. @throws SettingsError */
export async function openConfiguredKeys(pool: Pool, settings: KeySettings): Promise<KeyStore> {
  const key = await readClusterKey(settings);
  return key === null ? omitRevokedKeys(openKeyFiles(settings.DATA_DIR), pool) : openSealedKeys(pool, key);
}

/** Null: keys are files. @throws SettingsError, which never holds the key */
export async function readClusterKey(settings: KeySettings): Promise<Buffer | null> {
  const given = (['CLUSTER_KEY', 'CLUSTER_KEY_FILE', 'CLUSTER_KEY_COMMAND'] as const).flatMap((name) => {
    const value = settings[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const [first, second] = given;
  if (first === undefined) return null;
  if (second !== undefined) throw new SettingsError(`Set only one of ${first[0]} and ${second[0]}.`);
  const [name, value] = first;
  if (name === 'CLUSTER_KEY') return decodeKey(name, value);
  return decodeKey(name, name === 'CLUSTER_KEY_FILE' ? await readKeyFile(name, value) : await runCommand(value));
}

/** @param name what gave the text */
export function decodeKey(name: string, text: string): Buffer {
  const trimmed = text.trim();
  const key = Buffer.from(trimmed, 'base64');
  if (!BASE64.test(trimmed) || key.length !== KEY_BYTES) throw new SettingsError(`${name} ${REMEDY}.`);
  return key;
}

/** @param name what gave the path */
export async function readKeyFile(name: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new SettingsError(`${name} ${path} cannot be read (${(error as NodeJS.ErrnoException).code}).`);
  }
}

async function runCommand(line: string): Promise<string> {
  const [program = '', ...args] = line.trim().split(/\s+/);
  try {
    const options = { timeout: COMMAND_MS, killSignal: 'SIGKILL', maxBuffer: OUTPUT_MAX_BYTES } as const;
    return (await promisify(execFile)(program, args, options)).stdout;
  } catch (error) {
    throw new SettingsError(`CLUSTER_KEY_COMMAND ${program} failed: ${describeFailure(error)}.`);
  }
}

/** Without the output, which may hold the key. */
function describeFailure(error: unknown): string {
  const { code, killed } = error as { readonly code?: string | number | null; readonly killed?: boolean };
  if (code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return `it printed more than ${OUTPUT_MAX_BYTES} bytes`;
  if (killed === true) return `it took longer than ${COMMAND_MS / 1_000} s`;
  return typeof code === 'number' ? `it ended with ${code}` : `it cannot be started (${code})`;
}
