/** From a place in a bundle back to the author's file. */
import { SourceMap } from 'node:module';
import type { ProblemLocation } from '../../sdk/errors.ts';

/** Names of modules inside the bundle start with it; it keeps esbuild's own resolver, and so the disk, out of play. */
export const NAMESPACE = 'package';

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
  const entry = new SourceMap(JSON.parse(sourceMap)).findEntry(at.line - 1, at.column);
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
