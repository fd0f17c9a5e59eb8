/** Untrusted zips: every rule of the contract by a zip that breaks just that rule. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';
import t from 'tap';
import type { Package } from '../../../api/package/package-files.ts';
import { Problem } from '../../../sdk/contract/errors.ts';
import { amount } from '../../runner/soak.ts';
import { INDEX, MINIMAL, zipOf } from './packages.ts';
import { type CraftedEntry, craftZip } from './zip-crafting.ts';
import { openZipReader, plain } from './zip-reader.ts';

const { folder, read, refused } = await openZipReader(t);

t.test('valid zips pass', async (t) => {
  const good = (await read(await zipOf(MINIMAL))) as Package;
  t.same(
    good.files.map(({ path }) => path),
    ['index.ts', 'readme.md'],
  );
  const same: Record<string, Buffer> = {
    stored: await zipOf(MINIMAL, { compress: false }),
    crafted: craftZip(plain),
    'with data descriptors': craftZip(plain.map((entry) => ({ ...entry, descriptor: true }))),
    'with folders': craftZip([
      { name: 'p/', content: '' },
      ...plain.map((entry) => ({ ...entry, name: `p/${entry.name}` })),
    ]),
    'with unix modes': craftZip(plain.map((entry) => ({ ...entry, mode: 0o100644 }))),
    'with a comment': craftZip(plain, { comment: 'hello' }),
  };
  for (const [name, zip] of Object.entries(same))
    t.equal(((await read(zip)) as Package).sourceSha256, good.sourceSha256, name);
  const asset = await read(craftZip([...plain, { name: 'assets/a.zip', content: await zipOf(MINIMAL) }]));
  t.equal((asset as Package).files.length, 3, 'a zip inside is bytes like any other');
});

t.test('names', async (t) => {
  const names = [
    '/a',
    '../a',
    'a/../../b',
    'a\\b',
    'C:/a',
    'a\0b',
    'a\x01b',
    './a',
    'a//b',
    'aux',
    'a:b',
    `${'a/'.repeat(17)}b`,
    'x'.repeat(256),
  ];
  for (const name of names) await refused(t, name, craftZip([...plain, { name, content: 'x' }]), /entry/i);
  await refused(t, 'latin1', craftZip([...plain, { name: Buffer.from([0xe9]), content: 'x' }]), /UTF-8/);
  await refused(t, 'twice', craftZip([...plain, { name: 'index.ts', content: 'x' }]), /index\.ts.*duplicated/);
  await refused(t, 'case', craftZip([...plain, { name: 'INDEX.ts', content: 'x' }]), /INDEX\.ts.*letter case/);
  const [composed, decomposed] = ['\u00e9.txt', 'e\u0301.txt'];
  await refused(
    t,
    'NFC',
    craftZip([...plain, { name: composed, content: 'x' }, { name: decomposed, content: 'x' }]),
    /same as/,
  );
  await refused(t, 'below a file', craftZip([...plain, { name: 'index.ts/a', content: 'x' }]), /below/);
  const [first] = plain;
  await refused(t, 'two names', craftZip([{ ...first, localName: 'other.md' } as CraftedEntry]), /another name/);
});

t.test('kinds', async (t) => {
  const [first = { name: '', content: '' }, ...rest] = plain;
  const modes = { symlink: 0o120777, fifo: 0o010644, device: 0o020644, socket: 0o140644 };
  for (const [name, mode] of Object.entries(modes))
    await refused(t, name, craftZip([{ ...first, mode }, ...rest]), /link or a device/);
  await refused(t, 'a folder by mode', craftZip([{ ...first, mode: 0o040755 }, ...rest]), /folder/);
  await refused(t, 'a folder with content', craftZip([...plain, { name: 'a/', content: 'x' }]), /folder/);
  await refused(t, 'encrypted', craftZip([{ ...first, flags: 0x1 }, ...rest]), /encrypted/);
  await refused(t, 'strongly encrypted', craftZip([{ ...first, flags: 0x41 }, ...rest]), /encrypt/);
  await refused(t, 'method 99', craftZip([{ ...first, method: 99 }, ...rest]), /method/);
});

t.test('sizes and sums', async (t) => {
  const [first = { name: '', content: '' }, ...rest] = plain;
  await refused(t, 'a wrong sum', craftZip([{ ...first, crc: 1 }, ...rest]), /readme\.md.*checksum/);
  await refused(t, 'smaller than real', craftZip([{ ...first, size: 3 }, ...rest]), /readme\.md/);
  await refused(t, 'larger than real', craftZip([{ ...first, size: 5000 }, ...rest]), /readme\.md/);
  await refused(
    t,
    'broken deflate',
    craftZip([{ ...first, packed: Buffer.from('not deflate at all') }, ...rest]),
    /readme\.md/,
  );
  await refused(t, 'a huge promise', craftZip([{ ...first, size: 2 ** 31 }, ...rest]), /times its size|bytes unpacked/);
});

t.test('bombs are refused from the directory, at once and with nothing on disk', async (t) => {
  const before = process.cpuUsage();
  const zeros = deflateRawSync(Buffer.alloc(10_000_000));
  const bomb = { content: '', packed: zeros, size: 10_000_000, crc: crc32(Buffer.alloc(10_000_000)) };
  await refused(
    t,
    'one entry',
    craftZip([...plain, { ...bomb, name: 'a' }]),
    /a: The entry would unpack to over 200 times its size\. Store it in the zip without compression/,
  );
  const small = Buffer.alloc(900_001);
  const packed = { content: '', packed: deflateRawSync(small), size: small.length, crc: crc32(small) };
  const many = Array.from({ length: 500 }, (_, index) => ({ ...packed, name: `f${index}` }));
  await refused(t, 'many small ones', craftZip([...plain, ...many]), /200 times/);
  await refused(
    t,
    'overlapping',
    craftZip(Array.from({ length: 200 }, (_, index) => ({ name: `f${index}`, content: INDEX, at: 0 }))),
    /overlaps|another name/,
  );
  const shared = craftZip([...plain, { name: 'index.ts', content: INDEX, at: 0, localName: 'readme.md' }]);
  await refused(t, 'two entries of one place', shared, /another name|overlaps|duplicated/);
  await refused(
    t,
    'too many entries',
    craftZip(Array.from({ length: 10_001 }, (_, index) => ({ name: `f${index}`, content: '' }))),
    /10000/,
  );
  // CPU time of this process, with the crafting: on a busy machine the clock says nothing.
  const { user, system } = process.cpuUsage(before);
  t.ok(user + system < 10_000_000, `${((user + system) / 1e6).toFixed(1)} s of processor`);
  t.same(await readdir(join(folder, 'staging')), []);
});

t.test('structures', async (t) => {
  const good = await zipOf(MINIMAL);
  await refused(t, 'empty', Buffer.alloc(0), /zip/);
  await refused(t, 'no entries', craftZip([]), /empty/);
  await refused(
    t,
    'only litter',
    craftZip([
      { name: '__MACOSX/a', content: '' },
      { name: '.DS_Store', content: '' },
    ]),
    /empty/,
  );
  await refused(t, 'only folders', craftZip([{ name: 'a/', content: '' }]), /empty/);
  await refused(t, 'junk behind', Buffer.concat([good, Buffer.from('junk')]), /zip/);
  await refused(t, 'junk before', Buffer.concat([Buffer.from('junk'), good]), /./);
  await refused(t, 'not a zip', Buffer.from('PK\x03\x04 but no more'), /zip/);
});

t.test('a zip truncated anywhere is rejected', async (t) => {
  const good = await zipOf(MINIMAL);
  for (let percent = 0; percent < 100; percent += 1) {
    const found = await read(good.subarray(0, Math.floor((good.length * percent) / 100)));
    if (!(found instanceof Problem)) t.fail(`cut at ${percent} % it passed`);
  }
  t.pass('100 cuts');
});

/** Bits spread over the whole zip. */
const FLIPS = amount({ quick: 101, soak: 1_000 });

t.test('a zip with one flipped bit is the same content or refused', async (t) => {
  const good = await zipOf(MINIMAL);
  const { sourceSha256 } = (await read(good)) as Package;
  const outcomes = { same: 0, refused: 0 };
  for (let sample = 0; sample < FLIPS; sample += 1) {
    const bit = Math.floor((good.length * 8 * sample) / FLIPS);
    const flipped = Buffer.from(good);
    flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    const found = await read(flipped);
    if (found instanceof Problem) outcomes.refused += 1;
    else if (found.sourceSha256 === sourceSha256) outcomes.same += 1;
    // A name is covered by no checksum; changed in both directories it would be another tree, in one it is refused.
    else t.fail(`bit ${bit} changed the content: ${found.files.map(({ path }) => path).join()}`);
  }
  t.ok(outcomes.refused > FLIPS / 2, JSON.stringify(outcomes));
});
