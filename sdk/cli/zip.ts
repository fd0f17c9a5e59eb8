/** Writes a package as a zip. */
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { ZipFile } from 'yazl';
import type { FolderFile } from './local-tools.ts';

/** A fixed time, so that the same files make the same zip. */
const MTIME = new Date(Date.UTC(2000, 0, 1));

/** Streams the files into a zip at `target`. */
export async function writeZip(files: readonly FolderFile[], target: string): Promise<void> {
  const zip = new ZipFile();
  const failed = Promise.withResolvers<never>();
  // A file that disappeared is reported only here, not on the output stream.
  zip.on('error', failed.reject);
  for (const { path, at } of files) zip.addFile(at, path, { mtime: MTIME, mode: 0o100644 });
  zip.end();
  await Promise.race([pipeline(zip.outputStream, createWriteStream(target)), failed.promise]);
}
