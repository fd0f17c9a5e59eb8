/** The files of a package on their way in: read once, waiting in a staging directory. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { StagedFile } from '../../db/files/blobs.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { decodeText } from '../../sdk/contract/text-bytes.ts';
import { invalidAt } from './invalid-package.ts';

/** Most files of one package. Bounds the rows of a version and the work of reading it. */
export const FILES_MAX = 10_000;
/** A text file read into memory at once (readme, command, skill). Bytes. */
const TEXT_MAX_BYTES = MIB / 4;

/** A file of a package, its bytes waiting in the staging directory. */
export interface PackageFile extends StagedFile {
  /** Inside the package, `/` between names. */
  readonly path: string;
}
/** The files of a package, checked for paths and sizes, not yet for what they say. */
export interface Package {
  /** Sorted by the bytes of their paths. */
  readonly files: readonly PackageFile[];
  readonly sourceSha256: string;
  readonly sizeBytes: number;
}

/** The hash of a tree: SHA-256 over `path NUL hex(sha256(bytes)) LF` of all files, sorted by path bytes. */
export function sourceHash(files: readonly { readonly path: string; readonly sha256: string }[]): string {
  const hash = createHash('sha256');
  for (const file of files) hash.update(`${file.path}\0${file.sha256}\n`);
  return hash.digest('hex');
}

/** The text of a small file of a package. @throws Problem `invalid_package` when it is no UTF-8 or too long */
export async function readText(file: PackageFile): Promise<string> {
  if (file.sizeBytes > TEXT_MAX_BYTES) {
    throw invalidAt({
      path: file.path,
      message: `is larger than ${TEXT_MAX_BYTES} bytes, the most for a text file that is read`,
    });
  }
  const text = decodeText(await readFile(file.stagedAt));
  if (text === null) throw invalidAt({ path: file.path, message: 'is not UTF-8 text without NUL' });
  return text;
}

/** A refused path as it may be shown: control characters and half surrogates spelt out, cut to a readable length. */
export const escapePath = (path: string): string =>
  path.slice(0, 200).replace(/[\p{Cc}\p{Cs}]/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
