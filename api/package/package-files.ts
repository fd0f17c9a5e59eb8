/** Reads and hashes the files of an uploaded package in a staging directory. */
import { readFile } from 'node:fs/promises';
import type { StagedFile } from '../../db/files/staging.ts';
import { KIB, MIB, PACKAGE_FILES_MAX } from '../../sdk/contract/limits.ts';
import { decodeText } from '../../sdk/contract/text-bytes.ts';
import { escapeCharacter, findHiddenCharacter, replaceHiddenCharacters } from '../../sdk/contract/visible-text.ts';
import { waitForLoopTurn } from '../../service/timing/loop-turns.ts';
import { invalidAt } from './invalid-package.ts';

export const FILES_MAX = PACKAGE_FILES_MAX;
/** Maximum size of a text file that is read into memory (readme, command, skill). Bytes. */
export const TEXT_MAX_BYTES = MIB / 4;
/** The session API answers larger files with a link. Bytes. */
const PAGE_MAX_BYTES = MIB;
/** Some editors write it at the start of a file. It is allowed only there. */
const BYTE_ORDER_MARK = '\uFEFF';

export interface PackageFile extends StagedFile {
  /** Relative to the package, separated by `/`. */
  readonly path: string;
}
/** The files of a package with valid paths and sizes. Their content is not checked yet. */
export interface Package {
  /** Sorted by path bytes. */
  readonly files: readonly PackageFile[];
  readonly sourceSha256: string;
  readonly sizeBytes: number;
}

/**
 * Reads a text file. Its caller may go on to parse it in the same turn of the event loop.
 *
 * @param loopKey whose turns of the loop it uses: frontmatter of the largest size takes 30 ms
 * @throws Problem `invalid_package` when it is not UTF-8, is too large or has hidden characters
 */
export async function readText(file: PackageFile, loopKey: string): Promise<string> {
  if (file.sizeBytes > TEXT_MAX_BYTES) {
    throw invalidAt({
      path: file.path,
      message: `The file has ${file.sizeBytes} bytes; the maximum is ${TEXT_MAX_BYTES} (${TEXT_MAX_BYTES / KIB} KiB). Shorten it, or move parts into other files: a skill may have pages beside its SKILL.md.`,
    });
  }
  const text = await decodeInTurn(file, loopKey);
  if (text === null) throw invalidAt({ path: file.path, message: 'is not UTF-8 text without NUL' });
  refuseHiddenText(file.path, text);
  return text;
}

/** @returns null: it is not UTF-8 text without NUL */
async function decodeInTurn({ stagedAt }: PackageFile, loopKey: string): Promise<string | null> {
  const bytes = await readFile(stagedAt);
  await waitForLoopTurn(loopKey);
  return decodeText(bytes);
}

/**
 * Checks a text file of a skill. Files that are larger than `PAGE_MAX_BYTES` or not UTF-8 are not checked, because agents do not get
 * them as text.
 *
 * @param loopKey whose turns of the event loop it uses: a page of 1 MiB takes 15 ms
 * @throws Problem `invalid_package` when it has hidden characters
 */
export async function checkPage(file: PackageFile, loopKey: string): Promise<void> {
  if (file.sizeBytes > PAGE_MAX_BYTES) return;
  const text = await decodeInTurn(file, loopKey);
  if (text !== null) refuseHiddenText(file.path, text);
}

/** @throws Problem `invalid_package` with the line and column of the first hidden character */
function refuseHiddenText(path: string, text: string): void {
  const visible = text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
  const found = findHiddenCharacter(visible, 'lines');
  if (found === null) return;
  const before = visible.slice(0, found.at).split('\n');
  const column = (before.at(-1)?.length ?? 0) + 1;
  throw invalidAt({ path, line: before.length, column, message: `${found.fault}.` });
}

/** Makes an invalid path readable: escapes hidden characters, and shortens it. */
export const escapePath = (path: string): string =>
  replaceHiddenCharacters(path.slice(0, 200), 'line', escapeCharacter);
