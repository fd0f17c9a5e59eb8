/** The fields of every record of a zip, so that each can be given a false value. */

interface Layout {
  readonly [field: string]: number;
}
export interface ZipField {
  /** `central: flags` */
  readonly label: string;
  readonly start: number;
  readonly bytes: number;
}

const LOCAL: Layout = {
  signature: 4,
  version: 2,
  flags: 2,
  method: 2,
  time: 2,
  date: 2,
  crc: 4,
  compressed: 4,
  size: 4,
};
const LOCAL_LENGTHS: Layout = { 'name length': 2, 'extra length': 2 };
const CENTRAL: Layout = { signature: 4, 'made by': 2, ...without(LOCAL, 'signature'), ...LOCAL_LENGTHS };
const CENTRAL_REST: Layout = { 'comment length': 2, disk: 2, internal: 2, external: 4, offset: 4 };
const END: Layout = { signature: 4, disk: 2, 'directory disk': 2, 'disk entries': 2, entries: 2, length: 4, offset: 4 };
const END_64: Layout = { signature: 4, size: 8, 'made by': 2, version: 2, disk: 4, 'directory disk': 4 };
const END_64_REST: Layout = { 'disk entries': 8, entries: 8, length: 8, offset: 8 };
const LOCATOR: Layout = { signature: 4, disk: 4, offset: 8, disks: 4 };
const DESCRIPTOR: Layout = { signature: 4, crc: 4, compressed: 4, size: 4 };
const RECORDS = [
  ['local', 'PK\x03\x04', { ...LOCAL, ...LOCAL_LENGTHS }],
  ['central', 'PK\x01\x02', { ...CENTRAL, ...CENTRAL_REST }],
  ['end', 'PK\x05\x06', { ...END, 'comment length': 2 }],
  ['end 64', 'PK\x06\x06', { ...END_64, ...END_64_REST }],
  ['locator', 'PK\x06\x07', LOCATOR],
  ['descriptor', 'PK\x07\x08', DESCRIPTOR],
] as const;

function without(layout: Layout, name: string): Layout {
  return Object.fromEntries(Object.entries(layout).filter(([field]) => field !== name));
}

/** The fields of the last record of each kind. */
export function listFields(zip: Buffer): ZipField[] {
  return RECORDS.flatMap(([record, signature, layout]) => {
    let start = zip.lastIndexOf(Buffer.from(signature, 'latin1'));
    if (start < 0) return [];
    return Object.entries(layout).map(([field, bytes]) => {
      const found = { label: `${record}: ${field}`, start, bytes };
      start += bytes;
      return found;
    });
  });
}

export function readField(zip: Buffer, { start, bytes }: ZipField): bigint {
  return bytes === 8 ? zip.readBigUInt64LE(start) : BigInt(zip.readUIntLE(start, bytes));
}

/** A copy of the zip with another value in the field. */
export function withField(zip: Buffer, { start, bytes }: ZipField, value: bigint): Buffer {
  const copy = Buffer.from(zip);
  const wrapped = BigInt.asUintN(bytes * 8, value);
  if (bytes === 8) copy.writeBigUInt64LE(wrapped, start);
  else copy.writeUIntLE(Number(wrapped), start, bytes);
  return copy;
}
