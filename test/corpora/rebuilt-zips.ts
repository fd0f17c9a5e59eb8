/**
 * The cases of the collections of Go's archive/zip, of libarchive and of the zip-slip reports, rebuilt around our package: no
 * npm package of them exists.
 */
import { deflateRawSync, zstdCompressSync } from 'node:zlib';
import { type CraftedEntry, craftZip, craftZip64, END_BYTES, type ZipLayout } from '../api/package/zip-crafting.ts';
import { listFields, withField } from './zip-fields.ts';
import {
  asset,
  beside,
  entries,
  extraField,
  one,
  plain,
  unicodePath,
  wide,
  withAsset,
  type ZipCase,
} from './zip-parts.ts';

const UTF8 = 0x800;
const size = asset.content.length;
const packedSize = deflateRawSync(asset.content).length;
const stored = { method: 0, packed: Buffer.from(asset.content) };
const every = (change: Partial<CraftedEntry>, layout?: ZipLayout): Buffer =>
  craftZip(
    entries.map((entry) => ({ ...entry, ...change })),
    layout,
  );
const bothExtras = (extra: Buffer): Partial<CraftedEntry> => ({ extra, localExtra: extra });
const casesOf = (label: string, zips: Readonly<Record<string, Buffer>>): ZipCase[] =>
  Object.entries(zips).map(([name, zip]) => one(label, name, zip));

/** A zip with other values in fields of its records: `end: disk`. */
function withValues(zip: Buffer, values: Readonly<Record<string, number>>): Buffer {
  return Object.entries(values).reduce((changed, [label, value]) => {
    const field = listFields(zip).find((each) => each.label === label);
    if (!field) throw new Error(`the zip has no field ${label}`);
    return withField(changed, field, BigInt(value));
  }, zip);
}

/** 7-Zip, Info-ZIP and others write times of Unix, seconds since 1970, behind a byte of flags. */
function unixTimes(flags: number, ...times: number[]): Buffer {
  const data = Buffer.alloc(1 + times.length * 4);
  data.writeUInt8(flags);
  for (const [at, time] of times.entries()) data.writeInt32LE(time, 1 + at * 4);
  return extraField(0x5455, data);
}
const ntfsTimes = extraField(0x000a, Buffer.concat([Buffer.from([0, 0, 0, 0, 1, 0, 24, 0]), Buffer.alloc(24, 1)]));

function listGo(): ZipCase[] {
  const junk = Buffer.from('some bytes that are no part of the zip');
  const descriptors = ['bare', true, 'wide', 'bare wide'] as const;
  const named = (descriptor: (typeof descriptors)[number]) => (descriptor === true ? 'with a signature' : descriptor);
  return [
    ...descriptors.map((descriptor) =>
      one(
        `Go: descriptors${String(descriptor).includes('wide') ? ' of 64 bits' : ''}`,
        named(descriptor),
        every({ descriptor }),
      ),
    ),
    one('Go: descriptors', 'of stored entries', withAsset({ ...stored, descriptor: true })),
    one('Go: descriptors', 'of an empty entry', beside({ name: 'assets/b', content: '', descriptor: true })),
    ...casesOf('Go: descriptors of 64 bits', {
      'and a 64-bit field': withAsset({
        descriptor: 'wide',
        wideSizes: true,
        extra: wide(size, packedSize),
        localExtra: wide(0, 0),
      }),
    }),
    ...casesOf('Go: false descriptors', {
      'about the checksum': withAsset({ descriptor: true, descriptorCrc: 1 }),
      'about the checksum, without a signature': withAsset({ descriptor: 'bare', descriptorCrc: 1 }),
      'about the checksum, as the directory does': withAsset({ descriptor: true, crc: 1 }),
      'by being absent': withAsset({ flags: 8 }),
    }),
    ...casesOf('Go: a false checksum', {
      'in both headers': withAsset({ crc: 1 }),
      'of zero': withAsset({ crc: 0 }),
      'of a stored entry': withAsset({ ...stored, crc: 1 }),
    }),
    ...casesOf('Go: bytes around a zip', {
      'after the end': Buffer.concat([plain, junk]),
      'before the start, offsets moved': craftZip(entries, { before: junk }),
      'before the start, offsets as without': Buffer.concat([junk, plain]),
      'before the start of a 64-bit zip': Buffer.concat([junk, craftZip64(entries)]),
      'a megabyte after the end': Buffer.concat([plain, Buffer.alloc(2 ** 20)]),
    }),
    ...casesOf('Go: a directory that is elsewhere', {
      'by an offset that is too large': withValues(plain, { 'end: offset': 2 ** 31 }),
      'by an offset that is too small': withValues(plain, { 'end: offset': 1 }),
      'by a length that is too large': withValues(plain, { 'end: length': 2 ** 31 }),
      'by a length of zero': withValues(plain, { 'end: length': 0 }),
      'by both': withValues(plain, { 'end: offset': 0xff_ff_ff_00, 'end: length': 0x100 }),
      'by more entries than there are': withValues(plain, { 'end: entries': 65_534, 'end: disk entries': 65_534 }),
      'by a directory without a signature': withValues(plain, { 'central: signature': 0 }),
    }),
    ...casesOf('Go: comments', {
      'of the zip': craftZip(entries, { comment: 'made by hand' }),
      'of an entry': withAsset({ comment: 'an asset' }),
      'of every entry, in UTF-8': every({ comment: 'größer', flags: UTF8 }),
      'that are empty': craftZip(entries, { comment: '' }),
    }),
    ...casesOf('Go: false comments', {
      'by being cut': withValues(plain, { 'end: comment length': 5 }),
      'by being longer': craftZip(entries, { comment: 'abc' }).subarray(0, -1),
      'by the signature of the end': craftZip(entries, { comment: 'PK\x05\x06' }),
      'by a whole end record that says nothing': craftZip(entries, { comment: `PK\x05\x06${'\0'.repeat(18)}` }),
      'by the signature of the 64-bit locator': craftZip(entries, { comment: `PK\x06\x07${'\0'.repeat(16)}` }),
    }),
    ...listTimes(),
    ...casesOf('Go: names and flags', {
      '7-Zip: the flag where it is needed': beside({ name: '世界', content: 'x', flags: UTF8 }),
      'Info-ZIP: the flag and a Unicode path': beside({
        name: '世界',
        content: 'x',
        flags: UTF8,
        ...bothExtras(unicodePath('世界', '世界')),
      }),
      'WinZip: the flag on every entry': every({ flags: UTF8 }),
      'the flag on a folder': beside({ name: '世界/', content: '', flags: UTF8 }),
    }),
    ...casesOf('Go: modes', {
      executable: withAsset({ mode: 0o100755 }),
      'a folder': beside({ name: 'd/', content: '', mode: 0o040755, attributes: 0x10 }),
      'a folder, stored': beside({ name: 'd/', content: '', packed: Buffer.alloc(0), method: 0, mode: 0o040755 }),
      'set-user-id and sticky': withAsset({ mode: 0o107777 }),
      'Windows XP: archive': withAsset({ madeBy: 0x0b14, attributes: 0x20 }),
      'Windows XP: read-only': withAsset({ madeBy: 0x0014, attributes: 0x01 }),
      'VFAT: hidden': withAsset({ madeBy: 0x0e14, attributes: 0x02 }),
      'macOS: regular': withAsset({ madeBy: 0x1314, mode: 0o100644 }),
    }),
    ...casesOf('Go: links', {
      'to a file of the package': beside({ name: 'link', content: 'index.ts', mode: 0o120777 }),
      'to a folder above': beside({ name: 'link', content: '../..', mode: 0o120777 }),
      'to nothing': beside({ name: 'link', content: '', mode: 0o120777 }),
      'of macOS': beside({ name: 'link', content: '/etc/passwd', mode: 0o120755, madeBy: 0x1314 }),
    }),
    ...casesOf('Go: folders', {
      'with a size that is deflated nothing': beside({ name: 'd/', content: '' }),
      'with a descriptor': beside({ name: 'd/', content: '', descriptor: true }),
    }),
    one('Go: folders twice', 'one name', beside({ name: 'd/', content: '' }, { name: 'd/', content: '' })),
    one('Go: folders with data', 'one byte', beside({ name: 'd/', content: 'x' })),
    ...casesOf('Go: extra fields', {
      'followed by zeros': withAsset(bothExtras(Buffer.concat([unixTimes(1, 1), Buffer.alloc(4)]))),
    }),
    ...casesOf('Go: extra fields that are cut', {
      'after a field: one byte': withAsset(bothExtras(Buffer.concat([unixTimes(1, 1), Buffer.alloc(1)]))),
      'after a field: three bytes': withAsset(bothExtras(Buffer.concat([unixTimes(1, 1), Buffer.alloc(3)]))),
      'a 64-bit field of one byte': withAsset(bothExtras(extraField(0x0001, Buffer.alloc(1)))),
      'a length beyond the field': withAsset(bothExtras(Buffer.from([0x55, 0x54, 0xff, 0xff]))),
    }),
    ...casesOf('Go: not a zip', {
      'a text': Buffer.from('This is not a zip file, but a readme about one.\n'.repeat(20)),
      nothing: Buffer.alloc(0),
      'one byte': Buffer.from('P'),
      'the signature alone': Buffer.from('PK\x03\x04', 'latin1'),
      zeros: Buffer.alloc(1_000),
      'a gzip': Buffer.concat([
        Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]),
        deflateRawSync('x'),
        Buffer.alloc(8),
      ]),
      'a tar': Buffer.concat([
        Buffer.from('readme.md'.padEnd(257, '\0')),
        Buffer.from('ustar\x0000'),
        Buffer.alloc(1_271),
      ]),
    }),
    ...listWide(),
  ];
}

function listTimes(): ZipCase[] {
  return casesOf('Go: times', {
    '7-Zip: NTFS': withAsset(bothExtras(ntfsTimes)),
    'Info-ZIP: three times locally, one in the directory': withAsset({
      extra: unixTimes(3, 1_509_494_400),
      localExtra: unixTimes(7, 1_509_494_400, 1_509_494_400, 1_509_494_400),
    }),
    'before 1970': withAsset(bothExtras(unixTimes(1, -1))),
    'after 2038': withAsset(bothExtras(unixTimes(1, 2 ** 31 - 1))),
    'flags without times': withAsset(bothExtras(extraField(0x5455, Buffer.from([7])))),
    'an old Unix field': withAsset(bothExtras(extraField(0x5855, Buffer.alloc(12, 1)))),
    'owners of Unix': withAsset(bothExtras(extraField(0x7875, Buffer.from([1, 4, 232, 3, 0, 0, 4, 232, 3, 0, 0])))),
    'month and day zero': every({ dosDate: 0, dosTime: 0 }),
    'month 15, day 31, 31:63:62': every({ dosDate: 0xffff, dosTime: 0xffff }),
    'even and odd seconds': every({ dosDate: 0x4b5f, dosTime: 0xa4c3 }),
  });
}

function listWide(): ZipCase[] {
  const whole = craftZip64(entries);
  const record = whole.length - END_BYTES - 20 - 56;
  // Records of version 2 have further fields, which a reader skips by the length.
  const longer = Buffer.concat([whole.subarray(0, record + 56), Buffer.alloc(12), whole.subarray(record + 56)]);
  longer.writeBigUInt64LE(44n + 12n, record + 4);
  return [
    ...casesOf('Go: 64-bit records', {
      'sizes of every entry': craftZip(
        entries.map((entry) => {
          const extra = wide(entry.content.length, deflateRawSync(entry.content).length);
          return { ...entry, wideSizes: true, extra, localExtra: extra };
        }),
      ),
      'with a comment of the zip': Buffer.concat([whole.subarray(0, -2), Buffer.from([2, 0]), Buffer.from('ok')]),
    }),
    ...casesOf('Go: false 64-bit records', {
      'one size alone': withAsset({ wideSizes: true, ...bothExtras(wide(size)) }),
      'the sizes in the other order': withAsset({ wideSizes: true, ...bothExtras(wide(packedSize, size)) }),
      'a longer record': longer,
      'a locator without a record': Buffer.concat([
        plain.subarray(0, -END_BYTES),
        whole.subarray(-END_BYTES - 20, -END_BYTES),
        plain.subarray(-END_BYTES),
      ]),
      'a record without a locator': Buffer.concat([whole.subarray(0, record + 56), whole.subarray(-END_BYTES)]),
      'the end record has its own values': Buffer.concat([
        whole.subarray(0, -END_BYTES),
        withValues(plain, { 'end: entries': 2 }).subarray(-END_BYTES),
      ]),
      '2^53 entries': craftZip64(entries, 2 ** 53),
      'an offset beyond the zip': withValues(whole, { 'end 64: offset': 2 ** 40 }),
      'a locator beyond the zip': withValues(whole, { 'locator: offset': 2 ** 40 }),
      'a locator of itself': withValues(whole, { 'locator: offset': whole.length - END_BYTES - 20 }),
    }),
  ];
}

function listLibarchive(): ZipCase[] {
  const aes = (strength: number, method: number) =>
    extraField(0x9901, Buffer.from([2, 0, 0x41, 0x45, strength, method, 0]));
  const cipher = Buffer.alloc(size + 28, 0x5a);
  const zeros = Buffer.alloc(64);
  return [
    ...casesOf('libarchive: encryption', {
      'of PKWARE': withAsset({ flags: 1, packed: Buffer.concat([Buffer.alloc(12, 7), deflateRawSync(asset.content)]) }),
      'of PKWARE, stored, with a descriptor': withAsset({
        flags: 1,
        method: 0,
        packed: Buffer.alloc(size + 12, 7),
        descriptor: true,
      }),
      'of WinZip, AES-128': withAsset({ flags: 1, method: 99, packed: cipher, ...bothExtras(aes(1, 8)) }),
      'of WinZip, AES-256, stored': withAsset({ flags: 1, method: 99, packed: cipher, ...bothExtras(aes(3, 0)) }),
      'of WinZip, without the flag': withAsset({ method: 99, packed: cipher, ...bothExtras(aes(3, 8)) }),
      strong: withAsset({ flags: 0x41, ...bothExtras(extraField(0x0017, Buffer.alloc(8, 1))) }),
      'of the directory': withAsset({ flags: 0x2041 }),
      'of one entry of three': withAsset({ flags: 1 }),
      'that only the directory tells': withValues(plain, { 'central: flags': 1 }),
      'that only the local header tells': withValues(plain, { 'local: flags': 1 }),
    }),
    ...casesOf('libarchive: other compressions', {
      Zstandard: withAsset({ method: 93, packed: zstdCompressSync(asset.content) }),
      'Deflate64, as Windows writes it': withAsset({ method: 9 }),
      bzip2: withAsset({ method: 12, packed: Buffer.from('BZh91AY&SY') }),
      LZMA: withAsset({ method: 14, packed: Buffer.from([9, 4, 5, 0, 0x5d, 0, 0, 0x80, 0]) }),
      XZ: withAsset({ method: 95, packed: Buffer.from('\xfd7zXZ\0', 'latin1') }),
      PPMd: withAsset({ method: 98 }),
      JPEG: withAsset({ method: 96 }),
    }),
    ...casesOf('libarchive: padding', {
      'before the zip': Buffer.concat([zeros, plain]),
      'before the zip, offsets moved': craftZip(entries, { before: zeros }),
      'between the entries': withAsset({ before: zeros }),
      'before the directory': craftZip(entries, { beforeDirectory: zeros }),
      'after the directory': craftZip(entries, { afterDirectory: zeros }),
      'after the end': Buffer.concat([plain, zeros]),
    }),
    ...casesOf('libarchive: programs before a zip', {
      'of Windows': craftZip(entries, { before: Buffer.concat([Buffer.from('MZ'), zeros]) }),
      'of Linux': craftZip(entries, { before: Buffer.concat([Buffer.from('\x7fELF', 'latin1'), zeros]) }),
      'a PDF': craftZip(entries, { before: Buffer.from('%PDF-1.7\n') }),
      'a GIF': Buffer.concat([Buffer.from('GIF89a'), zeros, plain]),
    }),
    ...casesOf('libarchive: several disks', {
      'the first of two': withValues(plain, { 'end: disk': 0, 'end: directory disk': 1 }),
      'the last of two': withValues(plain, { 'end: disk': 1, 'end: directory disk': 1 }),
      'entries on another disk': withValues(plain, { 'central: disk': 1 }),
      'fewer entries on this disk': withValues(plain, { 'end: disk entries': 1 }),
      'the marker of a split zip': craftZip(entries, { before: Buffer.from('PK\x07\x08', 'latin1') }),
      'the marker of a split zip that was not split': craftZip(entries, { before: Buffer.from('PK00') }),
      '64-bit: two disks': withValues(craftZip64(entries), { 'locator: disks': 2 }),
    }),
    ...casesOf('libarchive: extra fields', {
      'the magic of jar': craftZip(
        entries.map((entry, at) =>
          at === 0 ? { ...entry, ...bothExtras(extraField(0xcafe, Buffer.alloc(0))) } : entry,
        ),
      ),
      'padding of Office': withAsset({ localExtra: extraField(0xa220, Buffer.alloc(200)) }),
      'alignment of Android': withAsset({ localExtra: extraField(0xd935, Buffer.alloc(6)) }),
      'owners of Info-ZIP': withAsset({
        localExtra: extraField(0x7855, Buffer.alloc(4)),
        extra: extraField(0x7855, Buffer.alloc(0)),
      }),
      'an experimental field': withAsset({ localExtra: extraField(0x6c78, Buffer.from([7, 0, 0, 0, 0])) }),
      'access rights of OS/2': withAsset(bothExtras(extraField(0x4c41, Buffer.alloc(20)))),
      '60 fields': withAsset(
        bothExtras(Buffer.concat(Array.from({ length: 60 }, (_, at) => extraField(0xe000 + at, Buffer.alloc(8))))),
      ),
      'the longest field': withAsset(bothExtras(extraField(0xcafe, Buffer.alloc(65_531)))),
    }),
    ...casesOf('libarchive: modes', {
      'without a type': withAsset({ mode: 0o644 }),
      'of MS-DOS': withAsset({ madeBy: 0x0014, attributes: 0x20 }),
      'of an unknown system': withAsset({ madeBy: 0xff14 }),
      'of a later version': withAsset({ madeBy: 0x03ff, mode: 0o100644 }),
      'a setgid folder': beside({ name: 'd/', content: '', mode: 0o042775 }),
    }),
    ...casesOf('libarchive: names in old encodings', {
      'Japanese, CP932': beside({ name: Buffer.from([0x95, 0x5c, 0x82, 0xbe]), content: 'x' }),
      'Russian, CP866': beside({ name: Buffer.from([0x8f, 0xe0, 0xa8, 0xa2, 0xa5, 0xe2]), content: 'x' }),
      'Russian, KOI8-R': beside({ name: Buffer.from([0xf0, 0xd2, 0xc9, 0xd7, 0xc5, 0xd4]), content: 'x' }),
      'German, CP850': beside({ name: Buffer.from([0x81, 0x62, 0x65, 0x72]), content: 'x' }),
      'Japanese, CP932, with a Unicode path': beside({
        name: Buffer.from([0x95, 0x5c]),
        content: 'x',
        ...bothExtras(unicodePath('表', Buffer.from([0x95, 0x5c]))),
      }),
    }),
    ...casesOf('libarchive: what macOS adds', {
      'a shadow of each file': beside(
        { name: '__MACOSX/', content: '' },
        { name: '__MACOSX/._readme.md', content: 'x' },
        { name: '__MACOSX/assets/._a.txt', content: 'x' },
      ),
      'beside each file': beside({ name: '._index.ts', content: 'x' }, { name: 'assets/._a.txt', content: 'x' }),
    }),
    ...casesOf('libarchive: damaged', {
      'a name of no length': beside({ name: '', content: 'x' }),
      'a size that is all ones': beside({ name: 'assets/b', content: 'x', size: 0xff_ff_ff_ff }),
      'compressed to nothing': beside({ name: 'assets/b', content: 'xx', packed: Buffer.alloc(0) }),
      'a local header past the end': withValues(plain, { 'central: offset': plain.length }),
      'a local header in the directory': withValues(plain, { 'central: offset': plain.length - 60 }),
      'a block that is stored in deflate and too long': withAsset({ packed: Buffer.from([1, 0xff, 0xff, 0, 0]) }),
      'a deflate block of the reserved kind': withAsset({ packed: Buffer.from([7]) }),
      'a distance before the start': withAsset({ packed: Buffer.from([0x4b, 0x04, 0x12, 0x00, 0xff]) }),
    }),
    ...casesOf('libarchive: compressed hard', {
      '65,535 equal bytes': beside({
        name: 'assets/b',
        content: Buffer.alloc(10_000, 0x61),
        packed: deflateRawSync(Buffer.alloc(10_000, 0x61), { level: 1, strategy: 2 }),
      }),
      'in stored blocks': withAsset({ packed: deflateRawSync(asset.content, { level: 0 }) }),
      'in fixed codes': withAsset({ packed: deflateRawSync(asset.content, { strategy: 4 }) }),
    }),
  ];
}

const CLIMBS: readonly string[] = [
  '../../../../../../../../../../../../tmp/evil.txt',
  'good/../../evil.txt',
  'good/./../../evil.txt',
  '..//evil.txt',
  './..//../evil.txt',
  '../',
  'a/../../',
  '.../../evil.txt',
];
const WINDOWS_CLIMBS: readonly string[] = [
  '..\\..\\..\\..\\Windows\\Temp\\evil.txt',
  '..\\/..\\/evil.txt',
  'good\\..\\..\\evil.txt',
  '.\\..\\evil.txt',
  '..\\',
  '\\..\\evil.txt',
];
const ROOTS: readonly string[] = [
  '/tmp/evil.txt',
  '///tmp/evil.txt',
  '/./evil.txt',
  'C:\\Windows\\evil.txt',
  'C:/Windows/evil.txt',
  'C:evil.txt',
  'z:../evil.txt',
  '\\Windows\\evil.txt',
  '\\\\server\\share\\evil.txt',
  '\\\\?\\C:\\evil.txt',
  '\\\\.\\PhysicalDrive0',
  '\\??\\C:\\evil.txt',
  'file:///tmp/evil.txt',
  '~/.ssh/authorized_keys/../../evil:x',
];
/** On Windows, and where a program decodes names, these may become the characters that they resemble. */
const LOOKALIKES: readonly string[] = [
  '..\u2215..\u2215evil.txt',
  '..\u2044..\u2044evil.txt',
  '..\uff0f..\uff0fevil.txt',
  '..\uff3c..\uff3cevil.txt',
  '..\u29f8..\u29f8evil.txt',
  '..\u29f5..\u29f5evil.txt',
  '\uff0e\uff0e\uff0fevil.txt',
  '\u2025\u2215evil.txt',
  '%2e%2e%2fevil.txt',
  '..%c0%afevil.txt',
  '..%252fevil.txt',
  '....evil.txt',
  '~',
  '$HOME',
  '%TEMP%',
  '-rf',
];
const ENDINGS: readonly string[] = [
  '.. /evil.txt',
  '..\u00a0/evil.txt',
  '../evil.txt ',
  'index.ts.',
  'index.ts ',
  'a/.. /b',
  'index.ts::$DATA',
];
/** `/` and `.` in more bytes than they need. */
const OVERLONG: readonly (readonly number[])[] = [
  [0xc0, 0xae, 0xc0, 0xae, 0x2f, 0x65],
  [0x2e, 0x2e, 0xc0, 0xaf, 0x65],
  [0x2e, 0x2e, 0xe0, 0x80, 0xaf, 0x65],
  [0x2e, 0x2e, 0xf0, 0x80, 0x80, 0xaf, 0x65],
  [0x2e, 0x2e, 0xc1, 0x9c, 0x65],
];

function listZipSlips(): ZipCase[] {
  const evil = (label: string, names: readonly (string | Buffer)[]): ZipCase[] =>
    names.map((name) => one(label, JSON.stringify(name.toString()), beside({ name, content: 'evil', flags: UTF8 })));
  return [
    ...evil('zip-slip: up', CLIMBS),
    ...evil('zip-slip: up, for Windows', WINDOWS_CLIMBS),
    ...evil('zip-slip: from the root', ROOTS),
    ...evil('zip-slip: characters that only resemble', LOOKALIKES),
    ...evil('zip-slip: ends that Windows drops', ENDINGS),
    ...evil(
      'zip-slip: slashes that are not UTF-8',
      OVERLONG.map((bytes) => Buffer.from(bytes)),
    ),
    ...casesOf('zip-slip: two names', {
      'up in the local header': beside({ name: 'assets/b', localName: '../b.txt', content: 'evil' }),
      'up in the directory': beside({ name: '../b.txt', localName: 'assets/b', content: 'evil' }),
      'up in a Unicode path': beside({
        name: 'assets/b',
        content: 'evil',
        ...bothExtras(unicodePath('../evil', 'assets/b')),
      }),
    }),
    ...casesOf('zip-slip: through a link', {
      'a folder, then a file in it': beside(
        { name: 'out', content: '../../tmp', mode: 0o120777 },
        { name: 'out/evil.txt', content: 'evil' },
      ),
      'a file, then itself': beside(
        { name: 'out', content: '/etc/passwd', mode: 0o120777 },
        { name: 'out', content: 'evil' },
      ),
      'a link whose name ends with /': beside({ name: 'out/', content: '../../tmp', mode: 0o120777 }),
    }),
    ...casesOf('zip-slip: in the only folder', {
      'that is ..': craftZip(entries.map((entry) => ({ ...entry, name: `../${entry.name}` }))),
      'that is a drive': craftZip(entries.map((entry) => ({ ...entry, name: `C:/${entry.name}` }))),
      'that is the root': craftZip(entries.map((entry) => ({ ...entry, name: `/${entry.name}` }))),
      'with backslashes': craftZip(entries.map((entry) => ({ ...entry, name: `p\\${entry.name}` }))),
    }),
  ];
}

export const listRebuiltZips = (): ZipCase[] => [...listGo(), ...listLibarchive(), ...listZipSlips()];
