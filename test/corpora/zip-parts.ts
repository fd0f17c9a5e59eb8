/** The parts of the corpus's zips: the package that every case is about, changes of it, and extra fields. */
import { crc32 } from 'node:zlib';
import { INDEX, README } from '../api/package/packages.ts';
import { type CraftedEntry, craftZip, type ZipLayout } from '../api/package/zip-crafting.ts';

export interface ZipCase {
  /** Cases with the same label make one row of the table. */
  readonly label: string;
  readonly name: string;
  readonly zip: Buffer;
}

export const asset: CraftedEntry = {
  name: 'assets/a.txt',
  content: 'An asset that is longer than its deflated form: aaaaaaaaaaaaaaa',
};
/** The package that every case is about. */
export const entries: readonly CraftedEntry[] = [
  { name: 'readme.md', content: README },
  { name: 'index.ts', content: INDEX },
  asset,
];
export const plain = craftZip(entries);
export const one = (label: string, name: string, zip: Buffer): ZipCase => ({ label, name, zip });
export const withAsset = (change: Partial<CraftedEntry>, layout?: ZipLayout): Buffer =>
  craftZip([...entries.slice(0, 2), { ...asset, ...change }], layout);
export const beside = (...more: CraftedEntry[]): Buffer => craftZip([...entries, ...more]);

export function extraField(id: number, data: Buffer): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt16LE(id, 0);
  head.writeUInt16LE(data.length, 2);
  return Buffer.concat([head, data]);
}
export function unicodePath(name: string, crcOf: string | Buffer = asset.name): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(1, 0);
  head.writeUInt32LE(crc32(crcOf), 1);
  return extraField(0x7075, Buffer.concat([head, Buffer.from(name)]));
}
export const wide = (...values: number[]): Buffer => {
  const data = Buffer.alloc(values.length * 8);
  for (const [at, value] of values.entries()) data.writeBigUInt64LE(BigInt(value), at * 8);
  return extraField(0x0001, data);
};
