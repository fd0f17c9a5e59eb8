/** A package's files as a zip, the way that carries binary assets. */
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { ZipFile } from 'yazl';
import type { FolderFile } from './toolbox.ts';

/** Equal files make equal zips. */
const MTIME = new Date(Date.UTC(2000, 0, 1));

/** Writes a zip of the files to `target`, however large they are together. */
export async function writeZip(files: readonly FolderFile[], target: string): Promise<void> {
  const zip = new ZipFile();
  const failed = Promise.withResolvers<never>();
  // A file that vanished meanwhile is told here and nowhere else.
  zip.on('error', failed.reject);
  for (const { path, at } of files) zip.addFile(at, path, { mtime: MTIME, mode: 0o100644 });
  zip.end();
  await Promise.race([pipeline(zip.outputStream, createWriteStream(target)), failed.promise]);
}
