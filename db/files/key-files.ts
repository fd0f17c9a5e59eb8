/** Stores keys, which sign tokens or seal secrets, as files of a data directory. */
import { randomUUID } from 'node:crypto';
import { link, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { makeFolder } from '../../sdk/files/make-folder.ts';
import { createIdAt, readIdTime } from '../postgres/ordered-id.ts';
import type { Queryable } from '../postgres/rows.ts';
import { KEY_BYTES } from './cipher.ts';
import { ignoreMissing, syncPath } from './data-dir.ts';

export type KeyPurpose = 'identity' | 'secrets';
/** The keys of a cluster. All processes see those that another one adds. */
export interface KeyStore {
  /** Where the keys are, for messages. */
  readonly place: string;
  /** Fingerprint of the key that seals the others; null: they are files. */
  readonly fingerprint: string | null;
  /**
   * Reads the keys of a purpose, by id.
   *
   * @param tx the transaction of the caller: one that waited for a second connection could wait forever
   */
  list(purpose: KeyPurpose, tx?: Queryable): Promise<ReadonlyMap<string, Buffer>>;
  /**
   * Stores a key durably; an existing one of this id stays.
   *
   * @param onlyFirst does nothing when another process has added one
   */
  add(purpose: KeyPurpose, id: string, key: Buffer, onlyFirst?: boolean): Promise<void>;
  remove(purpose: KeyPurpose, id: string): Promise<void>;
  /** Says why `list` lacks a key and what to do, as the rest of a sentence about the key. */
  explainMissing(id: string): Promise<string>;
}

/** The first key that signs tokens. Later ones are in a folder. */
const FIRST_IDENTITY = 'identity.jwk.json';
const IDENTITY_FILE = /^([0-9a-f-]{36})\.jwk\.json$/;
const SECRET_FILE = /^([0-9a-f-]{36})\.key$/;

/** @param dataDir `DATA_DIR`; its folder `keys` is created with the first key */
export function openKeyFiles(dataDir: string): KeyStore {
  const folder = join(dataDir, 'keys');
  const first = join(folder, FIRST_IDENTITY);
  const locate = (purpose: KeyPurpose, id: string): string =>
    purpose === 'identity' ? join(folder, 'identity', `${id}.jwk.json`) : join(folder, 'secrets', `${id}.key`);
  return {
    place: folder,
    fingerprint: null,
    async list(purpose) {
      if (purpose === 'secrets') return readFolder(join(folder, 'secrets'), SECRET_FILE, decodeSecretKey);
      const later = await readFolder(join(folder, 'identity'), IDENTITY_FILE, (content) => content);
      const content = await readFile(first).catch(ignoreMissing);
      return content === null ? later : new Map([[readKid(content), content], ...later]);
    },
    async add(purpose, id, key, onlyFirst = false) {
      if (purpose === 'identity' && ((await addKeyFile(first, key)) || onlyFirst)) return;
      await addKeyFile(locate(purpose, id), purpose === 'identity' ? key : Buffer.from(key.toString('base64')));
    },
    async remove(purpose, id) {
      const content = purpose === 'identity' ? await readFile(first).catch(ignoreMissing) : null;
      const isFirst = content !== null && readKid(content) === id;
      await rm(isFirst ? first : locate(purpose, id), { force: true });
    },
    explainMissing: async () => `is not in ${folder}. Restore it from a backup.`,
  };
}

async function readFolder(
  folder: string,
  pattern: RegExp,
  decode: (content: Buffer, path: string) => Buffer,
): Promise<Map<string, Buffer>> {
  const found = new Map<string, Buffer>();
  for (const name of (await readdir(folder).catch(ignoreMissing)) ?? []) {
    const id = pattern.exec(name)?.[1];
    if (id === undefined) continue;
    const path = join(folder, name);
    // Each process that starts removes the files of revoked keys, perhaps since the folder was read.
    const content = await readFile(path).catch(ignoreMissing);
    if (content !== null) found.set(id, decode(content, path));
  }
  return found;
}

function decodeSecretKey(content: Buffer, path: string): Buffer {
  const key = Buffer.from(content.toString('utf8'), 'base64');
  if (key.length !== KEY_BYTES) throw new Error(`${path} is not a 256-bit key in base64.`);
  return key;
}

function readKid(content: Buffer, path = `DATA_DIR/keys/${FIRST_IDENTITY}`): string {
  let key: { readonly kid?: unknown } | null;
  try {
    key = JSON.parse(content.toString('utf8'));
  } catch {
    throw new Error(`${path} is not a key: it is not JSON.`);
  }
  if (typeof key?.kid !== 'string') throw new Error(`${path} is not a key: it has no kid.`);
  return key.kid;
}

/** @throws Error that names the file if its content is no key of the kind that its name says */
export function requireKey(path: string, content: Buffer): void {
  if (path.endsWith('.key')) decodeSecretKey(content, path);
  else readKid(content, path);
}

/**
 * Writes the file of a key. `link` never replaces a file, so of several processes the first one wins, and no key is seen half-written.
 *
 * @returns false: the file exists, and stays as it is
 */
export async function addKeyFile(target: string, content: Buffer): Promise<boolean> {
  await makeFolder(dirname(target));
  const unfinished = join(dirname(target), `${randomUUID()}.new`);
  try {
    await writeFile(unfinished, content, { mode: 0o600, flag: 'wx', flush: true });
    await link(unfinished, target);
    await syncPath(dirname(target));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(unfinished, { force: true });
  }
}

const UUID_VERSION_AT = 14;

/** Whether ids sort by age; those of older releases are random. */
export const isOrderedId = (id: string): boolean => id[UUID_VERSION_AT] === '7';

/**
 * A UUIDv7 that sorts behind all known ones, also within one millisecond and beside a machine whose clock is ahead: the key
 * with the greatest id is the newest.
 */
export function createKeyId(known: Iterable<string>): string {
  const newest = Math.max(0, ...[...known].filter(isOrderedId).map(readIdTime));
  return createIdAt(Math.max(Date.now(), newest + 1));
}
