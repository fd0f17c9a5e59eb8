/** Zips written byte by byte, so that each field can lie. */
import { crc32, deflateRawSync } from 'node:zlib';
import { MINIMAL } from './packages.ts';

export interface CraftedEntry {
  readonly name: string | Buffer;
  readonly content: string | Buffer;
  /** In the local header; otherwise the same. */
  readonly localName?: string;
  /** Unix mode, with the file type. */
  readonly mode?: number;
  readonly flags?: number;
  readonly method?: number;
  readonly crc?: number;
  /** Unpacked size as the headers tell it. */
  readonly size?: number;
  /** The bytes that are there in place of the deflated content. */
  readonly packed?: Buffer;
  /** Sizes and sum behind the data in place of the local header. */
  readonly descriptor?: boolean;
  /** Where the directory says the local header is. */
  readonly at?: number;
}

const UNIX = 3 << 8;
const DESCRIPTOR = 0x8;
/** A compressor for each of 65,536 empty entries would take seconds. */
const DEFLATED_NOTHING = deflateRawSync('');

/** A zip of these entries, deflated. */
export function craftZip(entries: readonly CraftedEntry[], { comment = '' } = {}): Buffer {
  const files: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const entry of entries) {
    const { local, central } = craftEntry(entry, offset);
    files.push(local);
    directory.push(central);
    offset += local.length;
  }
  const size = directory.reduce((sum, one) => sum + one.length, 0);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(Math.min(entries.length, 0xffff), 8);
  end.writeUInt16LE(Math.min(entries.length, 0xffff), 10);
  end.writeUInt32LE(size, 12);
  end.writeUInt32LE(offset, 16);
  end.writeUInt16LE(comment.length, 20);
  return Buffer.concat([...files, ...directory, end, Buffer.from(comment)]);
}

function craftEntry(entry: CraftedEntry, offset: number): { local: Buffer; central: Buffer } {
  const content = Buffer.from(entry.content);
  const packed = entry.packed ?? (content.length === 0 ? DEFLATED_NOTHING : deflateRawSync(content));
  const name = Buffer.from(entry.name);
  const localName = entry.localName === undefined ? name : Buffer.from(entry.localName);
  const sums = { crc: entry.crc ?? crc32(content), packed: packed.length, size: entry.size ?? content.length };
  const flags = (entry.flags ?? 0) | (entry.descriptor ? DESCRIPTOR : 0);
  const fields = (start: Buffer, at: number, told: typeof sums) => {
    start.writeUInt16LE(flags, at);
    start.writeUInt16LE(entry.method ?? 8, at + 2);
    start.writeUInt32LE(told.crc, at + 8);
    start.writeUInt32LE(told.packed, at + 12);
    start.writeUInt32LE(told.size, at + 16);
  };
  const header = Buffer.alloc(30);
  header.writeUInt32LE(0x04034b50, 0);
  fields(header, 6, entry.descriptor ? { crc: 0, packed: 0, size: 0 } : sums);
  header.writeUInt16LE(localName.length, 26);
  const descriptor = Buffer.alloc(entry.descriptor ? 16 : 0);
  if (entry.descriptor) {
    const values = [0x08074b50, sums.crc, sums.packed, sums.size];
    for (const [index, value] of values.entries()) descriptor.writeUInt32LE(value, index * 4);
  }
  const central = Buffer.alloc(46);
  central.writeUInt32LE(0x02014b50, 0);
  central.writeUInt16LE(entry.mode === undefined ? 20 : UNIX | 20, 4);
  fields(central, 8, sums);
  central.writeUInt16LE(name.length, 28);
  central.writeUInt32LE(((entry.mode ?? 0) << 16) >>> 0, 38);
  central.writeUInt32LE(entry.at ?? offset, 42);
  return { local: Buffer.concat([header, localName, packed, descriptor]), central: Buffer.concat([central, name]) };
}

/** A package of exactly this many bytes as a zip: a stored asset makes it so large. */
export function zipOfSize(bytes: number): Buffer {
  const files = Object.entries(MINIMAL).map(([name, content]) => ({ name, content }));
  const sized = (length: number): Buffer => {
    const packed = Buffer.alloc(length, 7);
    const asset = { name: 'assets/data', content: '', packed, method: 0, size: length, crc: crc32(packed) };
    return craftZip([...files, asset]);
  };
  return sized(bytes - sized(0).length);
}
