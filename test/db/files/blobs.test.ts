/** Blobs: named by their content, and stored completely or not at all. */
import { readdir, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { openBlobs } from '../../../db/files/blobs.ts';
import { temporaryFolder } from '../../runner/harness.ts';

t.test('bytes are found by their SHA-256 and checked when read', async (t) => {
  const folder = await temporaryFolder(t);
  const blobs = await openBlobs(folder);
  const { sha256, sizeBytes } = await blobs.put(Buffer.from('hello'));
  t.equal(sha256, '2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824');
  t.equal(sizeBytes, 5);
  t.equal((await blobs.read(sha256)).toString(), 'hello');
  t.ok(await blobs.has(sha256));
  const path = join(folder, 'blobs', sha256.slice(0, 2), sha256.slice(2));
  t.equal((await stat(path)).mode & 0o077, 0, 'only its owner can read it');
  await writeFile(path, 'hellO');
  await t.rejects(blobs.read(sha256), /damaged/);
  await t.rejects(async () => blobs.read('../../etc/passwd'), /64 lower-case hex/);
  t.notOk(await blobs.has('0'.repeat(64)));
});

t.test('bytes that are stored again replace a file that the disk changed', async (t) => {
  const folder = await temporaryFolder(t);
  const blobs = await openBlobs(folder);
  const { sha256 } = await blobs.put(Buffer.from('hello'));
  const path = join(folder, 'blobs', sha256.slice(0, 2), sha256.slice(2));
  const { ino } = await stat(path);
  await blobs.put(Buffer.from('hello'));
  t.equal((await stat(path)).ino, ino, 'a file that is whole stays');
  await writeFile(path, 'hellO');
  await blobs.put(Buffer.from('hello'));
  t.equal((await blobs.read(sha256)).toString(), 'hello');
  await writeFile(path, 'hellO');
  await using staging = await blobs.stage();
  await staging.commit([await staging.add([Buffer.from('hello')])]);
  t.equal((await blobs.read(sha256)).toString(), 'hello', 'by a publish, too');
});

t.test('the folder of a file that is there already is flushed, too', async (t) => {
  const folder = await temporaryFolder(t);
  const flushed: string[] = [];
  const blobs = await openBlobs(folder, async (path) => void flushed.push(path));
  const { sha256 } = await blobs.put(Buffer.from('hello'));
  // As if the process that renamed it had been killed before it flushed the folder.
  flushed.length = 0;
  await blobs.put(Buffer.from('hello'));
  t.same(flushed, [join(folder, 'blobs', sha256.slice(0, 2)), join(folder, 'blobs')]);
});

t.test('staged files that are not committed are removed', async (t) => {
  const folder = await temporaryFolder(t);
  const blobs = await openBlobs(folder);
  let kept = '';
  let dropped = '';
  {
    await using staging = await blobs.stage();
    const first = await staging.add([Buffer.from('kept')]);
    const second = await staging.add([Buffer.from('dropped')]);
    await staging.commit([first, first]);
    [kept, dropped] = [first.sha256, second.sha256];
  }
  t.ok(await blobs.has(kept));
  t.notOk(await blobs.has(dropped));
  t.same(await readdir(join(folder, 'staging')), []);
});

t.test('a source that fails leaves nothing and keeps its error', async (t) => {
  const folder = await temporaryFolder(t);
  const blobs = await openBlobs(folder);
  await using staging = await blobs.stage();
  async function* broken() {
    yield Buffer.from('half');
    throw new Error('the source broke');
  }
  await t.rejects(staging.add(broken()), { message: 'the source broke' });
  const [directory = ''] = await readdir(join(folder, 'staging'));
  t.same(await readdir(join(folder, 'staging', directory)), []);
});

t.test('many writers of the same bytes end with one blob', async (t) => {
  const folder = await temporaryFolder(t);
  const blobs = await openBlobs(folder);
  const names = await Promise.all(Array.from({ length: 20 }, () => blobs.put(Buffer.from('same'))));
  t.equal(new Set(names.map(({ sha256 }) => sha256)).size, 1);
  t.equal((await blobs.read(names[0]?.sha256 ?? '')).toString(), 'same');
});

t.test('the sweep removes the files of killed processes and keeps those of live ones', async (t) => {
  const folder = await temporaryFolder(t);
  const blobs = await openBlobs(folder);
  await using live = await blobs.stage();
  await live.add([Buffer.from('x')]);
  const old = await blobs.stage();
  await old.add([Buffer.from('y')]);
  const [first = '', second = ''] = await readdir(join(folder, 'staging'));
  const isLive = live.scratch().includes(first);
  await utimes(join(folder, 'staging', isLive ? second : first), new Date(0), new Date(0));
  t.equal(await blobs.sweepStaging(60_000, Date.now()), 1);
  t.same(await readdir(join(folder, 'staging')), [isLive ? first : second]);
});
