/** Writes a backup's zip file as a stream: nothing is held whole, and every entry is hashed on its way. */
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { link, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ZipFile } from 'yazl';
import { syncPath } from '../files/data-dir.ts';
import { BackupError } from './format.ts';

export interface Written {
  readonly bytes: number;
  readonly sha256: string;
}
export interface NewEntry {
  readonly name: string;
  /** Worth the time: not for what is packed already. */
  readonly compress: boolean;
  /** Opened when its turn comes, one after the other. */
  open(): Promise<Readable>;
  /** Told after its last byte. */
  onWritten(written: Written): void;
}

/**
 * Writes the entries to a new file that only its owner can read. It appears under its name when it is whole and durable.
 *
 * @throws BackupError when there is such a file already
 */
export async function writeArchive(path: string, entries: Iterable<NewEntry>): Promise<void> {
  const unfinished = `${path}.unfinished`;
  const zip = new ZipFile();
  for (const entry of entries) add(zip, entry);
  zip.end();
  const output = new Readable().wrap(zip.outputStream);
  zip.on('error', (error: Error) => output.destroy(error));
  try {
    await pipeline(output, createWriteStream(unfinished, { flags: 'w', mode: 0o600, flush: true }));
    // Unlike a rename, a link replaces nothing.
    await link(unfinished, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') throw new BackupError(`${path} exists already: give another name.`);
      throw error;
    });
    await syncPath(dirname(path));
  } finally {
    await rm(unfinished, { force: true });
  }
}

function add(zip: ZipFile, entry: NewEntry): void {
  // Sizes are known only at the end, and may be any.
  const options = { compress: entry.compress, mode: 0o100600, forceZip64Format: true };
  zip.addReadStreamLazy(entry.name, options, (give) => {
    entry.open().then(
      (source) => give(null, hashed(source, entry.onWritten)),
      (error: Error) => zip.emit('error', error),
    );
  });
}

function hashed(source: Readable, onWritten: (written: Written) => void): Readable {
  const hash = createHash('sha256');
  let bytes = 0;
  const through = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      bytes += chunk.byteLength;
      done(null, chunk);
    },
    flush(done) {
      onWritten({ bytes, sha256: hash.digest('hex') });
      done();
    },
  });
  source.once('error', (error) => through.destroy(error));
  return source.pipe(through);
}
