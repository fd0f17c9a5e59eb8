/** Reads bytes and extra fields of a zip. */
import type { FileHandle } from 'node:fs/promises';
import { invalidPackage } from './invalid-package.ts';

const CHUNK_BYTES = 64 * 1024;
const EXTRA_HEAD_BYTES = 4;
/** The extra field with 64-bit sizes. */
const WIDE = 0x0001;
/** The extra field with the name in UTF-8, which some readers use and others do not. */
const UNICODE_PATH = 0x7075;
/** This 32-bit value means: see the 64-bit field. */
export const WIDE_VALUE = 0xffffffff;
/** Length of a value in that field. */
export const WIDE_BYTES = 8;

/** Reads exactly these bytes. @throws Problem `invalid_package` when the file ends before */
export async function readAt(file: FileHandle, start: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(length);
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(bytes, done, length - done, start + done);
    if (bytesRead === 0) throw invalidPackage('The zip cannot be read: it ends in the middle of an entry.');
    done += bytesRead;
  }
  return bytes;
}

export async function* readPieces(file: FileHandle, start: number, length: number): AsyncGenerator<Buffer> {
  for (let done = 0; done < length; done += CHUNK_BYTES)
    yield await readAt(file, start + done, Math.min(CHUNK_BYTES, length - done));
}

/** The extra fields of a header that change what the entry is. */
interface ExtraFields {
  /** Content of the field with 64-bit sizes. */
  wide: Buffer | null;
  unicodePath: Buffer | null;
}

/** Returns null for bytes that are not a list of extra fields, or that name sizes or path twice. */
export function parseExtraFields(bytes: Buffer): ExtraFields | null {
  const found: ExtraFields = { wide: null, unicodePath: null };
  for (let at = 0; at < bytes.length; ) {
    if (bytes.length - at < EXTRA_HEAD_BYTES) return null;
    const id = bytes.readUInt16LE(at);
    const data = bytes.subarray(at + EXTRA_HEAD_BYTES, at + EXTRA_HEAD_BYTES + bytes.readUInt16LE(at + 2));
    if (data.length !== bytes.readUInt16LE(at + 2)) return null;
    if ((id === WIDE && found.wide) || (id === UNICODE_PATH && found.unicodePath)) return null;
    if (id === WIDE) found.wide = data;
    if (id === UNICODE_PATH) found.unicodePath = data;
    at += EXTRA_HEAD_BYTES + data.length;
  }
  return found;
}

/**
 * Replaces 32-bit values that mean “see the 64-bit field” by those of the field, in order.
 *
 * @param wide content of the field; null: the header has none
 * @returns null when the field does not hold exactly the values that it must
 */
export function widenValues(values: readonly number[], wide: Buffer | null): number[] | null {
  let at = 0;
  const widened = values.map((value) => {
    if (value !== WIDE_VALUE) return value;
    const isThere = wide !== null && at + WIDE_BYTES <= wide.length;
    const found = isThere ? Number(wide.readBigUInt64LE(at)) : Number.NaN;
    at += WIDE_BYTES;
    return found;
  });
  return widened.some(Number.isNaN) || (wide !== null && at !== wide.length) ? null : widened;
}
