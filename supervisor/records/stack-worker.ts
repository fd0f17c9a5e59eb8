/** Runs in a thread: maps stack traces, so that parsing a large source map does not block hooks. */
import { LRUCache } from 'lru-cache';
import { mapFrames } from '../../db/records/source-maps.ts';

export interface StackTask {
  readonly sourceMapSha256: string;
  /** Null: use the cached map. */
  readonly sourceMap: Uint8Array | null;
  readonly sourceName: string;
  readonly texts: readonly string[];
}
const CACHED_CHARS = 64 * 1024 * 1024;
const maps = new LRUCache<string, string>({ maxSize: CACHED_CHARS, sizeCalculation: (map) => map.length + 1 });

/** The mapped texts; null: the map is not cached and must be sent. */
export function mapStacks({ sourceMapSha256, sourceMap, sourceName, texts }: StackTask): readonly string[] | null {
  const map = sourceMap === null ? maps.get(sourceMapSha256) : Buffer.from(sourceMap).toString('utf8');
  if (map === undefined) return null;
  maps.set(sourceMapSha256, map);
  return texts.map((text) => mapFrames(map, text, sourceName));
}
