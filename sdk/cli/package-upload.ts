/** A package on its way to the service: as text files where all are text and few, else as a zip; told how far it is. */
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MIB } from '../contract/limits.ts';
import { decodeText } from '../contract/text-bytes.ts';
import { CommandError } from './failure.ts';
import type { Version } from './records.ts';
import type { Rest } from './rest.ts';
import type { FolderFile } from './toolbox.ts';
import { writeZip } from './zip.ts';

/** The service takes lists of text up to 16 MiB; well below that a zip is quicker. Bytes. */
const LIST_MAX_BYTES = 4 * MIB;
/** What the service takes at most. Bytes. */
const ZIP_MAX_BYTES = 256 * MIB;
const PIECE_BYTES = 64 * 1024;

/** The files as text; null where one of them is no text, or they are too many bytes for a list. */
export async function readTexts(files: readonly FolderFile[]): Promise<{ path: string; contentText: string }[] | null> {
  let left = LIST_MAX_BYTES;
  const texts: { path: string; contentText: string }[] = [];
  for (const { path, at } of files) {
    left -= (await stat(at)).size;
    if (left < 0) return null;
    const contentText = decodeText(await readFile(at));
    if (contentText === null) return null;
    texts.push({ path, contentText });
  }
  return texts;
}

/**
 * Publishes.
 *
 * @param onProgress with the part that is sent, from 0 to 1
 * @throws CommandError and BulkheadError
 */
export async function sendVersion(
  rest: Rest,
  of: {
    readonly pluginId: string;
    readonly semVer: string;
    readonly files: readonly FolderFile[];
    readonly zip: boolean;
  },
  onProgress: (part: number) => void,
): Promise<Version> {
  const { pluginId, semVer, files } = of;
  const texts = of.zip ? null : await readTexts(files);
  const path = `/plugins/${pluginId}/versions`;
  if (texts !== null) {
    const bytes = Buffer.from(JSON.stringify({ semVer, files: texts }));
    return rest.upload(path, 'application/json', () => counted(pieces(bytes), bytes.byteLength, onProgress));
  }
  const scratch = await mkdtemp(join(tmpdir(), 'bulkhead-publish-'));
  try {
    const zip = join(scratch, 'package.zip');
    await writeZip(files, zip);
    const { size } = await stat(zip);
    if (size > ZIP_MAX_BYTES) throw tooLarge(size);
    const boundary = randomBytes(16).toString('hex');
    return await rest.upload(`${path}/zip`, `multipart/form-data; boundary=${boundary}`, () =>
      counted(multipart(zip, semVer, boundary), size, onProgress),
    );
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

function tooLarge(size: number): CommandError {
  const message = `The package is a zip of ${Math.ceil(size / MIB)} MB, and 256 MB is the most: leave out what plugins do not need, such as large assets.`;
  return new CommandError('too_large', message, { exit: 'invalidPackage' });
}

async function* multipart(zip: string, semVer: string, boundary: string): AsyncGenerator<Uint8Array> {
  const head = (name: string, more: string) =>
    `--${boundary}\r\ncontent-disposition: form-data; name="${name}"${more}\r\n\r\n`;
  yield Buffer.from(`${head('semVer', '')}${semVer}\r\n`);
  yield Buffer.from(head('file', '; filename="package.zip"\r\ncontent-type: application/zip'));
  yield* createReadStream(zip, { highWaterMark: PIECE_BYTES });
  yield Buffer.from(`\r\n--${boundary}--\r\n`);
}

async function* pieces(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
}

/** A stream that says how much of it was taken. */
function counted(
  parts: AsyncGenerator<Uint8Array>,
  total: number,
  onProgress: (part: number) => void,
): ReadableStream<Uint8Array> {
  let sent = 0;
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await parts.next();
      if (done) return controller.close();
      sent += value.byteLength;
      onProgress(Math.min(1, sent / total));
      controller.enqueue(value);
    },
    async cancel() {
      await parts.return(undefined);
    },
  });
}
