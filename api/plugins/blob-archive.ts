/** Packs blobs and made files into a zip that is sent while it is made. The same input packs to the same bytes. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Readable } from 'node:stream';
import { type Options, ZipFile } from 'yazl';
import type { VersionFile } from '../../db/catalog/versions.ts';
import type { Blobs } from '../../db/files/blobs.ts';

interface MadeFile {
  readonly path: string;
  readonly bytes: Buffer;
}

/** @param options of every entry; they decide the bytes */
export function packBlobs(
  blobs: Pick<Blobs, 'stream'>,
  files: readonly (VersionFile | MadeFile)[],
  options: Partial<Options>,
): Readable {
  const zip = new ZipFile();
  const output = zip.outputStream as unknown as Readable;
  let source: Readable | null = null;
  zip.on('error', (error: Error) => output.destroy(error));
  // A client that disconnects must not leave a file open.
  output.once('close', () => source?.destroy());
  for (const file of files) {
    if ('bytes' in file) {
      zip.addBuffer(file.bytes, file.path, options);
      continue;
    }
    const open = (give: (error: null, source: Readable) => void): void => {
      source = blobs.stream(file.sha256);
      give(null, source);
    };
    // In the async context of the request, because a blob may be read from the database in the share of its account.
    zip.addReadStreamLazy(file.path, { ...options, size: file.sizeBytes }, AsyncLocalStorage.bind(open));
  }
  zip.end();
  return output;
}

/**
 * Packs the tree of a version. Not compressed, because compressed bytes differ between releases of zlib: so the archive
 * depends on the tree alone.
 */
export const packTree = (blobs: Pick<Blobs, 'stream'>, files: readonly VersionFile[]): Readable =>
  packBlobs(blobs, files, { compress: false, mtime: new Date(1980, 0, 1), mode: 0o100644, forceDosTimestamp: true });
