/** Maps positions in a bundle to the author's files, with the source map that the host made when it built the version. */
import { SourceMap } from 'node:module';
import type { ProblemLocation } from '../../sdk/contract/errors.ts';

/** esbuild namespace of a package's modules: keeps esbuild's own resolver away from the disk. */
export const NAMESPACE = 'package';

/** Per text; V8 writes ten per stack. */
const FRAMES_MAX = 50;

/** Paths without quotes or control characters: the text may be JSON and must remain valid. */
const PLAIN_PATH = /^[^"\\\p{Cc}]{1,200}$/u;

/** A bundle's map: its JSON text, or parsed. */
type BundleMap = string | SourceMap;

export const parseSourceMap = (text: string): SourceMap => new SourceMap(JSON.parse(text));

/** The map that was parsed last. The errors of one package are mapped one after the other, with the same map. */
let cached: { readonly text: string; readonly map: SourceMap } | null = null;
function toParsed(map: BundleMap): SourceMap {
  if (typeof map !== 'string') return map;
  if (cached?.text !== map) cached = { text: map, map: parseSourceMap(map) };
  return cached.map;
}

/**
 * Maps the stack frames in a text to the author's files. Frames without a mapping stay as they are.
 *
 * @param text from a plugin, of limited length
 * @param sourceName the bundle's file name in stack traces
 */
export function mapFrames(sourceMap: BundleMap, text: string, sourceName: string): string {
  const name = sourceName.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
  let frames = 0;
  return text.replace(new RegExp(`(?<![\\w./@-])${name}:(\\d{1,9}):(\\d{1,9})(?!\\d)`, 'g'), (found, line, column) => {
    frames += 1;
    if (frames > FRAMES_MAX) return found;
    const at = mapPosition(sourceMap, { line: Number(line), column: Number(column) - 1 });
    return at.path !== undefined && PLAIN_PATH.test(at.path) ? `${at.path}:${at.line}:${at.column}` : found;
  });
}

/**
 * Maps a position in the bundle to the author's file. Empty: no mapping (code that esbuild added).
 *
 * @param at line from 1, column from 0
 */
export function mapPosition(
  sourceMap: BundleMap,
  at: { readonly line: number; readonly column: number },
): Pick<ProblemLocation, 'path' | 'line' | 'column'> {
  if (at.line < 1 || at.column < 0) return {};
  const entry = toParsed(sourceMap).findEntry(at.line - 1, at.column);
  if (!('originalSource' in entry)) return {};
  // A package may contain source maps of its own, which can name any path: accept files of the package only.
  const source = String(entry.originalSource);
  if (!source.startsWith(`${NAMESPACE}:`)) return {};
  return { path: source.slice(NAMESPACE.length + 1), line: entry.originalLine + 1, column: entry.originalColumn + 1 };
}

/**
 * Maps the first frame of a stack trace that lies in the bundle to the author's file.
 *
 * @param sourceName the bundle's file name in stack traces
 */
export function mapStack(
  sourceMap: string,
  stack: string,
  sourceName: string,
): Pick<ProblemLocation, 'path' | 'line' | 'column'> {
  const at = findBundlePosition(stack, sourceName);
  return at ? mapPosition(sourceMap, at) : {};
}

/** Finds the first frame of a stack trace that lies in the bundle: line from 1, column from 0. */
export function findBundlePosition(stack: string, sourceName: string): { line: number; column: number } | null {
  const start = stack.indexOf(`${sourceName}:`);
  if (start < 0) return null;
  const place = /^:(\d+):(\d+)/.exec(stack.slice(start + sourceName.length));
  return place ? { line: Number(place[1]), column: Number(place[2]) - 1 } : null;
}
