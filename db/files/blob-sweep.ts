/**
 * Removes blobs that nothing names any more. A publish may put one to use at any moment: it freshens the file first and
 * names it afterwards. So a blob is moved aside, looked at again, and given back if it was freshened in between; a publish
 * that comes later finds nothing to freshen and writes its own copy.
 */
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Names asked about at once. */
const BATCH = 5_000;
const PREFIX = /^[0-9a-f]{2}$/;
const REST = /^[0-9a-f]{62}$/;

export interface Places {
  readonly root: string;
  /** On the same file system as the root. Holds something only during a sweep, or after one that was killed. */
  readonly condemned: string;
}
type FindUsed = (names: readonly string[]) => Promise<Set<string>>;

const placeOf = ({ root }: Places, name: string): string => join(root, name.slice(0, 2), name.slice(2));

/** @returns how many were removed */
export async function sweepUnused(places: Places, before: number, findUsed: FindUsed): Promise<number> {
  await giveBack(places);
  let removed = 0;
  let names: string[] = [];
  for (const prefix of (await readdir(places.root)).filter((name) => PREFIX.test(name))) {
    for (const rest of await readdir(join(places.root, prefix))) {
      if (REST.test(rest) && (await isOld(join(places.root, prefix, rest), before))) names.push(`${prefix}${rest}`);
    }
    if (names.length < BATCH) continue;
    removed += await removeUnused(places, before, names, findUsed);
    names = [];
  }
  return removed + (await removeUnused(places, before, names, findUsed));
}

/** What a killed sweep had in its hands: the next one decides anew. */
async function giveBack(places: Places): Promise<void> {
  for (const name of await readdir(places.condemned)) await restore(places, name);
}

async function restore(places: Places, name: string): Promise<void> {
  const place = placeOf(places, name);
  await mkdir(dirname(place), { recursive: true, mode: 0o700 });
  // Over a copy that a publish wrote meanwhile: the same bytes.
  await rename(join(places.condemned, name), place);
}

async function removeUnused(
  places: Places,
  before: number,
  names: readonly string[],
  findUsed: FindUsed,
): Promise<number> {
  if (names.length === 0) return 0;
  const used = await findUsed(names);
  let removed = 0;
  for (const name of names) {
    if (used.has(name)) continue;
    const aside = join(places.condemned, name);
    const isTaken = await rename(placeOf(places, name), aside).then(
      () => true,
      () => false,
    );
    if (!isTaken) continue;
    if (await isOld(aside, before)) {
      await rm(aside, { force: true });
      removed += 1;
    } else await restore(places, name);
  }
  return removed;
}

/** Not touched since. */
async function isOld(path: string, before: number): Promise<boolean> {
  const found = await stat(path).catch(() => null);
  return found !== null && found.mtimeMs < before;
}
