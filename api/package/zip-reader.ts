/**
 * Reads a zip that a stranger made. yauzl reads the structure; everything it calls out of scope is checked here:
 * bombs, overlaps, duplicates, links, CRC, and names that differ between the two directories of the file.
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
import { endOf, validateZipEnd } from './zip-end-record.ts';

/** All files of a package together, unpacked. Bytes. */
const UNPACKED_MAX_BYTES = 1024 * MIB;
/** Deflate reaches 1032; honest packages stay far below. */
const RATIO_MAX = 200;
/** Below this a ratio says nothing: a short file of blanks packs well and harms nobody. Unpacked bytes. */
const RATIO_FLOOR_BYTES = MIB;
const METHODS: readonly number[] = [0, 8];
const ENCRYPTED = 0x1;
const FILE_TYPE = 0o170000;
const REGULAR = 0o100000;
const DIRECTORY = 0o040000;
/** Fixed part of a local header and of an entry of the central directory. Bytes. */
const LOCAL_HEADER_BYTES = 30;

/** What is kept of an entry: yauzl's own objects may hold 64 KiB of extra fields each. */
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
 * Unpacks a zip into a staging directory, wrapper folder and litter removed.
 *
 * @param path of the uploaded file
 * @throws Problem `invalid_package`, naming the entry
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
    // Its types call the cursor a flag; it is where the next entry would begin.
    const fault = await validateZipEnd(file, zip.readEntryCursor as unknown as number, endOf(size, zip.comment));
    if (fault) throw invalidPackage(fault);
    return await unpack(zip, entries, staging);
  } catch (error) {
    throw asProblem(error);
  } finally {
    await file.close();
  }
}

/** An error of yauzl or zlib is the zip's fault; one of the disk, or a mistake in this program, is ours. */
function asProblem(error: unknown): unknown {
  if (error instanceof Problem || !(error instanceof Error)) return error;
  if ('syscall' in error || error instanceof TypeError) return error;
  return invalidPackage(`The zip cannot be read: ${error.message}`, [{ message: error.message }]);
}

async function readDirectory(zip: yauzl.ZipFile, archiveBytes: number): Promise<Entry[]> {
  if (zip.entryCount > FILES_MAX) {
    throw invalidPackage(`The zip has ${zip.entryCount} entries; ${FILES_MAX} is the most.`);
  }
  const entries: Entry[] = [];
  let total = 0;
  for await (const raw of zip.eachEntry()) {
    const entry = await readEntry(zip, raw as unknown as RawEntry);
    total += entry.uncompressedSize;
    if (total > UNPACKED_MAX_BYTES) {
      throw refuse(entry.name, `takes the package over ${UNPACKED_MAX_BYTES} bytes unpacked`);
    }
    entries.push(entry);
  }
  if (total > RATIO_FLOOR_BYTES && total > archiveBytes * RATIO_MAX) {
    throw invalidPackage(`The zip would unpack to ${total} bytes, over ${RATIO_MAX} times its size.`);
  }
  refuseOverlaps(entries);
  return entries;
}

/** With `decodeStrings: false` yauzl hands names over as bytes, which its types do not say. */
type RawEntry = Omit<yauzl.Entry, 'fileName'> & { readonly fileName: Buffer };

async function readEntry(zip: yauzl.ZipFile, raw: RawEntry): Promise<Entry> {
  const fullName = decodeName(raw.fileName);
  const isDirectory = fullName.endsWith('/');
  const name = isDirectory ? fullName.slice(0, -1) : fullName;
  const fault = validatePath(name) ?? kindFault(raw, isDirectory);
  if (fault) throw refuse(name, fault);
  const { uncompressedSize: size, compressedSize } = raw;
  if (size > RATIO_FLOOR_BYTES && size > compressedSize * RATIO_MAX) {
    throw refuse(name, `would unpack to over ${RATIO_MAX} times its size`);
  }
  const local = await zip.readLocalFileHeaderPromise(raw as unknown as yauzl.Entry).catch((error: Error) => {
    throw asProblem(error) === error ? error : refuse(name, `cannot be read: ${error.message}`);
  });
  if (!raw.fileName.equals(local.fileName) || local.compressionMethod !== raw.compressionMethod) {
    throw refuse(name, 'has another name or method in its own header than in the zip’s directory');
  }
  if ((local.generalPurposeBitFlag & ENCRYPTED) !== 0) throw refuse(name, 'is encrypted');
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

function kindFault(raw: RawEntry, isDirectory: boolean): string | null {
  const type = (raw.externalFileAttributes >>> 16) & FILE_TYPE;
  if (type !== 0 && type !== REGULAR && type !== DIRECTORY) return 'is a link or a device; only files are allowed';
  if ((raw.generalPurposeBitFlag & ENCRYPTED) !== 0) return 'is encrypted';
  if (!METHODS.includes(raw.compressionMethod)) return 'is packed with another method than stored or deflate';
  if (isDirectory && raw.uncompressedSize > 0) return 'is a folder with content';
  if (!isDirectory && type === DIRECTORY) return 'is a folder without a / at the end of its name';
  return null;
}

/** Names are UTF-8, whatever the flag says: common packers write it without the flag, and no other table is guessed. */
function decodeName(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw refuse(bytes.toString('latin1'), 'has a name that is not UTF-8');
  }
}

/** Entries that share bytes are how a small file becomes a huge one. */
function refuseOverlaps(entries: readonly Entry[]): void {
  const byStart = [...entries].sort((a, b) => a.headerStart - b.headerStart);
  let end = 0;
  for (const entry of byStart) {
    if (entry.headerStart < end) throw refuse(entry.name, 'overlaps the entry before it');
    end = Math.max(entry.dataStart, entry.headerStart + LOCAL_HEADER_BYTES) + entry.compressedSize;
  }
}

async function unpack(zip: yauzl.ZipFile, entries: readonly Entry[], staging: Staging): Promise<PackageFile[]> {
  const kept = entries.filter((entry) => !isSystemFile(entry.name));
  const wrapper = findWrapperFolder(kept.map((entry) => (entry.isDirectory ? `${entry.name}/` : entry.name)));
  const sources = kept.filter((entry) => !entry.isDirectory);
  const clash = findClash(sources.map((entry) => entry.name));
  if (clash) throw refuse(clash.path, clash.fault);
  const files: PackageFile[] = [];
  for (const entry of sources) {
    const staged = await staging.add(content(zip, entry));
    files.push({ path: entry.name.slice(wrapper.length), ...staged });
  }
  return files;
}

async function* content(zip: yauzl.ZipFile, entry: Entry): AsyncGenerator<Uint8Array> {
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
    if (asProblem(error) === error) throw error;
    throw refuse(entry.name, `cannot be unpacked: ${(error as Error).message}`);
  }
  if (size !== entry.uncompressedSize) throw refuse(entry.name, 'unpacks to another size than the zip says');
  if (sum !== entry.crc32) throw refuse(entry.name, 'is damaged: its checksum does not match');
}

/** By callback: the promise form of yauzl 3.4 calls another function than it is named after. */
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

const refuse = (name: string, fault: string): Problem =>
  invalidAt({ path: escapePath(name), message: `The entry ${fault}.` });
