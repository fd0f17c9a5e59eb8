/**
 * Tells an author's own code from that of libraries. In a library, code for other platforms that no plugin reaches is
 * normal; in the author's own code it is a mistake.
 */
import { posix } from 'node:path';
import { bisect } from '../../service/text/bisect.ts';

/** Folders where authors keep the code of others. */
const LIBRARY_FOLDER = /(^|\/)(vendor|node_modules)\//;
/** The line that esbuild writes above the code of each file that it bundles. */
const BUNDLED_FILE = /^\s*\/\/ (\S+\.[cm]?[jt]sx?)\r?$/;

/** Published code says who wrote it, or has lines that no person writes. */
const LICENCE = /\/\*!|@license\b|@preserve\b/;
const WRITTEN_LINE_MAX = 1_000;

/**
 * Tells which lines of a file are a library's: all of a file below vendor/ or node_modules/, those that a bundler marked as
 * coming from node_modules/, and all of a .js file with a licence comment or minified code.
 *
 * @returns a test of a line, which counts from 1
 */
export function findLibraryLines(path: string, source: string): (line: number) => boolean {
  if (LIBRARY_FOLDER.test(path)) return () => true;
  const isJavaScript = posix.extname(path) === '.js';
  const marks = findMarks(source);
  if (marks.length === 0) {
    const isLibrary = isJavaScript && isPublished(source);
    return () => isLibrary;
  }
  // Above the first mark are the bundler's own functions.
  return (line) => marks[countUntil(marks, line) - 1]?.isLibrary ?? isJavaScript;
}

interface Mark {
  readonly line: number;
  readonly isLibrary: boolean;
}

function findMarks(source: string): readonly Mark[] {
  if (!source.includes('node_modules/')) return [];
  return source.split('\n').flatMap((text, index) => {
    const from = BUNDLED_FILE.exec(text)?.[1];
    return from === undefined ? [] : [{ line: index + 1, isLibrary: LIBRARY_FOLDER.test(from) }];
  });
}

/** The marks at or above a line. A binary search: a file may have 200,000 marks, and as many uses of each. */
const countUntil = (marks: readonly Mark[], line: number): number =>
  bisect(marks.length, (index) => (marks[index]?.line ?? 0) > line);

const isPublished = (source: string): boolean =>
  LICENCE.test(source) || source.split('\n').some((line) => line.length > WRITTEN_LINE_MAX);
