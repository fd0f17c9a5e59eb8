/** From a place in a bundle back to the author's file: the maps are kept with the versions, and never left to the package. */
import { SourceMap } from 'node:module';
import type { ProblemLocation } from '../../sdk/contract/errors.ts';

/** Names of modules inside the bundle start with it; it keeps esbuild's own resolver, and so the disk, out of play. */
export const NAMESPACE = 'package';

/** Frames mapped in one text; V8 writes ten a stack. */
const FRAMES_MAX = 50;

/** The text may be JSON, and stays JSON with these. */
const PLAIN = /^[^"\\\p{Cc}]{1,200}$/u;

let last: { readonly text: string; readonly map: SourceMap } | null = null;
/** Faults of one package ask one map many times. */
function parsed(text: string): SourceMap {
  if (last?.text !== text) last = { text, map: new SourceMap(JSON.parse(text)) };
  return last.map;
}

/**
 * A text with the places of stack frames mapped to the author's files; what the map does not know stays as it is.
 *
 * @param text a stranger's, of bounded length
 * @param sourceName the name the bundle was evaluated under
 */
export function mapFrames(sourceMap: string, text: string, sourceName: string): string {
  const name = sourceName.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
  let frames = 0;
  return text.replace(new RegExp(`(?<![\\w./@-])${name}:(\\d{1,9}):(\\d{1,9})(?!\\d)`, 'g'), (found, line, column) => {
    frames += 1;
    if (frames > FRAMES_MAX) return found;
    const at = mapPosition(sourceMap, { line: Number(line), column: Number(column) - 1 });
    return at.path !== undefined && PLAIN.test(at.path) ? `${at.path}:${at.line}:${at.column}` : found;
  });
}

/**
 * The author's place for a place in the bundle; empty where the map knows none (code that esbuild added).
 *
 * @param sourceMap the JSON text of the bundle's map
 * @param at line from 1, column from 0
 */
export function mapPosition(
  sourceMap: string,
  at: { readonly line: number; readonly column: number },
): Pick<ProblemLocation, 'path' | 'line' | 'column'> {
  if (at.line < 1 || at.column < 0) return {};
  const entry = parsed(sourceMap).findEntry(at.line - 1, at.column);
  if (!('originalSource' in entry)) return {};
  // A package may carry its own source maps, which name whatever they like: only package files are believed.
  const source = String(entry.originalSource);
  if (!source.startsWith(`${NAMESPACE}:`)) return {};
  return { path: source.slice(NAMESPACE.length + 1), line: entry.originalLine + 1, column: entry.originalColumn + 1 };
}

/**
 * The first place of a stack trace that lies in the bundle, mapped to the author's file.
 *
 * @param sourceName the name the bundle was evaluated under
 */
export function mapStack(
  sourceMap: string,
  stack: string,
  sourceName: string,
): Pick<ProblemLocation, 'path' | 'line' | 'column'> {
  const at = bundlePosition(stack, sourceName);
  return at ? mapPosition(sourceMap, at) : {};
}

/** The first place of a stack trace that lies in the bundle: line from 1, column from 0. */
export function bundlePosition(stack: string, sourceName: string): { line: number; column: number } | null {
  const start = stack.indexOf(`${sourceName}:`);
  if (start < 0) return null;
  const place = /^:(\d+):(\d+)/.exec(stack.slice(start + sourceName.length));
  return place ? { line: Number(place[1]), column: Number(place[2]) - 1 } : null;
}
