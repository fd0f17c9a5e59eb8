/** Runs in a thread: maps stack traces, so that a source map of megabytes holds up no hook. */
import { mapFrames } from '../../db/records/source-maps.ts';

export interface StackTask {
  readonly sourceMapSha256: string;
  /** Null: the thread may have it still. */
  readonly sourceMap: Uint8Array | null;
  readonly sourceName: string;
  readonly texts: readonly string[];
}
/** Maps kept by this thread, the longest unused first. */
const KEPT_BYTES = 64 * 1024 * 1024;
const maps = new Map<string, string>();
let bytes = 0;

/** The texts mapped; null: the map must be sent along. */
export function mapStacks({ sourceMapSha256, sourceMap, sourceName, texts }: StackTask): readonly string[] | null {
  const map = sourceMap === null ? maps.get(sourceMapSha256) : Buffer.from(sourceMap).toString('utf8');
  if (map === undefined) return null;
  keep(sourceMapSha256, map);
  return texts.map((text) => mapFrames(map, text, sourceName));
}

function keep(name: string, map: string): void {
  bytes += map.length - (maps.get(name)?.length ?? 0);
  maps.delete(name);
  maps.set(name, map);
  for (const [oldest, text] of maps) {
    if (bytes <= KEPT_BYTES) return;
    maps.delete(oldest);
    bytes -= text.length;
  }
}
