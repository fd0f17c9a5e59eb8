/**
 * Tells an author's own code from that of libraries. In a library, code for other platforms that no plugin reaches is
 * normal; in the author's own code it is a mistake.
 */
import { posix } from 'node:path';

/** Folders where authors keep the code of others. */
const LIBRARY_FOLDER = /(^|\/)(vendor|node_modules)\//;
/** The line that esbuild writes above the code of each file that it bundles. */
const BUNDLED_FILE = /^\s*\/\/ (\S+\.[cm]?[jt]sx?)$/;

/**
 * Tells which lines of a file are a library's: all of a .js file and of a file below vendor/ or node_modules/, and those that
 * a bundler marked as coming from node_modules/.
 *
 * @returns a test of a line, which counts from 1
 */
export function findLibraryLines(path: string, source: string): (line: number) => boolean {
  if (posix.extname(path) === '.js' || LIBRARY_FOLDER.test(path)) return () => true;
  if (!source.includes('node_modules/')) return () => false;
  const marks: { readonly line: number; readonly isLibrary: boolean }[] = [];
  for (const [index, text] of source.split('\n').entries()) {
    const from = BUNDLED_FILE.exec(text)?.[1];
    if (from !== undefined) marks.push({ line: index + 1, isLibrary: LIBRARY_FOLDER.test(from) });
  }
  return (line) => marks.findLast((mark) => mark.line <= line)?.isLibrary ?? false;
}
