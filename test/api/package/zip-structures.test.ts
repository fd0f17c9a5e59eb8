import { crc32 } from 'node:zlib';
import t from 'tap';
import type { Package } from '../../../api/package/package-files.ts';
import { Problem } from '../../../sdk/contract/errors.ts';
import { soakTest } from '../../runner/soak.ts';
import { startApiFixture } from '../api-fixture.ts';
import { INDEX, introspectsMinimal, MINIMAL, README, upload, zipOf } from './packages.ts';
import { craftZip, craftZip64, END_BYTES } from './zip-crafting.ts';
import { openZipReader, plain } from './zip-reader.ts';

const MIB = 1024 * 1024;
const { read, refused } = await openZipReader(t);
/** Changes fields of the record at the end of a zip. */
function withEnd(zip: Buffer, change: (end: Buffer) => void): Buffer {
  const copy = Buffer.from(zip);
  change(copy.subarray(copy.length - END_BYTES));
  return copy;
}
t.test('64-bit records are read, and checked like others', async (t) => {
  const good = (await read(await zipOf(MINIMAL))) as Package;
  t.equal(((await read(craftZip64(plain))) as Package).sourceSha256, good.sourceSha256);
  await refused(t, 'a huge count', craftZip64(plain, 2 ** 40), /entries/);
  await refused(t, '65,535 entries', craftZip64(plain, 65_535), /65535 entries/);
  await refused(
    t,
    'without the records',
    withEnd(craftZip(plain), (end) => end.fill(0xff, 8, 20)),
    /zip/,
  );
});

await soakTest(t, '65,536 entries, whose count the 16-bit field cannot tell', async (t) => {
  const many = craftZip(Array.from({ length: 65_536 }, (_, index) => ({ name: `f${index}`, content: '' })));
  await refused(t, 'clamped', many, /zip/i);
  await refused(
    t,
    'wrapped around to none',
    withEnd(many, (end) => end.fill(0, 8, 12)),
    /zip|empty/i,
  );
});

t.test('a directory with false fields', async (t) => {
  const good = craftZip(plain);
  const extra = craftZip([...plain, { name: 'assets/more', content: 'x' }]);
  const count = (zip: Buffer, told: number) =>
    withEnd(zip, (end) => {
      end.writeUInt16LE(told, 8);
      end.writeUInt16LE(told, 10);
    });
  await refused(t, 'fewer entries told than there are', count(extra, 2), /more than the entries/);
  await refused(t, 'more', count(good, 3), /zip/);
  await refused(
    t,
    'of several disks',
    withEnd(good, (end) => end.writeUInt16LE(1, 4)),
    /disk/,
  );
  await refused(
    t,
    'on another disk',
    withEnd(good, (end) => end.writeUInt16LE(1, 6)),
    /./,
  );
  await refused(
    t,
    'starting beyond the end',
    withEnd(good, (end) => end.writeUInt32LE(good.length, 16)),
    /zip/,
  );
  await refused(
    t,
    'starting elsewhere',
    withEnd(good, (end) => end.writeUInt32LE(0, 16)),
    /zip/,
  );
  // A reader that searches from the front, or takes the first that fits, would see the other zip.
  const other = craftZip([{ name: 'readme.md', content: 'another' }]);
  const second = Buffer.concat([good, other.subarray(other.length - END_BYTES)]);
  await refused(t, 'a second end behind', second, /./);
  const inComment = craftZip(plain, { comment: other.subarray(-END_BYTES).toString('latin1') });
  const found = await read(inComment);
  t.ok(found instanceof Problem, 'a comment with a second end');
});

t.test('the total unpacked size is limited before anything is written', async (t) => {
  const packed = Buffer.alloc(400_000);
  const big = Array.from({ length: 16 }, (_, index) => {
    const name = `assets/${index}`;
    return { name, content: '', packed, size: 64 * MIB, crc: crc32(packed) };
  });
  await refused(
    t,
    '16 times 64 MiB and two small files',
    craftZip([...plain, ...big]),
    /assets\/15: .*1073741824 bytes/,
  );
});

t.test('a zip inside a zip is not unpacked', async (t) => {
  let inner = craftZip(plain);
  for (let depth = 0; depth < 20; depth += 1) inner = craftZip([{ name: 'r/r.zip', content: inner }]);
  const found = (await read(inner)) as Package;
  t.same(
    found.files.map(({ path }) => path),
    ['r.zip'],
  );
});

t.test('errors about nearly valid layouts name the fault', async (t) => {
  const api = await startApiFixture(t, { introspect: introspectsMinimal });
  const ann = await api.user('ann');
  const { id } = (await ann.post('/plugins', { slug: 'layouts', displayName: 'Layouts' })).body;
  let patch = 0;
  const publish = async (files: Record<string, string>) =>
    ann.send({
      method: 'POST',
      url: `/api/plugins/${id}/versions/zip`,
      ...upload(await zipOf(files), `1.0.${patch++}`),
    });
  const wrong: Record<string, [Record<string, string>, RegExp]> = {
    'two folders at the top': [{ 'a/readme.md': README, 'b/index.ts': INDEX }, /readme\.md/],
    'two wrapper folders': [{ 'a/b/readme.md': README, 'a/b/index.ts': INDEX }, /readme\.md/],
    'a file beside the wrapper': [{ 'a/readme.md': README, 'a/index.ts': INDEX, 'notes.txt': 'x' }, /readme\.md/],
    'only a wrapper': [{ 'a/': '' }, /empty/],
    'a readme in capitals': [{ 'README.MD': README, 'index.ts': INDEX }, /README\.MD.*must be called/],
    'a readme in capitals besides': [{ 'readme.md': README, 'README.md': README, 'index.ts': INDEX }, /letter case/],
    'a zip that was zipped again': [{ 'package.zip': 'PK' }, /readme\.md/],
  };
  for (const [name, [files, says]] of Object.entries(wrong)) {
    const { status, body } = await publish(files);
    t.equal(status, 422, name);
    t.match(body.detail, says, name);
  }
  const right: Record<string, Record<string, string>> = {
    'a readme at both levels': { ...(MINIMAL as Record<string, string>), 'docs/readme.md': '# More' },
    'the same within a wrapper': { 'w/readme.md': README, 'w/index.ts': INDEX, 'w/docs/readme.md': '# More' },
    'litter beside the wrapper': {
      'w/readme.md': README,
      'w/index.ts': INDEX,
      '__MACOSX/w/._index.ts': 'x',
      '.DS_Store': 'x',
      'w/Thumbs.db': 'x',
    },
  };
  for (const [name, files] of Object.entries(right)) {
    const { status, body } = await publish(files);
    t.equal(status, 201, `${name}: ${JSON.stringify(body)}`);
  }
});
