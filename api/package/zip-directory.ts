/** Reads the central directory of an untrusted zip and checks all that it says. */
import type { FileHandle } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import type { Problem } from '../../sdk/contract/errors.ts';
import { validatePath } from '../../sdk/contract/package-paths.ts';
import { LoopSlices } from '../../service/timing/loop-turns.ts';
import { invalidAt, invalidPackage } from './invalid-package.ts';
import { escapePath } from './package-files.ts';
import { parseExtraFields, readAt, widenValues } from './zip-bytes.ts';
import type { DirectoryPlace } from './zip-end-record.ts';

const CENTRAL = 0x02014b50;
const CENTRAL_BYTES = 46;
export const STORED = 0;
const DEFLATED = 8;
const ENCRYPTED = 0x1;
const STRONGLY_ENCRYPTED = 0x40;
const MASKED = 0x2000;
export const HAS_DESCRIPTOR = 0x8;
/** Hints about the compression, which some packers write in one of the two headers only. */
export const COMPRESSION_HINTS = 0x6;
const UTF8 = 0x800;
const ALLOWED_FLAGS = COMPRESSION_HINTS | HAS_DESCRIPTOR | UTF8;
const FILE_TYPE = 0o170000;
const REGULAR = 0o100000;
const DIRECTORY = 0o040000;
const DOS_DIRECTORY = 0x10;
/** Version and checksum before the name in the field with the name in UTF-8. Bytes. */
const UNICODE_PATH_HEAD_BYTES = 5;

/** An entry as the directory describes it. */
export interface CentralEntry {
  /** Without the `/` at the end of a folder’s name. */
  readonly name: string;
  readonly rawName: Buffer;
  readonly isFolder: boolean;
  readonly flags: number;
  readonly method: number;
  readonly crc32: number;
  readonly compressedBytes: number;
  readonly bytes: number;
  /** Position of the local header. */
  readonly headerStart: number;
}

/**
 * @param loopKey whose turns of the event loop it uses
 * @throws Problem `invalid_package` that names the entry
 */
export async function readDirectory(file: FileHandle, place: DirectoryPlace, loopKey: string): Promise<CentralEntry[]> {
  const bytes = await readAt(file, place.start, place.end - place.start);
  const entries: CentralEntry[] = [];
  const slices = new LoopSlices(loopKey);
  let at = 0;
  while (entries.length < place.entries) {
    await slices.pauseWhenOver();
    const head = bytes.subarray(at, at + CENTRAL_BYTES);
    if (head.length < CENTRAL_BYTES || head.readUInt32LE(0) !== CENTRAL)
      throw invalidPackage(`The directory of the zip holds ${entries.length} entries; it counts ${place.entries}.`);
    const lengths = [head.readUInt16LE(28), head.readUInt16LE(30), head.readUInt16LE(32)] as const;
    const end = at + CENTRAL_BYTES + lengths[0] + lengths[1] + lengths[2];
    if (end > bytes.length) throw invalidPackage('The directory of the zip ends in the middle of an entry.');
    const nameEnd = at + CENTRAL_BYTES + lengths[0];
    entries.push(
      parseEntry(head, bytes.subarray(at + CENTRAL_BYTES, nameEnd), bytes.subarray(nameEnd, nameEnd + lengths[1])),
    );
    at = end;
  }
  if (at !== bytes.length) throw invalidPackage('The directory of the zip holds more than the entries it counts.');
  return entries;
}

function parseEntry(head: Buffer, rawName: Buffer, extra: Buffer): CentralEntry {
  const fullName = decodeName(rawName);
  const isFolder = fullName.endsWith('/');
  const name = isFolder ? fullName.slice(0, -1) : fullName;
  const nameFault = validatePath(name);
  if (nameFault) throw invalidEntry(name, nameFault);
  const wide = readWideField(name, rawName, extra);
  const values = [head.readUInt32LE(24), head.readUInt32LE(20), head.readUInt32LE(42)];
  const [bytes = 0, compressedBytes = 0, headerStart = 0] = widenValues(values, wide) ?? [Number.NaN];
  if (Number.isNaN(bytes)) throw invalidEntry(name, 'has 64-bit sizes that cannot be read');
  const entry = {
    name,
    rawName,
    isFolder,
    flags: head.readUInt16LE(8),
    method: head.readUInt16LE(10),
    crc32: head.readUInt32LE(16),
    compressedBytes,
    bytes,
    headerStart,
  };
  const fault =
    findKindFault(entry, head.readUInt32LE(38)) ?? (head.readUInt16LE(34) === 0 ? null : 'is on another disk');
  if (fault) throw invalidEntry(name, fault);
  return entry;
}

function findKindFault(entry: CentralEntry, attributes: number): string | null {
  const { isFolder, flags, method, bytes, compressedBytes } = entry;
  const type = (attributes >>> 16) & FILE_TYPE;
  if (type !== 0 && type !== REGULAR && type !== DIRECTORY) return 'is a link or a device; only files are allowed';
  if ((flags & (ENCRYPTED | STRONGLY_ENCRYPTED | MASKED)) !== 0) return 'is encrypted';
  if ((flags & ~ALLOWED_FLAGS) !== 0) return 'uses a feature of the zip format that is not allowed';
  if (method !== STORED && method !== DEFLATED) return 'is packed with another method than stored or deflate';
  if (method === STORED && bytes !== compressedBytes) return 'is stored, but has two different sizes';
  if (isFolder && bytes > 0) return 'is a folder with content';
  if (!isFolder && (type === DIRECTORY || (attributes & DOS_DIRECTORY) !== 0))
    return 'is a folder without a / at the end of its name';
  if (isFolder && type === REGULAR) return 'is a folder by its name and a file by its mode';
  return null;
}

/** Names are UTF-8 even without the flag, because common packers omit it. */
function decodeName(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw invalidEntry(
      bytes.toString('latin1'),
      'has a name that is not UTF-8. Rename it, or zip it with another tool',
    );
  }
}

/**
 * @returns the content of the field with 64-bit sizes; null: the header has none
 * @throws Problem `invalid_package` for fields that cannot be read, or that give the entry another name
 */
export function readWideField(name: string, rawName: Buffer, extra: Buffer): Buffer | null {
  const fields = parseExtraFields(extra);
  if (!fields) throw invalidEntry(name, 'has extra fields that cannot be read, or that are there twice');
  if (fields.unicodePath && !isSameName(fields.unicodePath, rawName))
    throw invalidEntry(name, 'has a second name in its Unicode Path field');
  return fields.wide;
}

/** A reader uses the field only if its checksum fits, so a field that does not fit has no effect. */
function isSameName(unicodePath: Buffer, rawName: Buffer): boolean {
  if (unicodePath.length < UNICODE_PATH_HEAD_BYTES || unicodePath.readUInt8(0) !== 1) return false;
  return (
    unicodePath.readUInt32LE(1) === crc32(rawName) && unicodePath.subarray(UNICODE_PATH_HEAD_BYTES).equals(rawName)
  );
}

export const invalidEntry = (name: string, fault: string): Problem =>
  invalidAt({ path: escapePath(name), message: `The entry ${fault}.` });
