/**
 * Reads an untrusted zip. yauzl reads the structure; this file checks what yauzl does not: bombs, overlaps, duplicates,
 * links, CRC, and names that differ between the two directories of the file.
 */
import { open } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import * as yauzl from 'yauzl';
import type { Staging } from '../../db/files/blobs.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { invalidAt, invalidPackage } from './invalid-package.ts';
import { escapePath, FILES_MAX, type PackageFile } from './package-files.ts';
import { findClash, findWrapperFolder, isSystemFile, validatePath } from './paths.ts';
import { locateEndRecord, validateZipEnd } from './zip-end-record.ts';

/** Maximum unpacked size of a package. Bytes. */
const UNPACKED_MAX_BYTES = 1024 * MIB;
/** Maximum compression ratio of a file. Deflate reaches 1032; ordinary packages stay far below. */
const RATIO_MAX = 200;
/** The ratio is not checked below this size: short files of blanks compress well and are harmless. Unpacked bytes. */
const RATIO_FLOOR_BYTES = MIB;
const METHODS: readonly number[] = [0, 8];
const ENCRYPTED = 0x1;
const FILE_TYPE = 0o170000;
const REGULAR = 0o100000;
const DIRECTORY = 0o040000;
/** Fixed size of a local header and of a central directory entry. Bytes. */
const LOCAL_HEADER_BYTES = 30;

/** The needed fields of an entry; yauzl's own objects may contain 64 KiB of extra fields each. */
interface Entry {
  readonly name: string;
  readonly isDirectory: boolean;
  readonly method: number;
  readonly crc32: number;
  readonly compressedSize: number;
  readonly uncompressedSize: number;
  readonly headerStart: number;
  readonly dataStart: number;
}

/**
 * Unpacks a zip into a staging directory, without its wrapper folder and system files.
 *
 * @param path of the uploaded file
 * @throws Problem `invalid_package` that names the entry
 */
export async function readZip(path: string, staging: Staging): Promise<PackageFile[]> {
  const file = await open(path, 'r');
  try {
    const zip = await yauzl.fromFdPromise(file.fd, {
      autoClose: false,
      decodeStrings: false,
      validateEntrySizes: true,
    });
    const { size } = await file.stat();
    const entries = await readDirectory(zip, size);
    // yauzl's types declare the cursor as a boolean; it is the offset of the next entry.
    const fault = await validateZipEnd(
      file,
      zip.readEntryCursor as unknown as number,
      locateEndRecord(size, zip.comment),
    );
    if (fault) throw invalidPackage(fault);
    return await unpack(zip, entries, staging);
  } catch (error) {
    throw toProblem(error);
  } finally {
    await file.close();
  }
}

/** Errors of yauzl or zlib are the zip's fault; errors of the disk or of this program are not. */
function toProblem(error: unknown): unknown {
  if (error instanceof Problem || !(error instanceof Error)) return error;
  if ('syscall' in error || error instanceof TypeError) return error;
  return invalidPackage(`The zip cannot be read: ${error.message}`, [{ message: error.message }]);
}

async function readDirectory(zip: yauzl.ZipFile, archiveBytes: number): Promise<Entry[]> {
  if (zip.entryCount > FILES_MAX) {
    throw invalidPackage(`The zip has ${zip.entryCount} entries; the maximum is ${FILES_MAX}.`);
  }
  const entries: Entry[] = [];
  let total = 0;
  for await (const raw of zip.eachEntry()) {
    const entry = await readEntry(zip, raw as unknown as RawEntry);
    total += entry.uncompressedSize;
    if (total > UNPACKED_MAX_BYTES) {
      throw invalidEntry(entry.name, `takes the package over ${UNPACKED_MAX_BYTES} bytes unpacked`);
    }
    entries.push(entry);
  }
  if (total > RATIO_FLOOR_BYTES && total > archiveBytes * RATIO_MAX) {
    throw invalidPackage(`The zip would unpack to ${total} bytes, over ${RATIO_MAX} times its size.`);
  }
  requireNoOverlaps(entries);
  return entries;
}

/** With `decodeStrings: false`, yauzl returns names as bytes, which its types do not declare. */
type RawEntry = Omit<yauzl.Entry, 'fileName'> & { readonly fileName: Buffer };

async function readEntry(zip: yauzl.ZipFile, raw: RawEntry): Promise<Entry> {
  const fullName = decodeName(raw.fileName);
  const isDirectory = fullName.endsWith('/');
  const name = isDirectory ? fullName.slice(0, -1) : fullName;
  const fault = validatePath(name) ?? validateKind(raw, isDirectory);
  if (fault) throw invalidEntry(name, fault);
  const { uncompressedSize: size, compressedSize } = raw;
  if (size > RATIO_FLOOR_BYTES && size > compressedSize * RATIO_MAX) {
    throw invalidEntry(name, `would unpack to over ${RATIO_MAX} times its size`);
  }
  const local = await zip.readLocalFileHeaderPromise(raw as unknown as yauzl.Entry).catch((error: Error) => {
    throw toProblem(error) === error ? error : invalidEntry(name, `cannot be read: ${error.message}`);
  });
  if (!raw.fileName.equals(local.fileName) || local.compressionMethod !== raw.compressionMethod) {
    throw invalidEntry(name, 'has another name or method in its own header than in the zip’s directory');
  }
  if ((local.generalPurposeBitFlag & ENCRYPTED) !== 0) throw invalidEntry(name, 'is encrypted');
  return {
    name,
    isDirectory,
    method: raw.compressionMethod,
    crc32: raw.crc32,
    compressedSize,
    uncompressedSize: size,
    headerStart: raw.relativeOffsetOfLocalHeader,
    dataStart: local.fileDataStart,
  };
}

function validateKind(raw: RawEntry, isDirectory: boolean): string | null {
  const type = (raw.externalFileAttributes >>> 16) & FILE_TYPE;
  if (type !== 0 && type !== REGULAR && type !== DIRECTORY) return 'is a link or a device; only files are allowed';
  if ((raw.generalPurposeBitFlag & ENCRYPTED) !== 0) return 'is encrypted';
  if (!METHODS.includes(raw.compressionMethod)) return 'is packed with another method than stored or deflate';
  if (isDirectory && raw.uncompressedSize > 0) return 'is a folder with content';
  if (!isDirectory && type === DIRECTORY) return 'is a folder without a / at the end of its name';
  return null;
}

/** Names are decoded as UTF-8 even without the flag, because common packers omit it. */
function decodeName(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw invalidEntry(bytes.toString('latin1'), 'has a name that is not UTF-8');
  }
}

/** Overlapping entries can turn a small file into a huge one. */
function requireNoOverlaps(entries: readonly Entry[]): void {
  const byStart = [...entries].sort((a, b) => a.headerStart - b.headerStart);
  let end = 0;
  for (const entry of byStart) {
    if (entry.headerStart < end) throw invalidEntry(entry.name, 'overlaps the entry before it');
    end = Math.max(entry.dataStart, entry.headerStart + LOCAL_HEADER_BYTES) + entry.compressedSize;
  }
}

async function unpack(zip: yauzl.ZipFile, entries: readonly Entry[], staging: Staging): Promise<PackageFile[]> {
  const kept = entries.filter((entry) => !isSystemFile(entry.name));
  const wrapper = findWrapperFolder(kept.map((entry) => (entry.isDirectory ? `${entry.name}/` : entry.name)));
  const sources = kept.filter((entry) => !entry.isDirectory);
  const clash = findClash(sources.map((entry) => entry.name));
  if (clash) throw invalidEntry(clash.path, clash.fault);
  const files: PackageFile[] = [];
  for (const entry of sources) {
    const staged = await staging.add(readContent(zip, entry));
    files.push({ path: entry.name.slice(wrapper.length), ...staged });
  }
  return files;
}

async function* readContent(zip: yauzl.ZipFile, entry: Entry): AsyncGenerator<Uint8Array> {
  let sum = 0;
  let size = 0;
  try {
    const stream = await openContent(zip, entry);
    for await (const chunk of stream) {
      sum = crc32(chunk, sum);
      size += chunk.byteLength;
      yield chunk;
    }
  } catch (error) {
    if (toProblem(error) === error) throw error;
    throw invalidEntry(entry.name, `cannot be unpacked: ${(error as Error).message}`);
  }
  if (size !== entry.uncompressedSize) throw invalidEntry(entry.name, 'unpacks to another size than the zip says');
  if (sum !== entry.crc32) throw invalidEntry(entry.name, 'is damaged: its checksum does not match');
}

/** Uses the callback form, because the promise form of yauzl 3.4 calls a different function. */
function openContent(zip: yauzl.ZipFile, entry: Entry): Promise<AsyncIterable<Uint8Array>> {
  const { dataStart, compressedSize, uncompressedSize } = entry;
  return new Promise((resolve, reject) => {
    zip.openReadStreamLowLevel(
      dataStart,
      compressedSize,
      0,
      compressedSize,
      entry.method !== 0,
      uncompressedSize,
      (error, stream) => (error ? reject(error) : resolve(stream)),
    );
  });
}

const invalidEntry = (name: string, fault: string): Problem =>
  invalidAt({ path: escapePath(name), message: `The entry ${fault}.` });
