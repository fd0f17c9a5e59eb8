/** Checks that the central directory of a zip ends where its number of entries implies. */
import type { FileHandle } from 'node:fs/promises';

const END_BYTES = 22;
const END = 0x06054b50;
const END_64 = 0x06064b50;
/** This field value means: see the 64-bit record. */
const ELSEWHERE = 0xffff;

/**
 * Returns why the end of a zip is invalid, as a whole sentence; null: it is valid. Otherwise, a reader that uses the
 * directory's length and one that uses its count would see different packages.
 *
 * @param directoryEnd where the last counted entry ends in the directory
 * @param end position of the end record
 */
export async function validateZipEnd(file: FileHandle, directoryEnd: number, end: number): Promise<string | null> {
  const last = Buffer.alloc(END_BYTES);
  const next = Buffer.alloc(4);
  await file.read(last, 0, END_BYTES, end);
  await file.read(next, 0, next.length, directoryEnd);
  const disks = [last.readUInt16LE(4), last.readUInt16LE(6)];
  if (!disks.every((disk) => disk === 0 || disk === ELSEWHERE)) return 'The zip is one of several disks.';
  const follows = next.readUInt32LE(0);
  if (follows === END_64 || (follows === END && directoryEnd === end)) return null;
  return 'The zip’s directory contains more than the entries it counts.';
}

/** @param comment the zip comment, which follows the end record */
export const locateEndRecord = (zipBytes: number, comment: { readonly length: number }): number =>
  zipBytes - END_BYTES - comment.length;
