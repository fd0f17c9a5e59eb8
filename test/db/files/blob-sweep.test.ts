/** Blobs that nothing names go, whatever happens at the same moment; those that something names stay. */
import { mkdir, readdir, rename, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { type Blobs, openBlobs } from '../../../db/files/blobs.ts';
import { type Teardown, temporaryFolder } from '../../runner/harness.ts';

const MINUTE = 60_000;
const nothing = async () => new Set<string>();

interface Store {
  readonly folder: string;
  readonly blobs: Blobs;
  /** Stores a text with an old modification time. */
  putOld(text: string): Promise<string>;
}
async function store(test: Teardown): Promise<Store> {
  const folder = await temporaryFolder(test);
  const blobs = await openBlobs(folder);
  return {
    folder,
    blobs,
    async putOld(text) {
      const { sha256 } = await blobs.put(Buffer.from(text));
      await utimes(join(folder, 'blobs', sha256.slice(0, 2), sha256.slice(2)), new Date(0), new Date(0));
      return sha256;
    },
  };
}

t.test('old ones go, used and young ones stay', async (t) => {
  const { blobs, putOld, folder } = await store(t);
  const [orphan, used] = [await putOld('orphan'), await putOld('used')];
  const { sha256: young } = await blobs.put(Buffer.from('young'));
  let requested: readonly string[] = [];
  const findUsed = async (names: readonly string[]) => {
    requested = names;
    return new Set([used]);
  };
  t.equal(await blobs.sweepUnused(MINUTE, Date.now(), findUsed), 1);
  t.same(requested.toSorted(), [orphan, used].toSorted(), 'recent files are not checked');
  t.notOk(await blobs.has(orphan));
  t.ok(await blobs.has(used));
  t.ok(await blobs.has(young));
  t.same(await readdir(join(folder, 'condemned')), []);
  t.equal(await blobs.sweepUnused(MINUTE, Date.now(), findUsed), 0);
});

t.test('a folder that cannot be read keeps no blob of another, and the sweep reports it', async (t) => {
  const { blobs, putOld, folder } = await store(t);
  const orphans = [await putOld('orphan'), await putOld('another')];
  const prefixes = await readdir(join(folder, 'blobs'));
  for (const prefix of ['00', 'ff'])
    if (!prefixes.includes(prefix)) await writeFile(join(folder, 'blobs', prefix), 'no folder');
  await t.rejects(blobs.sweepUnused(MINUTE, Date.now(), nothing), { cause: { code: 'ENOTDIR' } });
  for (const orphan of orphans) t.notOk(await blobs.has(orphan));
});

t.test('a blob that cannot be removed keeps no other, and the sweep reports it', async (t) => {
  const { blobs, putOld, folder } = await store(t);
  const [stuck, orphan] = [await putOld('stuck'), await putOld('orphan')];
  const sweep = blobs.sweepUnused(MINUTE, Date.now(), async () => {
    // No file is renamed to a folder. A folder of root would not stop a test that root runs.
    await mkdir(join(folder, 'condemned', stuck));
    return new Set();
  });
  await t.rejects(sweep, { name: 'IncompleteSweepError', cause: { code: 'EISDIR' } });
  t.ok(await blobs.has(stuck));
  t.notOk(await blobs.has(orphan));
});

t.test('a blob that is reused between check and removal stays', async (t) => {
  const { blobs, putOld } = await store(t);
  const name = await putOld('again');
  const removed = await blobs.sweepUnused(MINUTE, Date.now(), async () => {
    await blobs.put(Buffer.from('again'));
    return new Set();
  });
  t.equal(removed, 0);
  t.equal((await blobs.read(name)).toString(), 'again');
});

t.test('while a sweep holds one, it can be read, and written anew', async (t) => {
  const { blobs, putOld, folder } = await store(t);
  const name = await putOld('held');
  await rename(join(folder, 'blobs', name.slice(0, 2), name.slice(2)), join(folder, 'condemned', name));
  t.equal((await blobs.read(name)).toString(), 'held');
  await blobs.put(Buffer.from('held'));
  t.ok(await blobs.has(name));
  await blobs.sweepUnused(MINUTE, Date.now(), async () => new Set([name]));
  t.equal((await blobs.read(name)).toString(), 'held');
});

t.test('a blob that a sweep holds is kept when it is restored', async (t) => {
  const { blobs, putOld, folder } = await store(t);
  const name = await putOld('held');
  const [path, aside] = [join(folder, 'blobs', name.slice(0, 2), name.slice(2)), join(folder, 'condemned', name)];
  await rename(path, aside);
  const keeping = blobs.keep([name]);
  await rename(aside, path);
  await keeping;
  t.equal(await blobs.sweepUnused(MINUTE, Date.now(), nothing), 0);
});

t.test('what was stored long before it is used is kept, or reported as removed', async (t) => {
  const { blobs, putOld } = await store(t);
  const [one, two] = [await putOld('one'), await putOld('two')];
  await blobs.keep([one, one]);
  t.equal(await blobs.sweepUnused(MINUTE, Date.now(), nothing), 1);
  t.ok(await blobs.has(one));
  await t.rejects(blobs.keep([one, two]), { name: 'BlobStoreUnavailableError' });
});

t.test('blobs that a killed sweep moved aside are restored and checked again', async (t) => {
  const { blobs, putOld, folder } = await store(t);
  const [orphan, used] = [await putOld('orphan'), await putOld('used')];
  for (const name of [orphan, used]) {
    await rename(join(folder, 'blobs', name.slice(0, 2), name.slice(2)), join(folder, 'condemned', name));
  }
  const findUsed = async () => new Set([used]);
  t.equal(await blobs.sweepUnused(MINUTE, Date.now(), findUsed), 0);
  t.ok(await blobs.has(orphan), 'a publish may be about to name it');
  t.equal(await blobs.sweepUnused(MINUTE, Date.now() + 2 * MINUTE, findUsed), 1);
  t.notOk(await blobs.has(orphan));
  t.equal((await blobs.read(used)).toString(), 'used');
});

t.test('a blob that a killed sweep moved aside does not age the copy that a publish wrote since', async (t) => {
  const { blobs, putOld, folder } = await store(t);
  const name = await putOld('published again');
  await rename(join(folder, 'blobs', name.slice(0, 2), name.slice(2)), join(folder, 'condemned', name));
  await blobs.put(Buffer.from('published again'));
  t.equal(await blobs.sweepUnused(MINUTE, Date.now(), nothing), 0, 'before the row of the publish is committed');
  t.equal((await blobs.read(name)).toString(), 'published again');
});

t.test(
  'a damaged blob that a killed sweep moved aside does not replace the copy that a publish wrote since',
  async (t) => {
    const { blobs, putOld, folder } = await store(t);
    const name = await putOld('whole');
    const aside = join(folder, 'condemned', name);
    await rename(join(folder, 'blobs', name.slice(0, 2), name.slice(2)), aside);
    await writeFile(aside, 'wHole');
    await blobs.put(Buffer.from('whole'));
    t.equal(await blobs.sweepUnused(MINUTE, Date.now(), async () => new Set([name])), 0);
    t.equal((await blobs.read(name)).toString(), 'whole');
    t.same(await readdir(join(folder, 'condemned')), []);
  },
);

t.test('of publishes and sweeps at the same time no publish loses a file', async (t) => {
  const { blobs, putOld } = await store(t);
  const texts = Array.from({ length: 20 }, (_, index) => `text ${index}`);
  for (let round = 0; round < 20; round += 1) {
    for (const text of texts) await putOld(text);
    const named = new Set<string>();
    const publish = async (text: string) => {
      const { sha256 } = await blobs.put(Buffer.from(text));
      await new Promise((resolve) => setImmediate(resolve));
      await blobs.keep([sha256]);
      named.add(sha256);
    };
    await Promise.all([
      ...texts.map(publish),
      blobs.sweepUnused(MINUTE, Date.now(), async (names) => new Set(names.filter((name) => named.has(name)))),
    ]);
    for (const name of named) t.equal((await blobs.read(name)).length > 0, true);
    await blobs.sweepUnused(MINUTE, Date.now(), nothing);
  }
});
