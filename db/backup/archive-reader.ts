/** Reads a backup's zip file, after verifying the hash of every entry. */
import { createHash } from 'node:crypto';
import { addAbortSignal, type Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { type Entry, openPromise, type ZipFile } from 'yauzl';
import {
  BackupError,
  createByteCounter,
  fileEntryName,
  MANIFEST,
  MANIFEST_MAX_BYTES,
  type Manifest,
  manifest,
  type Progress,
  tableEntryName,
} from './format.ts';

export interface Archive extends AsyncDisposable {
  readonly manifest: Manifest;
  /** Opens an entry that the manifest names. */
  read(entry: string): Promise<Readable>;
}

/**
 * Opens a backup after verifying that it is complete and undamaged.
 *
 * @param signal ends the verification
 * @throws BackupError naming what is missing, damaged or unknown to this release
 */
export async function openArchive(path: string, onProgress: Progress, signal?: AbortSignal): Promise<Archive> {
  const zip = await openZip(path);
  // Without a listener, an error while the file is closed would end the process.
  zip.on('error', () => undefined);
  try {
    const entries = await listEntries(zip, path);
    const read = (name: string): Promise<Readable> => {
      const entry = entries.get(name);
      if (!entry) throw new BackupError(`${path}: ${name} is missing.`);
      return zip.openReadStreamPromise(entry);
    };
    const found = await readManifest(path, entries.get(MANIFEST), read);
    const readUntilAbort = async (name: string): Promise<Readable> => {
      const source = await read(name);
      return signal === undefined ? source : addAbortSignal(signal, source);
    };
    await verify(path, found, new Set(entries.keys()), readUntilAbort, onProgress);
    return { manifest: found, read, [Symbol.asyncDispose]: async () => zip.close() };
  } catch (error) {
    zip.close();
    signal?.throwIfAborted();
    throw error;
  }
}

const openZip = (path: string): Promise<ZipFile> =>
  openPromise(path, { lazyEntries: true, autoClose: false, strictFileNames: true }).catch(
    ({ code }: NodeJS.ErrnoException) => {
      throw new BackupError(`${path} ${describeOpenError(code)}.`);
    },
  );

/** @param code of the operating system. Absent: the file could be read. */
function describeOpenError(code: string | undefined): string {
  if (code === undefined) return 'is not a backup, or it is incomplete';
  if (code === 'ENOENT') return 'does not exist';
  // A command of root runs as the owner of DATA_DIR, who may not read the files of root.
  return `cannot be read (${code})${code === 'EACCES' ? ': let the user who owns DATA_DIR read it' : ''}`;
}

async function listEntries(zip: ZipFile, path: string): Promise<Map<string, Entry>> {
  const entries = new Map<string, Entry>();
  try {
    for await (const entry of zip.eachEntry()) entries.set(entry.fileName, entry);
    return entries;
  } catch {
    throw new BackupError(`${path} is damaged: its central directory cannot be read.`);
  }
}

async function readManifest(
  path: string,
  entry: Entry | undefined,
  read: (name: string) => Promise<Readable>,
): Promise<Manifest> {
  if (!entry || entry.uncompressedSize > MANIFEST_MAX_BYTES) throw new BackupError(`${path} is not a backup.`);
  try {
    return manifest.parse(JSON.parse((await buffer(await read(MANIFEST))).toString('utf8')));
  } catch {
    // Damaged zip data, JSON or an unknown format: the cause does not change what the operator can do.
    throw new BackupError(`${path}: the manifest is damaged, or was written by a newer release of Bulkhead.`);
  }
}

async function verify(
  path: string,
  { tables, files }: Manifest,
  names: Set<string>,
  read: (name: string) => Promise<Readable>,
  onProgress: Progress,
): Promise<void> {
  const expected = [
    ...tables.map((table) => ({ ...table, name: tableEntryName(table.name) })),
    ...files.map((file) => ({ ...file, name: fileEntryName(file.path) })),
  ];
  if (names.size !== expected.length + 1) throw new BackupError(`${path} has other entries than its manifest lists.`);
  const countChecked = createByteCounter((sum) => onProgress(`checked ${sum}`));
  for (const { name, sha256, bytes } of expected) {
    if ((await hashFile(name, read)) !== sha256) throw new BackupError(`${path} is damaged: ${name} has another hash.`);
    countChecked(bytes);
  }
}

async function hashFile(name: string, read: (name: string) => Promise<Readable>): Promise<string | null> {
  const hash = createHash('sha256');
  try {
    for await (const chunk of await read(name)) hash.update(chunk);
    return hash.digest('hex');
  } catch (error) {
    if (error instanceof BackupError) throw error;
    // Damaged data may fail to decompress.
    return null;
  }
}
