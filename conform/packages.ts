/** Builds packages: file lists and zips, also ones that a deployment must refuse. */
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

export interface PackageFile {
  readonly path: string;
  readonly contentText: string;
}
/** A package by path. */
export type Package = Readonly<Record<string, string | Uint8Array>>;

export interface Manifest {
  readonly name?: string;
  readonly description?: string;
  /** Further lines of the frontmatter. */
  readonly more?: string;
}

/** The code of a package that takes part in no hook. */
const PLAIN_CODE = "tools.plain = { description: 'Plain', parameters: { type: 'object' }, handler: () => 'plain' };\n";

export const readme = ({ name = 'Conformance', description = 'Made by a conformance run', more = '' }: Manifest = {}) =>
  `---\nname: ${name}\ndescription: ${description}\n${more}${more === '' ? '' : '\n'}---\n# ${name}\n`;

/** A package with one file of code. */
export const packageOf = (code: string = PLAIN_CODE, manifest: Manifest = {}, more: Package = {}): Package => ({
  'readme.md': readme(manifest),
  'index.ts': code,
  ...more,
});

export const fileList = (content: Package): PackageFile[] =>
  Object.entries(content).map(([path, text]) => ({ path, contentText: String(text) }));

/** `sourceSha256` as the contract defines it. */
export function hashSource(content: Package): string {
  const sha256 = (bytes: string | Uint8Array) => createHash('sha256').update(bytes).digest('hex');
  const paths = Object.keys(content).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return sha256(paths.map((path) => `${path}\0${sha256(content[path] ?? '')}\n`).join(''));
}

/** One entry of a zip. Every field besides `name` and `content` makes the entry invalid. */
export interface ZipEntry {
  readonly name: string;
  readonly content?: string | Uint8Array;
  /** General purpose flags; 1: encrypted. */
  readonly flags?: number;
  readonly crc?: number;
  /** Size in the zip's directory. */
  readonly size?: number;
  /** Unix mode, such as that of a symbolic link. */
  readonly mode?: number;
  /** Place of the entry that the directory names. */
  readonly offset?: number;
}

/** A zip of a package, its entries in the package's order. */
export const zipPackage = (content: Package, wrapper = ''): Buffer =>
  zipEntries(Object.entries(content).map(([path, text]) => ({ name: `${wrapper}${path}`, content: text })));

const LOCAL_SIGNATURE = 0x04034b50;
const CENTRAL_SIGNATURE = 0x02014b50;
const END_SIGNATURE = 0x06054b50;
const UTF8_NAMES = 0x800;
/** Made by Unix, version 2.0, so that the external attributes hold a mode. */
const MADE_BY = 0x0314;
const FILE_MODE = 0o100644;

/** Writes entries as they are given, without compression. */
export function zipEntries(entries: readonly ZipEntry[]): Buffer {
  const locals: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (const entry of entries) {
    const name = Buffer.from(entry.name);
    const content = Buffer.from(entry.content ?? '');
    const facts = describeEntry(entry, content, name.byteLength);
    const local = Buffer.concat([header(LOCAL_SIGNATURE, [], facts), name, content]);
    const { mode = FILE_MODE, offset = at } = entry;
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE((mode << 16) >>> 0, 6);
    tail.writeUInt32LE(offset, 10);
    directory.push(Buffer.concat([header(CENTRAL_SIGNATURE, [MADE_BY], facts), tail, name]));
    locals.push(local);
    at += local.byteLength;
  }
  const listed = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(END_SIGNATURE, 0);
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(listed.byteLength, 12);
  end.writeUInt32LE(at, 16);
  return Buffer.concat([...locals, listed, end]);
}

/** The fields that the local header and the directory share: from the version needed to the length of the extra field. */
function describeEntry({ flags = 0, crc, size }: ZipEntry, content: Buffer, nameBytes: number): Buffer {
  const facts = Buffer.alloc(26);
  facts.writeUInt16LE(20, 0);
  facts.writeUInt16LE(flags | UTF8_NAMES, 2);
  facts.writeUInt16LE(0x21, 8);
  facts.writeUInt32LE(crc ?? crc32(content), 10);
  facts.writeUInt32LE(size ?? content.byteLength, 14);
  facts.writeUInt32LE(size ?? content.byteLength, 18);
  facts.writeUInt16LE(nameBytes, 22);
  return facts;
}

function header(signature: number, more: readonly number[], facts: Buffer): Buffer {
  const start = Buffer.alloc(4 + 2 * more.length);
  start.writeUInt32LE(signature, 0);
  for (const [index, value] of more.entries()) start.writeUInt16LE(value, 4 + 2 * index);
  return Buffer.concat([start, facts]);
}
