/** Runs in a thread: maps stack traces, so that parsing a large source map does not block hooks. */
import { mapFrames } from '../../db/records/source-maps.ts';

export interface StackTask {
  readonly sourceMapSha256: string;
  /** Null: use the cached map. */
  readonly sourceMap: Uint8Array | null;
  readonly sourceName: string;
  readonly texts: readonly string[];
}
/** Maps cached by this thread; the least recently used is dropped. */
const KEPT_BYTES = 64 * 1024 * 1024;
const maps = new Map<string, string>();
let bytes = 0;

/** The mapped texts; null: the map is not cached and must be sent. */
export function mapStacks({ sourceMapSha256, sourceMap, sourceName, texts }: StackTask): readonly string[] | null {
  const map = sourceMap === null ? maps.get(sourceMapSha256) : Buffer.from(sourceMap).toString('utf8');
  if (map === undefined) return null;
  cacheMap(sourceMapSha256, map);
  return texts.map((text) => mapFrames(map, text, sourceName));
}

function cacheMap(name: string, map: string): void {
  bytes += map.length - (maps.get(name)?.length ?? 0);
  maps.delete(name);
  maps.set(name, map);
  for (const [oldest, text] of maps) {
    if (bytes <= KEPT_BYTES) return;
    maps.delete(oldest);
    bytes -= text.length;
  }
}
