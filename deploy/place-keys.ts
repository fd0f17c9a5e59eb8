/**
 * Copies keys from a folder (a mounted Secret) to `DATA_DIR/keys` before API and supervisor start: `node
 * deploy/place-keys.ts <folder>`. Never replaces an existing key.
 */
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { addKeyFile, requireKey } from '../db/files/key-files.ts';
import { parseSettings, readEnvironment, sharedSettings } from '../service/settings/settings.ts';

/** Returns the path of a key relative to `DATA_DIR`, by the name of its file. Null: it is not the name of a key. */
function findTarget(name: string): string | null {
  if (name === 'identity.jwk.json') return join('keys', name);
  return /^[0-9a-f-]{36}\.key$/.test(name) ? join('keys', 'secrets', name) : null;
}

try {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) throw new Error('Pass the folder with the keys: node deploy/place-keys.ts <folder>');
  const { DATA_DIR } = parseSettings(sharedSettings, readEnvironment());
  const keys = (await readdir(folder)).flatMap((name) => findTarget(name) ?? []);
  if (keys.length === 0)
    throw new Error(`${folder} contains no key: identity.jwk.json or <id>.key, as in DATA_DIR/keys.`);
  const contents = new Map<string, Buffer>();
  for (const key of keys) {
    const path = join(folder, basename(key));
    const content = await readFile(path);
    // Before any is placed: a wrong one would stay, and keep the right one out.
    if (!existsSync(join(DATA_DIR, key))) requireKey(path, content);
    contents.set(key, content);
  }
  for (const [key, content] of contents) {
    const isNew = await addKeyFile(join(DATA_DIR, key), content);
    console.log(`${key}: ${isNew ? 'placed' : 'exists already'}`);
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
