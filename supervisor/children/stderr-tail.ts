/** Keeps the last bytes of a process's stderr, which often say why it died. */
import type { Readable } from 'node:stream';

/** Bytes kept of one child. */
const TAIL_BYTES = 8_192;

export interface Tail {
  text(): string;
  /** Resolves when the stream has ended, or after `STDERR_WAIT_MS` if another process holds it open. */
  waitForEnd(): Promise<void>;
}

/** The last output arrives with the exit. Longest wait for it, milliseconds. */
const STDERR_WAIT_MS = 100;

/** Drains a stream and keeps its last bytes. If the stream never arrives, the tail is empty. */
export function collectTail(coming: Promise<Readable>): Tail {
  let tail = Buffer.alloc(0);
  const end = Promise.withResolvers<void>();
  const collect = (stream: Readable): void => {
    stream.on('data', (chunk: Buffer) => {
      tail = Buffer.concat([tail, chunk.subarray(-TAIL_BYTES)]).subarray(-TAIL_BYTES);
    });
    stream.once('close', end.resolve);
    // A broken pipe means that the child has ended, which `Child` reports.
    stream.on('error', () => undefined);
  };
  coming.then(collect, () => end.resolve());
  return {
    text: () => tail.toString('utf8'),
    async waitForEnd() {
      const timer = setTimeout(end.resolve, STDERR_WAIT_MS);
      await end.promise;
      clearTimeout(timer);
    },
  };
}
