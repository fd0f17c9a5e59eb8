/** Maps stack traces in log lines to the author's files before the lines are written, off the main thread. */
import type { Piscina } from 'piscina';
import type { Blobs } from '../../db/files/blobs.ts';
import type { LogLine } from '../../db/records/logs.ts';
import { singleWorkerPool } from '../../service/timing/single-worker-pool.ts';
import { PARSED_CHARS, type StackTask } from './stack-worker.ts';

/** Larger maps are not used: parsed, they do not fit into the thread's heap. That of the largest bundle has some 5 MiB. Bytes. */
const MAP_MAX_BYTES = PARSED_CHARS;
const THREAD_HEAP_MB = 256;
/** How long lines wait for their mapping; then they are written without. Milliseconds. */
export const MAPPING_MS = 3_000;

/** The bundle that a line's stack frames refer to. */
interface LineCode {
  readonly sourceMapSha256: string;
  /** The bundle's file name in stack traces. */
  readonly sourceName: string;
}
export interface CodedLine {
  readonly line: LogLine;
  /** Null: its version has no map. */
  readonly code: LineCode | null;
}

export class Stacks {
  readonly #blobs: Blobs;
  readonly #pool: Piscina<StackTask, readonly string[] | null>;

  constructor(blobs: Blobs) {
    this.#blobs = blobs;
    this.#pool = singleWorkerPool(new URL('./stack-worker.ts', import.meta.url), {
      name: 'mapStacks',
      heapMegabytes: THREAD_HEAP_MB,
    });
  }

  /** Returns the lines with mapped frames. Never rejects: frames that cannot be mapped stay as they are. */
  async map(lines: readonly CodedLine[]): Promise<LogLine[]> {
    const groups = new Map<string, { code: LineCode; lines: LogLine[] }>();
    for (const { line, code } of lines) {
      if (!code || !hasFrames({ line, code })) continue;
      const key = `${code.sourceMapSha256} ${code.sourceName}`;
      const group = groups.get(key) ?? { code, lines: [] };
      group.lines.push(line);
      groups.set(key, group);
    }
    const mapped = new Map<LogLine, LogLine>();
    for (const group of groups.values()) {
      const texts = group.lines.flatMap(({ message, data }) => [message, data ?? '']);
      const done = await this.#mapTexts(group.code, texts).catch(() => null);
      if (!done) continue;
      for (const [index, line] of group.lines.entries()) {
        const [message = '', data = ''] = done.slice(index * 2, index * 2 + 2);
        mapped.set(line, { ...line, message, data: line.data === null ? null : data });
      }
    }
    return lines.map(({ line }) => mapped.get(line) ?? line);
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }

  async #mapTexts(
    { sourceMapSha256, sourceName }: LineCode,
    texts: readonly string[],
  ): Promise<readonly string[] | null> {
    const task = { sourceMapSha256, sourceMap: null, sourceName, texts };
    const known = await this.#run(task);
    if (known) return known;
    const sourceMap = await this.#blobs.read(sourceMapSha256);
    return sourceMap.byteLength > MAP_MAX_BYTES ? null : this.#run({ ...task, sourceMap });
  }

  #run(task: StackTask): Promise<readonly string[] | null> {
    return this.#pool.run(task, { signal: AbortSignal.timeout(MAPPING_MS) });
  }
}

/** A mapped position contains only digits, colons and characters of package paths, so JSON text stays valid. */
export const hasFrames = ({ line: { message, data }, code }: CodedLine): boolean =>
  code !== null && (message.includes(`${code.sourceName}:`) || data?.includes(`${code.sourceName}:`) === true);
