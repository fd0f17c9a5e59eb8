/** Writes a backup's zip file as a stream and hashes every entry. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { link, open, readdir, rename, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { type PassThrough, type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ZipFile } from 'yazl';
import { isDiskFull } from '../../sdk/files/disk-full.ts';
import { syncPath } from '../files/data-dir.ts';
import { BackupError } from './format.ts';

/** File systems without hard links: FAT and exFAT, many of FUSE (a mounted bucket), and some shares of SMB. */
const NO_LINKS: readonly string[] = ['EPERM', 'ENOSYS', 'ENOTSUP'];

interface Written {
  readonly bytes: number;
  readonly sha256: string;
}
export interface NewEntry {
  readonly name: string;
  readonly compress: boolean;
  /** Called for one entry after the other. */
  open(): Promise<Readable>;
  /** Called after the entry's last byte. */
  onWritten(written: Written): void;
}

/**
 * Writes the entries to a new file that only its owner can read. The file appears when it is complete and durable.
 *
 * @param makeLink gives a file a second name
 * @throws BackupError when the file exists already or cannot be written
 */
export async function writeArchive(path: string, entries: Iterable<NewEntry>, makeLink = link): Promise<void> {
  // Before hours of work.
  if (existsSync(path)) throw createExistsError(path);
  await removeLeftovers(path);
  // The file of this process: another backup that is given the same name must not write into it. Containers and machines that share
  // the folder have process ids of their own.
  const suffix = `.${hostname()}.${process.pid}.unfinished`;
  const unfinished = `${path}${suffix}`;
  const file = await open(unfinished, 'w', 0o600).catch((error: unknown) => {
    throw explainFileError(error, path, suffix);
  });
  const zip = new ZipFile();
  const failed = new AbortController();
  for (const entry of entries) addEntry(zip, entry, failed.signal);
  zip.end();
  // It is a PassThrough. A `Readable` that wraps it would close before its last bytes are written, and `pipeline` not reject if that fails.
  const output = zip.outputStream as PassThrough;
  zip.on('error', (error: Error) => output.destroy(error));
  try {
    await pipeline(output, file.createWriteStream({ flush: true }));
    await nameFile(unfinished, path, makeLink);
    await syncPath(dirname(path));
  } catch (error) {
    failed.abort();
    throw explainFileError(error, path, suffix);
  } finally {
    await rm(unfinished, { force: true });
  }
}

/** Removes the unfinished files of this name whose processes were killed, on this machine. */
async function removeLeftovers(path: string): Promise<void> {
  const [folder, start] = [dirname(path), `${basename(path)}.${hostname()}.`];
  // A folder that cannot be read is reported when the file is written.
  for (const name of await readdir(folder).catch(() => [])) {
    const pid = name.startsWith(start) ? /^(\d+)\.unfinished$/.exec(name.slice(start.length))?.[1] : undefined;
    if (pid !== undefined && !isRunning(Number(pid))) await rm(join(folder, name), { force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Of another user: it exists.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** @throws BackupError when the name is that of another file */
async function nameFile(unfinished: string, path: string, makeLink: typeof link): Promise<void> {
  try {
    // Unlike a rename, a link does not replace an existing file.
    await makeLink(unfinished, path);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') throw createExistsError(path);
    if (!NO_LINKS.includes(code)) throw error;
    if (existsSync(path)) throw createExistsError(path);
    await rename(unfinished, path);
  }
}

const createExistsError = (path: string): BackupError =>
  new BackupError(`${path} exists already. Choose another name.`);

/** Advice to the operator about an error of the file system. */
function explainFileError(error: unknown, path: string, suffix: string): unknown {
  const folder = dirname(path);
  if (isDiskFull(error))
    return new BackupError(`The folder ${folder} is full: make room, or choose another one. Nothing was kept.`);
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT':
      return new BackupError(`The folder ${folder} does not exist: create it, or choose another one.`);
    case 'ENOTDIR':
      return new BackupError(`${folder} is not a folder: choose another one.`);
    case 'EISDIR':
      return new BackupError(`${path} is a folder: add a file name.`);
    case 'ENAMETOOLONG':
      return new BackupError(
        `${path} is too long, because its name ends in ${suffix} until it is complete: shorten it.`,
      );
    case 'EFBIG':
      return new BackupError(
        `${path} is larger than a file may be in ${folder}: raise the file size limit of this process (ulimit -f), or choose a folder of another file system; FAT holds files of up to 4 GiB. Nothing was kept.`,
      );
    case 'EACCES':
    case 'EPERM':
      // A command of root runs as the owner of DATA_DIR, who may not write into the folders of root.
      return new BackupError(
        `The folder ${folder} cannot be written by user ${process.geteuid?.()}, as whom this command runs: choose another one, or let that user write there.`,
      );
    case 'EROFS':
      return new BackupError(`The folder ${folder} is read-only: choose another one.`);
    default:
      return error;
  }
}

/** @param failed no entry is opened after it is aborted, because nothing reads it any more */
function addEntry(zip: ZipFile, entry: NewEntry, failed: AbortSignal): void {
  // The size is unknown in advance and may exceed 4 GB.
  const options = { compress: entry.compress, mode: 0o100600, forceZip64Format: true };
  zip.addReadStreamLazy(entry.name, options, (callback) => {
    if (failed.aborted) return;
    entry.open().then(
      (source) => callback(null, hashStream(source, entry.onWritten)),
      (error: Error) => zip.emit('error', error),
    );
  });
}

function hashStream(source: Readable, onWritten: (written: Written) => void): Readable {
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
  // After the archive failed, the end of the source's connection is one more error, to be ignored.
  for (const stream of [source, through]) stream.on('error', () => undefined);
  return source.pipe(through);
}
