/** Zips written byte by byte, so that each field can be false. */
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
  /** Sizes and sum behind the data in place of the local header; `bare`: without a signature; `wide`: sizes of 64 bits. */
  readonly descriptor?: boolean | 'bare' | 'wide' | 'bare wide';
  /** In the descriptor; otherwise the same. */
  readonly descriptorCrc?: number;
  /** Time and date of MS-DOS, in both headers. */
  readonly dosTime?: number;
  readonly dosDate?: number;
  /** The system and version of the program that made the entry. Default: Unix where there is a mode. */
  readonly madeBy?: number;
  /** The comment of the entry in the directory. */
  readonly comment?: string;
  /** Where the directory says the local header is. */
  readonly at?: number;
  /** Extra fields in the directory. */
  readonly extra?: Buffer;
  readonly localExtra?: Buffer;
  /** Both headers refer to the 64-bit field for the sizes. */
  readonly wideSizes?: boolean;
  /** External attributes beside the mode. */
  readonly attributes?: number;
  /** Bytes of no entry before the header. */
  readonly before?: Buffer;
  /** Bytes of no entry after the data. */
  readonly after?: Buffer;
}
export interface ZipLayout {
  readonly comment?: string;
  /** Bytes before the first entry. */
  readonly before?: Buffer;
  readonly beforeDirectory?: Buffer;
  readonly afterDirectory?: Buffer;
  /** The length of the directory includes the bytes after it. */
  readonly countsAfter?: boolean;
  /** The directory lists the entries in the other order. */
  readonly reversed?: boolean;
}

const UNIX = 3 << 8;
const DESCRIPTOR = 0x8;
/** A compressor for each of 65,536 empty entries would take seconds. */
const DEFLATED_NOTHING = deflateRawSync('');
const NOTHING = Buffer.alloc(0);
export const END_BYTES = 22;

/** A zip of these entries, deflated. */
export function craftZip(entries: readonly CraftedEntry[], layout: ZipLayout = {}): Buffer {
  const { comment = '', before = NOTHING, beforeDirectory = NOTHING, afterDirectory = NOTHING } = layout;
  const files: Buffer[] = [before];
  const directory: Buffer[] = [];
  let offset = before.length;
  for (const entry of entries) {
    const { local, central } = craftEntry(entry, offset + (entry.before?.length ?? 0));
    const parts = [entry.before ?? NOTHING, ...local, entry.after ?? NOTHING];
    files.push(...parts);
    directory.push(central);
    for (const part of parts) offset += part.length;
  }
  if (layout.reversed) directory.reverse();
  const size = directory.reduce((sum, one) => sum + one.length, 0);
  const end = Buffer.alloc(END_BYTES);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(Math.min(entries.length, 0xffff), 8);
  end.writeUInt16LE(Math.min(entries.length, 0xffff), 10);
  end.writeUInt32LE(size + (layout.countsAfter ? afterDirectory.length : 0), 12);
  end.writeUInt32LE(offset + beforeDirectory.length, 16);
  const text = Buffer.from(comment, 'latin1');
  end.writeUInt16LE(text.length, 20);
  return Buffer.concat([...files, beforeDirectory, ...directory, afterDirectory, end, text]);
}

/** Crafts a zip whose 64-bit records describe the entries. */
export function craftZip64(entries: readonly CraftedEntry[], count = entries.length): Buffer {
  const zip = craftZip(entries);
  const end = Buffer.from(zip.subarray(zip.length - END_BYTES));
  const record = Buffer.alloc(56);
  record.writeUInt32LE(0x06064b50, 0);
  record.writeBigUInt64LE(44n, 4);
  record.writeUInt16LE(45, 12);
  record.writeUInt16LE(45, 14);
  record.writeBigUInt64LE(BigInt(count), 24);
  record.writeBigUInt64LE(BigInt(count), 32);
  record.writeBigUInt64LE(BigInt(end.readUInt32LE(12)), 40);
  record.writeBigUInt64LE(BigInt(end.readUInt32LE(16)), 48);
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07064b50, 0);
  locator.writeBigUInt64LE(BigInt(zip.length - END_BYTES), 8);
  locator.writeUInt32LE(1, 16);
  end.fill(0xff, 8, 20);
  return Buffer.concat([zip.subarray(0, -END_BYTES), record, locator, end]);
}

/** The content stays a part of its own: it may be large, and `craftZip` copies it anyway. */
function craftEntry(entry: CraftedEntry, offset: number): { local: Buffer[]; central: Buffer } {
  const content = Buffer.from(entry.content);
  const packed = entry.packed ?? (content.length === 0 ? DEFLATED_NOTHING : deflateRawSync(content));
  const name = Buffer.from(entry.name);
  const localName = entry.localName === undefined ? name : Buffer.from(entry.localName);
  const sums = { crc: entry.crc ?? crc32(content), packed: packed.length, size: entry.size ?? content.length };
  const flags = (entry.flags ?? 0) | (entry.descriptor ? DESCRIPTOR : 0);
  const fields = (start: Buffer, at: number, told: typeof sums) => {
    start.writeUInt16LE(flags, at);
    start.writeUInt16LE(entry.method ?? 8, at + 2);
    start.writeUInt16LE(entry.dosTime ?? 0, at + 4);
    start.writeUInt16LE(entry.dosDate ?? 0, at + 6);
    start.writeUInt32LE(told.crc, at + 8);
    start.writeUInt32LE(entry.wideSizes ? 0xffffffff : told.packed, at + 12);
    start.writeUInt32LE(entry.wideSizes ? 0xffffffff : told.size, at + 16);
  };
  const header = Buffer.alloc(30);
  header.writeUInt32LE(0x04034b50, 0);
  fields(header, 6, entry.descriptor ? { crc: 0, packed: 0, size: 0 } : sums);
  header.writeUInt16LE(localName.length, 26);
  const { extra = NOTHING, localExtra = NOTHING } = entry;
  header.writeUInt16LE(localExtra.length, 28);
  const central = Buffer.alloc(46);
  central.writeUInt32LE(0x02014b50, 0);
  central.writeUInt16LE(entry.madeBy ?? (entry.mode === undefined ? 20 : UNIX | 20), 4);
  fields(central, 8, sums);
  central.writeUInt16LE(name.length, 28);
  central.writeUInt16LE(extra.length, 30);
  const comment = Buffer.from(entry.comment ?? '');
  central.writeUInt16LE(comment.length, 32);
  central.writeUInt32LE((((entry.mode ?? 0) << 16) | (entry.attributes ?? 0)) >>> 0, 38);
  central.writeUInt32LE(entry.at ?? offset, 42);
  return {
    local: [header, localName, localExtra, packed, craftDescriptor(entry, sums)],
    central: Buffer.concat([central, name, extra, comment]),
  };
}

function craftDescriptor(
  { descriptor = false, descriptorCrc }: CraftedEntry,
  { crc, packed, size }: { crc: number; packed: number; size: number },
): Buffer {
  if (!descriptor) return NOTHING;
  const kinds = String(descriptor).split(' ');
  const isWide = kinds.includes('wide');
  const sizes = Buffer.alloc(isWide ? 16 : 8);
  for (const [index, value] of [packed, size].entries())
    if (isWide) sizes.writeBigUInt64LE(BigInt(value), index * 8);
    else sizes.writeUInt32LE(value, index * 4);
  const sum = Buffer.alloc(4);
  sum.writeUInt32LE(descriptorCrc ?? crc);
  return Buffer.concat([kinds.includes('bare') ? NOTHING : Buffer.from('PK\x07\x08', 'latin1'), sum, sizes]);
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
