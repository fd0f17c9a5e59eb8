/**
 * Puts keys out of a folder (a mounted Secret) where API and supervisor look for them, before either starts:
 * `node deploy/place-keys.ts <folder>`. A key that is there already is never replaced.
 */
import { randomUUID } from 'node:crypto';
import { link, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncPath } from '../db/files/data-dir.ts';
import { parseSettings, readEnvironment, sharedSettings } from '../service/settings/settings.ts';

/** Where a file belongs, by its name; null for what is no key. */
function placeOf(name: string): string | null {
  if (name === 'identity.jwk.json') return join('keys', name);
  return /^[0-9a-f-]{36}\.key$/.test(name) ? join('keys', 'secrets', name) : null;
}

/** @returns false where the key is there already */
async function place(content: Buffer, target: string): Promise<boolean> {
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  const unfinished = `${target}.${randomUUID()}.new`;
  try {
    await writeFile(unfinished, content, { mode: 0o600, flag: 'wx', flush: true });
    // Unlike a rename it never replaces; of several pods that start at once one wins.
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
  if (folder === undefined) throw new Error('Name the folder that holds the keys.');
  const { DATA_DIR } = parseSettings(sharedSettings, readEnvironment());
  const keys = (await readdir(folder)).flatMap((name) => placeOf(name) ?? []);
  if (keys.length === 0) throw new Error(`${folder} holds no key: identity.jwk.json or <id>.key, as in DATA_DIR/keys.`);
  for (const key of keys) {
    const isNew = await place(await readFile(join(folder, key.replace(/^.*\//, ''))), join(DATA_DIR, key));
    console.log(`${key}: ${isNew ? 'placed' : 'is there already'}`);
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
