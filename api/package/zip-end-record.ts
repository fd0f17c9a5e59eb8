/** Finds the central directory of a zip. All end records must agree, because readers differ in which of them they use. */
import type { FileHandle } from 'node:fs/promises';
import { invalidPackage } from './invalid-package.ts';
import { readAt } from './zip-bytes.ts';

const END_BYTES = 22;
const COMMENT_MAX_BYTES = 0xffff;
const END_64 = 0x06064b50;
const END_64_BYTES = 56;
/** Its length field does not count the signature and itself. Bytes. */
const END_64_HEAD_BYTES = 12;
const LOCATOR = 0x07064b50;
const LOCATOR_BYTES = 20;
/** Maximum length of the central directory: 10,000 entries with the longest allowed paths take less. Bytes. */
const DIRECTORY_MAX_BYTES = 16 * 1024 * 1024;
const END_SIGNATURE = Buffer.from('PK\x05\x06', 'latin1');

export interface DirectoryPlace {
  readonly entries: number;
  readonly start: number;
  readonly end: number;
}
/** The fields that both kinds of end record have. */
interface EndFields {
  readonly disk: number;
  readonly directoryDisk: number;
  readonly diskEntries: number;
  readonly entries: number;
  readonly directoryBytes: number;
  readonly directoryStart: number;
}
type FieldName = keyof EndFields;
/** These values mean: see the 64-bit record. */
const SENTINELS: Readonly<Record<FieldName, number>> = {
  disk: 0xffff,
  directoryDisk: 0xffff,
  diskEntries: 0xffff,
  entries: 0xffff,
  directoryBytes: 0xffffffff,
  directoryStart: 0xffffffff,
};
const FIELD_NAMES = Object.keys(SENTINELS) as FieldName[];

/** @throws Problem `invalid_package` when the file is not one whole zip, or its end records disagree */
export async function findDirectory(file: FileHandle, size: number): Promise<DirectoryPlace> {
  const { fields, at } = await readEnd(file, size);
  const wide = await readEnd64(file, at);
  const needs64 = FIELD_NAMES.some((name) => fields[name] === SENTINELS[name]);
  if (needs64 && !wide) throw invalidPackage('The zip cannot be read: its 64-bit end record is missing.');
  const effective = wide?.fields ?? fields;
  if (FIELD_NAMES.some((name) => fields[name] !== SENTINELS[name] && fields[name] !== effective[name]))
    throw invalidPackage('The two end records of the zip disagree, so readers would open different packages.');
  if (effective.diskEntries !== effective.entries)
    throw invalidPackage('The end record of the zip counts its entries twice, with different results.');
  if (effective.disk !== 0 || effective.directoryDisk !== 0)
    throw invalidPackage('The zip is one of several disks. Make a single file.');
  const end = wide?.at ?? at;
  if (effective.directoryStart + effective.directoryBytes !== end)
    throw invalidPackage(
      'The directory of the zip is not where its end record says: bytes were added before, in or after it.',
    );
  if (effective.directoryBytes > DIRECTORY_MAX_BYTES)
    throw invalidPackage(`The directory of the zip is larger than ${DIRECTORY_MAX_BYTES} bytes.`);
  return { entries: effective.entries, start: effective.directoryStart, end };
}

async function readEnd(file: FileHandle, size: number): Promise<{ fields: EndFields; at: number }> {
  const length = Math.min(size, END_BYTES + COMMENT_MAX_BYTES);
  const tail = await readAt(file, size - length, length);
  const found = tail.lastIndexOf(END_SIGNATURE);
  if (found < 0 || tail.length - found < END_BYTES)
    throw invalidPackage('The file is not a zip, or not a whole one: it has no end record.');
  const record = tail.subarray(found);
  // The last signature is the record, so a second one in the comment is refused here, too.
  if (record.readUInt16LE(20) !== record.length - END_BYTES)
    throw invalidPackage('The zip has bytes after its end record, or another end record in its comment.');
  const fields = {
    disk: record.readUInt16LE(4),
    directoryDisk: record.readUInt16LE(6),
    diskEntries: record.readUInt16LE(8),
    entries: record.readUInt16LE(10),
    directoryBytes: record.readUInt32LE(12),
    directoryStart: record.readUInt32LE(16),
  };
  return { fields, at: size - record.length };
}

/** Null: there is no locator before the end record. */
async function readEnd64(file: FileHandle, end: number): Promise<{ fields: EndFields; at: number } | null> {
  if (end < LOCATOR_BYTES) return null;
  const locator = await readAt(file, end - LOCATOR_BYTES, LOCATOR_BYTES);
  if (locator.readUInt32LE(0) !== LOCATOR) return null;
  const at = end - LOCATOR_BYTES - END_64_BYTES;
  const record = at < 0 ? null : await readAt(file, at, END_64_BYTES);
  const isWhole =
    record?.readUInt32LE(0) === END_64 &&
    Number(locator.readBigUInt64LE(8)) === at &&
    record.readBigUInt64LE(4) === BigInt(END_64_BYTES - END_64_HEAD_BYTES);
  if (!record || !isWhole)
    throw invalidPackage('The zip cannot be read: its 64-bit end record is not where its locator says.');
  if (locator.readUInt32LE(4) !== 0 || locator.readUInt32LE(16) > 1)
    throw invalidPackage('The zip is one of several disks. Make a single file.');
  const fields = {
    disk: record.readUInt32LE(16),
    directoryDisk: record.readUInt32LE(20),
    diskEntries: Number(record.readBigUInt64LE(24)),
    entries: Number(record.readBigUInt64LE(32)),
    directoryBytes: Number(record.readBigUInt64LE(40)),
    directoryStart: Number(record.readBigUInt64LE(48)),
  };
  return { fields, at };
}
