/**
 * Reads an untrusted zip, so strictly that no other reader can see another package in it: every byte belongs to one entry
 * or one record, and everything that the format says twice is the same both times.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { crc32, createInflateRaw } from 'node:zlib';
import type { Staging } from '../../db/files/staging.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB, PACKAGE_MAX_BYTES, ZIP_RATIO_MAX } from '../../sdk/contract/limits.ts';
import { invalidPackage } from './invalid-package.ts';
import { FILES_MAX, type PackageFile } from './package-files.ts';
import { findClash, findWrapperFolder, isSystemFile } from './paths.ts';
import { readPieces } from './zip-bytes.ts';
import { type CentralEntry, invalidEntry, readDirectory, STORED } from './zip-directory.ts';
import { findDirectory } from './zip-end-record.ts';
import { type Entry, locateEntries } from './zip-local-header.ts';

/** Maximum unpacked size of a package. Bytes. */
export const UNPACKED_MAX_BYTES = PACKAGE_MAX_BYTES;
/** The ratio is not checked below this size: short files of blanks compress well and are harmless. Unpacked bytes. */
export const RATIO_FLOOR_BYTES = MIB;
const REMEDY = 'Store it in the zip without compression (zip -0), or publish the folder with the command line';

export interface ZipSource {
  /** The uploaded file. */
  readonly path: string;
  /** Called before anything is unpacked. It may throw a Problem. @param bytes that are unpacked */
  readonly reserve?: (bytes: number) => Promise<void>;
}

/**
 * Unpacks a zip into a staging directory, without its wrapper folder and system files.
 *
 * @param loopKey whose turns of the event loop it uses
 * @throws Problem `invalid_package` that names the entry
 */
export async function readZip({ path, reserve }: ZipSource, staging: Staging, loopKey: string): Promise<PackageFile[]> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const place = await findDirectory(file, size);
    if (place.entries > FILES_MAX)
      throw invalidPackage(`The zip has ${place.entries} entries; the maximum is ${FILES_MAX}.`);
    const described = await readDirectory(file, place, loopKey);
    requireModestSize(described, size);
    const entries = await locateEntries(file, described, place.start);
    if (entries.length === 0 && place.start > 0) throw invalidPackage('The zip holds bytes, but no entries.');
    const kept = await chooseEntries(entries, loopKey);
    await reserve?.(kept.reduce((sum, { bytes }) => sum + bytes, 0));
    return await unpack(file, kept, staging);
  } finally {
    await file.close();
  }
}

function requireModestSize(entries: readonly CentralEntry[], archiveBytes: number): void {
  let total = 0;
  for (const { name, bytes, compressedBytes } of entries) {
    total += bytes;
    if (total > UNPACKED_MAX_BYTES)
      throw invalidEntry(name, `takes the package over ${UNPACKED_MAX_BYTES} bytes unpacked`);
    if (bytes > RATIO_FLOOR_BYTES && bytes > compressedBytes * ZIP_RATIO_MAX)
      throw invalidEntry(name, `would unpack to over ${ZIP_RATIO_MAX} times its size. ${REMEDY}`);
  }
  if (total > RATIO_FLOOR_BYTES && total > archiveBytes * ZIP_RATIO_MAX)
    throw invalidPackage(`The zip would unpack to ${total} bytes, over ${ZIP_RATIO_MAX} times its size. ${REMEDY}.`);
}

/** @returns the entries without system files @throws Problem `invalid_package` when two paths clash */
async function chooseEntries(entries: readonly Entry[], loopKey: string): Promise<readonly Entry[]> {
  const clash = await findClash(
    entries.map(({ name, isFolder }) => ({ path: name, isFolder })),
    loopKey,
  );
  if (clash) throw invalidEntry(clash.path, clash.fault);
  return entries.filter(({ name }) => !isSystemFile(name));
}

async function unpack(file: FileHandle, kept: readonly Entry[], staging: Staging): Promise<PackageFile[]> {
  const wrapper = findWrapperFolder(kept.map(({ name, isFolder }) => (isFolder ? `${name}/` : name)));
  const files: PackageFile[] = [];
  for (const entry of kept) {
    const content = readContent(file, entry);
    if (entry.isFolder) await drain(content);
    else files.push({ path: entry.name.slice(wrapper.length), ...(await staging.add(content)) });
  }
  return files;
}

/** Reads a folder's content, which must be empty even where it is compressed. */
async function drain(content: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of content);
}

async function* readContent(file: FileHandle, entry: Entry): AsyncGenerator<Uint8Array> {
  let sum = 0;
  let size = 0;
  const packed = readPieces(file, entry.dataStart, entry.compressedBytes);
  for await (const chunk of entry.method === STORED ? packed : inflate(packed, entry)) {
    sum = crc32(chunk, sum);
    size += chunk.byteLength;
    if (size > entry.bytes) break;
    yield chunk;
  }
  if (size !== entry.bytes) throw invalidEntry(entry.name, 'unpacks to another size than the zip says');
  if (sum !== entry.crc32) throw invalidEntry(entry.name, 'is damaged: its checksum does not match');
}

async function* inflate(pieces: AsyncGenerator<Buffer>, entry: Entry): AsyncGenerator<Buffer> {
  const packed = Readable.from(pieces);
  const inflater = createInflateRaw();
  packed.on('error', (error) => inflater.destroy(error));
  try {
    yield* packed.pipe(inflater) as AsyncIterable<Buffer>;
    if (inflater.bytesWritten !== entry.compressedBytes)
      throw invalidEntry(entry.name, 'holds bytes after the end of its compressed data');
  } catch (error) {
    throw toProblem(error, entry);
  } finally {
    packed.destroy();
    inflater.destroy();
  }
}

/** Errors of zlib are the zip's fault; errors of the disk or of this program are not. */
function toProblem(error: unknown, { name }: Entry): unknown {
  if (error instanceof Problem || !(error instanceof Error) || !('code' in error)) return error;
  if (error.code === 'Z_BUF_ERROR') return invalidEntry(name, 'is damaged: its compressed data ends too early');
  return error.code === 'Z_DATA_ERROR' ? invalidEntry(name, 'is damaged: its compressed data is not deflate') : error;
}
