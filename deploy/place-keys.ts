/**
 * Copies keys from a folder (a mounted Secret) to `DATA_DIR/keys` before API and supervisor start: `node
 * deploy/place-keys.ts <folder>`. Never replaces an existing key.
 */
import { randomUUID } from 'node:crypto';
import { link, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncPath } from '../db/files/data-dir.ts';
import { parseSettings, readEnvironment, sharedSettings } from '../service/settings/settings.ts';

/** The target of a file, by its name; null: not a key. */
function findTarget(name: string): string | null {
  if (name === 'identity.jwk.json') return join('keys', name);
  return /^[0-9a-f-]{36}\.key$/.test(name) ? join('keys', 'secrets', name) : null;
}

/** @returns false if the key exists */
async function placeKey(content: Buffer, target: string): Promise<boolean> {
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  const unfinished = `${target}.${randomUUID()}.new`;
  try {
    await writeFile(unfinished, content, { mode: 0o600, flag: 'wx', flush: true });
    // Unlike a rename, a link never replaces a file; of several pods that start at once, one wins.
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

try {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) throw new Error('Pass the folder with the keys.');
  const { DATA_DIR } = parseSettings(sharedSettings, readEnvironment());
  const keys = (await readdir(folder)).flatMap((name) => findTarget(name) ?? []);
  if (keys.length === 0)
    throw new Error(`${folder} contains no key: identity.jwk.json or <id>.key, as in DATA_DIR/keys.`);
  for (const key of keys) {
    const isNew = await placeKey(await readFile(join(folder, key.replace(/^.*\//, ''))), join(DATA_DIR, key));
    console.log(`${key}: ${isNew ? 'placed' : 'exists already'}`);
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
