/** Compares what a zip says before an entry’s data with its directory. Readers differ in which of the two they use. */
import type { FileHandle } from 'node:fs/promises';
import { readAt, WIDE_BYTES, WIDE_VALUE } from './zip-bytes.ts';
import { type CentralEntry, COMPRESSION_HINTS, HAS_DESCRIPTOR, invalidEntry, readWideField } from './zip-directory.ts';

const LOCAL = 0x04034b50;
const LOCAL_BYTES = 30;
const DESCRIPTOR = 0x08074b50;
const SECOND_HEADER = 'has another name, method, size or checksum in its own header than in the zip’s directory';

/** An entry whose two headers agree. */
export interface Entry extends CentralEntry {
  readonly dataStart: number;
}

/**
 * Locates the data of all entries, which must fill the file from its start to the directory without gaps.
 *
 * @param directoryStart position of the central directory
 * @returns the entries in the order of the directory
 * @throws Problem `invalid_package` that names the entry
 */
export async function locateEntries(
  file: FileHandle,
  entries: readonly CentralEntry[],
  directoryStart: number,
): Promise<Entry[]> {
  const byStart = [...entries].sort((a, b) => a.headerStart - b.headerStart);
  const dataStarts = new Map<CentralEntry, number>();
  let end = 0;
  for (const [index, entry] of byStart.entries()) {
    if (entry.headerStart < end) throw invalidEntry(entry.name, 'overlaps the entry before it');
    if (entry.headerStart > end) throw invalidEntry(entry.name, 'comes after bytes that belong to no entry');
    end = byStart[index + 1]?.headerStart ?? directoryStart;
    dataStarts.set(entry, await locateData(file, entry, end));
  }
  return entries.map((entry) => ({ ...entry, dataStart: dataStarts.get(entry) ?? 0 }));
}

/** @param end position of the next entry, or of the directory */
async function locateData(file: FileHandle, entry: CentralEntry, end: number): Promise<number> {
  const { name, headerStart, rawName, flags } = entry;
  if (headerStart + LOCAL_BYTES > end) throw invalidEntry(name, 'overlaps what comes after it');
  const head = await readAt(file, headerStart, LOCAL_BYTES);
  if (head.readUInt32LE(0) !== LOCAL) throw invalidEntry(name, 'has no header where the zip’s directory says');
  const nameStart = headerStart + LOCAL_BYTES;
  const nameBytes = head.readUInt16LE(26);
  const dataStart = nameStart + nameBytes + head.readUInt16LE(28);
  const dataEnd = dataStart + entry.compressedBytes;
  if (dataEnd > end) throw invalidEntry(name, 'overlaps what comes after it');
  const nameAndExtra = await readAt(file, nameStart, dataStart - nameStart);
  const [localName, extra] = [nameAndExtra.subarray(0, nameBytes), nameAndExtra.subarray(nameBytes)];
  const isSame =
    localName.equals(rawName) &&
    head.readUInt16LE(8) === entry.method &&
    ((head.readUInt16LE(6) ^ flags) & ~COMPRESSION_HINTS) === 0;
  if (!isSame) throw invalidEntry(name, SECOND_HEADER);
  const wide = readWideField(name, rawName, extra);
  checkSizes(entry, head, wide);
  const rest = await readAt(file, dataEnd, Math.min(end - dataEnd, 32));
  const isLeftOver = (flags & HAS_DESCRIPTOR) === 0 ? rest.length > 0 : !isDescriptor(entry, rest, wide !== null);
  if (isLeftOver) throw invalidEntry(name, 'is followed by bytes that belong to no entry');
  return dataStart;
}

/** With a descriptor behind the data, the header may leave checksum and sizes at 0. */
function checkSizes(entry: CentralEntry, head: Buffer, wide: Buffer | null): void {
  const narrowSizes = [head.readUInt32LE(22), head.readUInt32LE(18)];
  // Here the field always holds both sizes, also where packers reserve it before they know whether they need it.
  const isWhole = wide === null || wide.length === 2 * WIDE_BYTES;
  const sizes = isWhole
    ? narrowSizes.map((value, at) =>
        value === WIDE_VALUE && wide ? Number(wide.readBigUInt64LE(at * WIDE_BYTES)) : value,
      )
    : null;
  const mayBeZero = (entry.flags & HAS_DESCRIPTOR) !== 0;
  const fits = (value: number | undefined, real: number) => value === real || (mayBeZero && value === 0);
  const isSame =
    sizes !== null &&
    fits(sizes[0], entry.bytes) &&
    fits(sizes[1], entry.compressedBytes) &&
    fits(head.readUInt32LE(14), entry.crc32);
  if (!isSame) throw invalidEntry(entry.name, SECOND_HEADER);
}

/** Checksum and sizes behind the data, with or without a signature. */
function isDescriptor(entry: CentralEntry, rest: Buffer, isWide: boolean): boolean {
  const sizeBytes = isWide ? WIDE_BYTES : 4;
  const plain = 4 + 2 * sizeBytes;
  if (rest.length !== plain && rest.length !== plain + 4) return false;
  const at = rest.length - plain;
  if (at > 0 && rest.readUInt32LE(0) !== DESCRIPTOR) return false;
  const readSize = (from: number) => (isWide ? Number(rest.readBigUInt64LE(from)) : rest.readUInt32LE(from));
  return (
    rest.readUInt32LE(at) === entry.crc32 &&
    readSize(at + 4) === entry.compressedBytes &&
    readSize(at + 4 + sizeBytes) === entry.bytes
  );
}
