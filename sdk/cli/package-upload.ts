/** Uploads a package: a small package of text files as JSON, any other as a zip. */
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { hashFileTree } from '../contract/file-tree.ts';
import { MIB } from '../contract/limits.ts';
import { decodeText } from '../contract/text-bytes.ts';
import { CommandError } from './failure.ts';
import type { FolderFile } from './local-tools.ts';
import type { Rest } from './rest.ts';
import type { Version } from './rest-types.ts';
import { makeTemporaryFolder } from './temporary-folder.ts';
import { writeZip } from './zip.ts';

/** The service accepts 16 MiB of JSON, but above this size a zip is faster. Bytes. */
const JSON_MAX_BYTES = 4 * MIB;
/** The limit of the service, bytes. */
const ZIP_MAX_BYTES = 256 * MIB;
const CHUNK_BYTES = 64 * 1024;

export interface PackageTexts {
  readonly path: string;
  readonly contentText: string;
}

/** Counts the bytes of a file in the list of a request. In JSON, a line break has two bytes, and a control character six. */
export const countJsonBytes = (file: PackageTexts): number => Buffer.byteLength(`${JSON.stringify(file)},`);

/** Returns the files as text; null if one is binary or they are too large for JSON. */
export async function readTexts(files: readonly FolderFile[]): Promise<PackageTexts[] | null> {
  let left = JSON_MAX_BYTES;
  const texts: PackageTexts[] = [];
  for (const { path, at } of files) {
    if ((await stat(at)).size > left) return null;
    const contentText = decodeText(await readFile(at));
    if (contentText === null) return null;
    const file = { path, contentText };
    left -= countJsonBytes(file);
    if (left < 0) return null;
    texts.push(file);
  }
  return texts;
}

/** Hashes the files as they are now. The service's hash may differ, because it leaves out files of operating systems. */
export async function hashFiles(files: readonly FolderFile[], signal: AbortSignal): Promise<string> {
  const hashed: { path: string; sha256: string }[] = [];
  for (const { path, at } of files) {
    const hash = createHash('sha256');
    await pipeline(createReadStream(at), hash, { signal });
    hashed.push({ path, sha256: hash.digest('hex') });
  }
  return hashFileTree(hashed);
}

/** @throws CommandError */
async function requireUnchanged(files: readonly FolderFile[], checkedHash: string, signal: AbortSignal): Promise<void> {
  if ((await hashFiles(files, signal)) === checkedHash) return;
  const message = 'The folder changed after it was checked. Nothing was published. Run `bulkhead publish` again.';
  throw new CommandError('folder_changed', message);
}

/**
 * Publishes a version.
 *
 * @param onProgress called with the fraction that was sent
 * @throws CommandError and BulkheadError
 */
export async function uploadVersion(
  rest: Rest,
  version: {
    readonly pluginId: string;
    readonly semVer: string;
    readonly files: readonly FolderFile[];
    /** `hashFiles` before the files were checked: other files are not sent. */
    readonly checkedHash: string;
    readonly zip: boolean;
    readonly signal: AbortSignal;
  },
  onProgress: (fraction: number) => void,
): Promise<Version> {
  const { pluginId, semVer, files, checkedHash, signal } = version;
  const texts = version.zip ? null : await readTexts(files);
  const path = `/plugins/${pluginId}/versions`;
  if (texts !== null) {
    await requireUnchanged(files, checkedHash, signal);
    const bytes = Buffer.from(JSON.stringify({ semVer, files: texts }));
    return rest.upload(path, 'application/json', () => trackProgress(splitBytes(bytes), bytes.byteLength, onProgress));
  }
  const scratch = await makeTemporaryFolder('bulkhead-publish-', 'the zip of the package');
  try {
    const zip = join(scratch, 'package.zip');
    await writeZip(files, zip, signal);
    await requireUnchanged(files, checkedHash, signal);
    const { size } = await stat(zip);
    if (size > ZIP_MAX_BYTES) {
      const message = `The zip of the package has ${Math.ceil(size / MIB)} MB; the limit is ${ZIP_MAX_BYTES / MIB} MB. Remove large assets.`;
      throw new CommandError('too_large', message, { exit: 'invalidPackage' });
    }
    const boundary = randomBytes(16).toString('hex');
    const [head, end] = frameMultipart(semVer, boundary);
    const total = head.byteLength + size + end.byteLength;
    return await rest.upload(`${path}/zip`, `multipart/form-data; boundary=${boundary}`, () =>
      trackProgress(writeMultipart(zip, head, end), total, onProgress),
    );
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** What is before and behind the zip in the body. */
function frameMultipart(semVer: string, boundary: string): [head: Buffer, end: Buffer] {
  const head = (name: string, more: string) =>
    `--${boundary}\r\ncontent-disposition: form-data; name="${name}"${more}\r\n\r\n`;
  const file = head('file', '; filename="package.zip"\r\ncontent-type: application/zip');
  return [Buffer.from(`${head('semVer', '')}${semVer}\r\n${file}`), Buffer.from(`\r\n--${boundary}--\r\n`)];
}

async function* writeMultipart(zip: string, head: Uint8Array, end: Uint8Array): AsyncGenerator<Uint8Array> {
  yield head;
  yield* createReadStream(zip, { highWaterMark: CHUNK_BYTES });
  yield end;
}

async function* splitBytes(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += CHUNK_BYTES) yield bytes.subarray(at, at + CHUNK_BYTES);
}

/** Reports how much of a stream was read. */
function trackProgress(
  chunks: AsyncGenerator<Uint8Array>,
  total: number,
  onProgress: (fraction: number) => void,
): ReadableStream<Uint8Array> {
  let sent = 0;
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await chunks.next();
      if (done) return controller.close();
      sent += value.byteLength;
      onProgress(Math.min(1, sent / total));
      controller.enqueue(value);
    },
    async cancel() {
      await chunks.return(undefined);
    },
  });
}
