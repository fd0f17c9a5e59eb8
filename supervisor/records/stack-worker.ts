/** Runs in a thread: maps stack traces, so that parsing a large source map does not block hooks. */
import type { SourceMap } from 'node:module';
import { LRUCache } from 'lru-cache';
import { mapFrames, parseSourceMap } from '../../db/records/source-maps.ts';
import { MIB } from '../../sdk/contract/limits.ts';

export interface StackTask {
  readonly sourceMapSha256: string;
  /** Null: use the cached map. */
  readonly sourceMap: Uint8Array | null;
  readonly sourceName: string;
  readonly texts: readonly string[];
}
/** Total length of the maps that are kept parsed, also while one is parsed. A character takes up to 22 bytes of heap. Characters. */
export const PARSED_CHARS = 8 * MIB;
const maps = new LRUCache<string, SourceMap>({ maxSize: PARSED_CHARS });

/** The mapped texts; null: the map is not cached and must be sent. */
export function mapStacks({ sourceMapSha256, sourceMap, sourceName, texts }: StackTask): readonly string[] | null {
  const map = sourceMap === null ? maps.get(sourceMapSha256) : addMap(sourceMapSha256, sourceMap);
  if (map === undefined) return null;
  return texts.map((text) => mapFrames(map, text, sourceName));
}

function addMap(sha256: string, bytes: Uint8Array): SourceMap {
  const text = new TextDecoder().decode(bytes);
  // Before it is parsed: together with the kept ones, a large map would exceed the heap.
  while (maps.size > 0 && maps.calculatedSize + text.length > PARSED_CHARS) maps.pop();
  const map = parseSourceMap(text);
  maps.set(sha256, map, { size: text.length });
  return map;
}
