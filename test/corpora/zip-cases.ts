/** Zips of our own making for every rule of a package: false fields, names, structures, kinds and sizes. */
import { crc32, deflateRawSync } from 'node:zlib';
import { INDEX, MINIMAL } from '../api/package/packages.ts';
import { type CraftedEntry, craftZip, craftZip64, type ZipLayout } from '../api/package/zip-crafting.ts';
import { listRebuiltZips } from './rebuilt-zips.ts';
import { listFields, readField, withField } from './zip-fields.ts';
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

const KIB = 1024;

/** Each field of each record, with values that are off by one, zero and all ones. */
function sweepFields(): ZipCase[] {
  const bases = {
    '': plain,
    ' (descriptors)': craftZip(entries.map((entry) => ({ ...entry, descriptor: true }))),
    ' (64-bit)': craftZip64(entries),
  };
  const kinds: Readonly<Record<string, RegExp>> = {
    '': /./,
    ' (descriptors)': /^(local|descriptor):/,
    ' (64-bit)': /^(end|end 64|locator):/,
  };
  return Object.entries(bases).flatMap(([base, zip]) =>
    listFields(zip)
      .filter(({ label }) => kinds[base]?.test(label))
      .flatMap((field) => {
        const value = readField(zip, field);
        const all = (1n << BigInt(field.bytes * 8)) - 1n;
        const others = new Set(
          [value + 1n, value - 1n, 0n, all].map((other) => BigInt.asUintN(field.bytes * 8, other)),
        );
        others.delete(value);
        return [...others].map((other) =>
          one(`${field.label}${base}`, `${value} → ${other}`, withField(zip, field, other)),
        );
      }),
  );
}

/** Each bit of the flags and each method, in both headers. */
function sweepFlagsAndMethods(): ZipCase[] {
  const bits = Array.from({ length: 16 }, (_, bit) =>
    one('a flag in both headers', `bit ${bit}`, withAsset({ flags: 1 << bit, descriptor: bit === 3 })),
  );
  const methods = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 14, 18, 19, 20, 93, 94, 95, 96, 97, 98, 99];
  return [
    ...bits,
    ...methods.map((method) => one('a method in both headers', String(method), withAsset({ method }))),
    one('stored', 'as it is', storedZip(false)),
    one('stored with a descriptor', 'as Go writes it', storedZip(true)),
  ];
}
function storedZip(descriptor: boolean): Buffer {
  return craftZip(entries.map((entry) => ({ ...entry, method: 0, packed: Buffer.from(entry.content), descriptor })));
}

const NAMES: Readonly<Record<string, readonly (string | Buffer)[]>> = {
  'a name that leaves the package': [
    ...[
      '../evil.ts',
      '../../evil.ts',
      'a/../../evil.ts',
      '..',
      'a/..',
      'a/../b',
      `${'../'.repeat(20)}evil`,
      '..%2fevil/..',
    ],
    ...['..\\evil.ts', 'a\\..\\..\\evil.ts', './../evil', 'assets/../../evil'],
  ],
  'an absolute name': [
    '/evil.ts',
    '//host/share/evil',
    'C:/evil.ts',
    'C:evil.ts',
    'c:\\evil',
    '\\\\host\\evil',
    '/',
    '//',
  ],
  'a name that is not plain': [
    './a',
    'a/./b',
    'a//b',
    '',
    ' ',
    '.',
    'a ',
    'a.',
    'a/b /c',
    'a./b',
    'a:b',
    'index.ts:stream',
  ],
  'a device name': ['aux', 'CON', 'nul.txt', 'assets/com1', 'LPT9.md', 'prn.ts'],
  'a control character': ['a\0b', 'index.ts\0.md', 'a\nb', 'a\rb', 'a\tb', 'a\x1bb', 'a\x7fb', 'a\x85b'],
  'an invisible or direction character': [
    'a\u202eb',
    'a\u200bb',
    'index\u00ad.ts',
    'a\u2066b',
    '\ufeffa',
    'a\u3164',
    'a\u{e0041}',
  ],
  'a name that is not UTF-8': [
    ...[[0xe9], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0x61, 0x81], [0xff], [0xe2, 0x82]].map(
      (bytes) => Buffer.from(bytes),
    ),
  ],
  'a long or deep name': ['x'.repeat(256), `${'a/'.repeat(16)}b`, `${'abcdefgh/'.repeat(120)}x`, 'x'.repeat(65_535)],
  'a plain name': [
    'x'.repeat(255),
    `${'a/'.repeat(15)}b`,
    '.hidden',
    'a..b',
    'a b',
    'ünïcödé.md',
    '日本語/ファイル.txt',
    '😀',
    'a%2e',
  ],
};
const CLASHES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'the same name twice': [['index.ts'], ['readme.md'], ['assets/'.concat('b'), 'assets/b'], ['d/', 'd/']],
  'names equal by letter case': [
    ...[['INDEX.ts'], ['Readme.md'], ['assets/A.txt'], ['Assets/b'], ['straße', 'STRASSE'], ['σς', 'ΣΣ'], ['ﬀ', 'FF']],
    ...[
      ['d/', 'D/'],
      ['lib/a', 'Lib/b'],
      ['ǅ', 'ǆ'],
    ],
  ],
  'names equal by normalization': [
    ['é', 'e\u0301'],
    ['가', '\u1100\u1161'],
    ['Å', '\u212b'],
  ],
  'a file that is a folder': [['index.ts/a'], ['assets'], ['index.ts/'], ['d', 'd/e'], ['d/e', 'd']],
  'folders beside files': [['d/'], ['d/', 'd/e'], ['d/e', 'd/'], ['assets/'], ['d/', 'd/e/', 'd/e/f']],
};

function listNames(): ZipCase[] {
  const quoteName = (name: string | Buffer) => JSON.stringify(name.toString()).slice(0, 60);
  const make = (name: string | Buffer) => ({ name, content: name.toString().endsWith('/') ? '' : 'x', flags: 0x800 });
  return [
    ...Object.entries(NAMES).flatMap(([label, names]) =>
      names.map((name) => one(label, quoteName(name), beside(make(name)))),
    ),
    ...Object.entries(CLASHES).flatMap(([label, lists]) =>
      lists.map((names) => one(label, names.map(quoteName).join(' '), beside(...names.map(make)))),
    ),
    one('a UTF-8 name without the flag', 'as Finder writes it', beside({ name: 'ünïcödé.md', content: 'x' })),
  ];
}

function listExtras(): ZipCase[] {
  const both = (extra: Buffer): Buffer => withAsset({ extra, localExtra: extra });
  const size = asset.content.length;
  const packed = deflateRawSync(asset.content).length;
  return [
    one('an extra field that means nothing here', 'time', both(extraField(0x5455, Buffer.alloc(5)))),
    one('an extra field that means nothing here', 'unknown', both(extraField(0xcafe, Buffer.alloc(100)))),
    one('an extra field that means nothing here', 'empty', both(extraField(0xcafe, Buffer.alloc(0)))),
    one('a Unicode path', 'the same name', both(unicodePath(String(asset.name)))),
    one('a second name in a Unicode path', 'another', both(unicodePath('assets/other.txt'))),
    one('a second name in a Unicode path', 'local only', withAsset({ localExtra: unicodePath('assets/other.txt') })),
    one('a second name in a Unicode path', 'a checksum that does not fit', both(unicodePath('assets/other.txt', 'x'))),
    one('a second name in a Unicode path', 'twice', both(Buffer.concat([unicodePath('a'), unicodePath('b')]))),
    one('extra bytes that are no field', 'one byte', both(Buffer.alloc(1))),
    one('extra bytes that are no field', 'too short', both(extraField(0xcafe, Buffer.alloc(9)).subarray(0, 8))),
    one(
      '64-bit sizes',
      'in both headers',
      withAsset({ wideSizes: true, extra: wide(size, packed), localExtra: wide(size, packed) }),
    ),
    one('64-bit sizes', 'spare, in the local header', withAsset({ localExtra: wide(size, packed) })),
    one('false 64-bit sizes', 'spare, in the directory', withAsset({ extra: wide(size, packed) })),
    one(
      'false 64-bit sizes',
      'other sizes',
      withAsset({ wideSizes: true, extra: wide(size + 1, packed), localExtra: wide(size + 1, packed) }),
    ),
    one(
      'false 64-bit sizes',
      'the local header’s differ',
      withAsset({ wideSizes: true, extra: wide(size, packed), localExtra: wide(size, packed + 1) }),
    ),
    one('false 64-bit sizes', 'none', withAsset({ wideSizes: true })),
    one(
      'false 64-bit sizes',
      'too many',
      withAsset({ wideSizes: true, extra: wide(size, packed, 0, 0), localExtra: wide(size, packed) }),
    ),
    one('false 64-bit sizes', 'twice', both(Buffer.concat([wide(), wide()]))),
    one(
      'false 64-bit sizes',
      'beyond 2^53',
      withAsset({ wideSizes: true, extra: wide(2 ** 60, packed), localExtra: wide(2 ** 60, packed) }),
    ),
  ];
}

function listStructures(): ZipCase[] {
  const junk = Buffer.from('junk');
  const other = craftZip([...entries.slice(0, 1), { name: 'index.ts', content: '// another\n' }]);
  const crafted = (layout: ZipLayout) => craftZip(entries, layout);
  const end = plain.subarray(-22);
  const signatureRecord = Buffer.concat([Buffer.from('PK\x05\x05\x04\x00', 'latin1'), junk]);
  const cuts = Array.from({ length: 25 }, (_, at) => Math.floor((plain.length * at) / 25));
  return [
    one('a whole zip', 'as it is', plain),
    one('a whole zip', 'with a comment', crafted({ comment: 'hello' })),
    one('a whole zip', 'with the longest comment', crafted({ comment: 'x'.repeat(65_535) })),
    one('a whole zip', 'the directory in another order', crafted({ reversed: true })),
    one('a whole zip', '64-bit', craftZip64(entries)),
    one('a whole zip', 'with descriptors', craftZip(entries.map((entry) => ({ ...entry, descriptor: true })))),
    one(
      'a whole zip',
      'descriptors without signature',
      craftZip(entries.map((entry) => ({ ...entry, descriptor: 'bare' }))),
    ),
    one('a whole zip', 'in a folder', craftZip(entries.map((entry) => ({ ...entry, name: `p/${entry.name}` })))),
    one(
      'a whole zip',
      'with what Finder adds',
      beside({ name: '__MACOSX/._index.ts', content: 'x' }, { name: '.DS_Store', content: 'x' }),
    ),
    one('a zip inside', 'as an asset', beside({ name: 'assets/a.zip', content: plain })),
    one('a zip inside', 'stored', beside({ name: 'assets/a.zip', content: other, packed: other, method: 0 })),
    one('bytes before the first entry', 'offsets as without', Buffer.concat([junk, plain])),
    one('bytes before the first entry', 'offsets moved', crafted({ before: junk })),
    one('bytes before the first entry', 'another zip, offsets as without', Buffer.concat([other, plain])),
    one('bytes before the first entry', 'another zip, offsets moved', crafted({ before: other })),
    one('bytes before the first entry', 'a script', crafted({ before: Buffer.from('#!/bin/sh\n') })),
    one('bytes between the entries', 'junk', withAsset({ before: junk })),
    one(
      'bytes between the entries',
      'a hidden entry',
      withAsset({ before: other.subarray(0, other.indexOf('PK\x01\x02')) }),
    ),
    one('bytes between the entries', 'before the directory', withAsset({ after: junk })),
    one(
      'bytes between the entries',
      'a directory before the directory',
      crafted({ beforeDirectory: plain.subarray(plain.indexOf('PK\x01\x02'), -22) }),
    ),
    one('bytes after the directory', 'junk', crafted({ afterDirectory: junk })),
    one('bytes after the directory', 'counted as directory', crafted({ afterDirectory: junk, countsAfter: true })),
    one(
      'bytes after the directory',
      'a digital signature',
      crafted({ afterDirectory: signatureRecord, countsAfter: true }),
    ),
    one('bytes after the end', 'junk', Buffer.concat([plain, junk])),
    one('bytes after the end', 'NUL', Buffer.concat([plain, Buffer.alloc(1)])),
    one('bytes after the end', 'another end', Buffer.concat([plain, end])),
    one('bytes after the end', 'another zip', Buffer.concat([plain, other])),
    one('an end record in the comment', 'alone', crafted({ comment: end.toString('latin1') })),
    one('an end record in the comment', 'with text', crafted({ comment: `a${end.toString('latin1')}b` })),
    one('two entries of one place', 'overlapping', craftZip([...entries, { name: 'assets/b', content: 'x', at: 0 }])),
    one('two entries of one place', 'the same name', craftZip([...entries, { ...entries[0], at: 0 } as CraftedEntry])),
    one(
      'data after the end of the compressed data',
      'junk',
      withAsset({ packed: Buffer.concat([deflateRawSync(asset.content), junk]) }),
    ),
    one(
      'data after the end of the compressed data',
      '100 KiB',
      withAsset({ packed: Buffer.concat([deflateRawSync(asset.content), Buffer.alloc(100 * KIB)]) }),
    ),
    one(
      'data after the end of the compressed data',
      'a second stream',
      withAsset({ packed: Buffer.concat([deflateRawSync(asset.content), deflateRawSync('more')]) }),
    ),
    one('compressed data that is damaged', 'not deflate', withAsset({ packed: Buffer.from('not deflate at all') })),
    one('compressed data that is damaged', 'cut', withAsset({ packed: deflateRawSync(asset.content).subarray(0, -4) })),
    one('compressed data that is damaged', 'empty', withAsset({ packed: Buffer.alloc(0) })),
    one('no entries', 'an end record alone', craftZip([])),
    one('no entries', 'an end record behind bytes', craftZip([], { before: junk })),
    ...cuts.map((length) => one('a zip that was cut', `${length} bytes`, plain.subarray(0, length))),
  ];
}

function listKinds(): ZipCase[] {
  const [first, second] = [0o100000, 0o040000];
  const kind = (label: string, name: string, change: Partial<CraftedEntry>) => one(label, name, withAsset(change));
  return [
    ...[0o644, 0o755, 0o000, 0o4755].map((mode) =>
      kind('a regular file by its mode', mode.toString(8), { mode: first | mode }),
    ),
    ...[0o120777, 0o010644, 0o020644, 0o060644, 0o140644, 0o160000].map((mode) =>
      kind('a link or device', mode.toString(8), { mode }),
    ),
    kind('a folder without /', 'by its mode', { mode: second | 0o755 }),
    kind('a folder without /', 'by its DOS attribute', { attributes: 0x10 }),
    one('a folder with content', 'one byte', beside({ name: 'd/', content: 'x' })),
    one('a folder with content', 'that unpacks to some', beside({ name: 'd/', content: 'x', size: 0, crc: 0 })),
    one(
      'a folder with content',
      'that is a file by its mode',
      beside({ name: 'd/', content: '', mode: first | 0o644 }),
    ),
    one('a folder with content', 'with a checksum', beside({ name: 'd/', content: '', crc: 1 })),
    one('an empty file', 'deflated', beside({ name: 'assets/b', content: '' })),
    one('an empty file', 'stored', beside({ name: 'assets/b', content: '', packed: Buffer.alloc(0), method: 0 })),
  ];
}

function listSizes(): ZipCase[] {
  const zeros = Buffer.alloc(10_000 * KIB);
  const bomb = { content: '', packed: deflateRawSync(zeros), size: zeros.length, crc: crc32(zeros) };
  return [
    one('a bomb', 'one entry', beside({ ...bomb, name: 'assets/b' })),
    one('a bomb', 'that tells a small size', beside({ ...bomb, name: 'assets/b', size: 100 })),
    one('a bomb', 'a huge promise', beside({ name: 'assets/b', content: 'x', size: 2 ** 31 })),
    one(
      'a bomb',
      'many entries of one place',
      craftZip(Array.from({ length: 200 }, (_, at) => ({ name: `f${at}`, content: INDEX, at: 0 }))),
    ),
    one(
      'too many entries',
      '10,001',
      craftZip(Array.from({ length: 10_001 }, (_, at) => ({ name: `f${at}`, content: '' }))),
    ),
  ];
}

export const listZipCases = (): ZipCase[] => [
  ...listStructures(),
  ...listKinds(),
  ...listSizes(),
  ...listExtras(),
  ...listNames(),
  ...sweepFlagsAndMethods(),
  ...sweepFields(),
  ...listRebuiltZips(),
];
/** The files of the package, by path. */
export const contents = new Map<string, string>(
  [...Object.entries(MINIMAL), [String(asset.name), String(asset.content)]].map(([path, text]) => [path, String(text)]),
);
