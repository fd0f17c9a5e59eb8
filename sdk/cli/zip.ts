/** Writes a package as a zip. */
import { createReadStream, createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createDeflateRaw } from 'node:zlib';
import { ZipFile } from 'yazl';
import { KIB, ZIP_RATIO_MAX } from '../contract/limits.ts';
import type { FolderFile } from './local-tools.ts';

/** A fixed time, so that the same files make the same zip. */
const MTIME = new Date(Date.UTC(2000, 0, 1));
/** The headers of a shorter file alone keep it below the maximum ratio. Bytes. */
const MEASURED_MIN_BYTES = 16 * KIB;

/** Streams the files into a zip at `target`. @throws the signal's reason, as an AbortError */
export async function writeZip(files: readonly FolderFile[], target: string, signal?: AbortSignal): Promise<void> {
  const stored = new Set<FolderFile>();
  for (const file of files) if (await exceedsRatio(file, signal)) stored.add(file);
  const zip = new ZipFile();
  const failed = Promise.withResolvers<never>();
  // A file that disappeared is reported only here, not on the output stream.
  zip.on('error', failed.reject);
  for (const file of files)
    zip.addFile(file.at, file.path, { mtime: MTIME, mode: 0o100644, compress: !stored.has(file) });
  zip.end();
  await Promise.race([pipeline(zip.outputStream, createWriteStream(target), { signal }), failed.promise]);
}

/** Whether the service would refuse the compressed file as a zip bomb. Such a file is stored as it is. */
async function exceedsRatio({ at }: FolderFile, signal: AbortSignal | undefined): Promise<boolean> {
  const { size } = await stat(at);
  if (size < MEASURED_MIN_BYTES) return false;
  let packed = 0;
  const count = async (chunks: AsyncIterable<Buffer>): Promise<void> => {
    for await (const { byteLength } of chunks) packed += byteLength;
  };
  await pipeline(createReadStream(at), createDeflateRaw(), count, { signal });
  return size > packed * ZIP_RATIO_MAX;
}
