/** The end of a zip: whether its directory ends where the number of its entries says. */
import type { FileHandle } from 'node:fs/promises';

const END_BYTES = 22;
const END = 0x06054b50;
const END_64 = 0x06064b50;
/** In a field of the end record: look into the 64-bit one. */
const ELSEWHERE = 0xffff;

/**
 * Why the end of a zip is refused, as a whole sentence; null when it is fine. A reader that goes by the directory's length
 * and one that goes by its count would else see different packages.
 *
 * @param directoryEnd where the last entry that the count promises ends in the directory
 * @param end where the end record is
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
  return 'The zip’s directory holds something else than the entries it counts.';
}

/** @param comment what follows the end record */
export const endOf = (zipBytes: number, comment: { readonly length: number }): number =>
  zipBytes - END_BYTES - comment.length;
