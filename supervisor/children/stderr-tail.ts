/** Keeps the last bytes of a process's stderr, which often say why it died. */
import type { Readable } from 'node:stream';
import { KIB } from '../../sdk/contract/limits.ts';
import { perSecond, TokenBucket } from '../../service/timing/token-bucket.ts';

/** Bytes kept of one child. */
const TAIL_BYTES = 8_192;
/** Rate at which stderr is read while the process runs, bytes per second. A report of V8 about its end has a few thousand. */
const BYTES_PER_SECOND = 64 * KIB;
/** Minimum cost of a read, bytes: a process may write single bytes. */
const READ_MIN_BYTES = 256;
const SECOND_MS = 1_000;

export interface Tail {
  text(): string;
  /** Resolves when the stream has ended, or after `STDERR_WAIT_MS` if another process holds it open. */
  waitForEnd(): Promise<void>;
}

/** The last output arrives with the exit. Longest wait for it, milliseconds. */
const STDERR_WAIT_MS = 100;

/** Drains a stream at a bounded rate and keeps its last bytes. If the stream never arrives, the tail is empty. */
export function collectTail(coming: Promise<Readable>): Tail {
  const bucket = new TokenBucket(perSecond(BYTES_PER_SECOND));
  let tail = Buffer.alloc(0);
  let isEnding = false;
  let readOn = (): void => undefined;
  const end = Promise.withResolvers<void>();
  const collect = (stream: Readable): void => {
    readOn = () => void stream.resume();
    stream.on('data', (chunk: Buffer) => {
      tail = Buffer.concat([tail, chunk.subarray(-TAIL_BYTES)]).subarray(-TAIL_BYTES);
      if (bucket.overdraw(Math.max(chunk.byteLength, READ_MIN_BYTES)) || isEnding) return;
      stream.pause();
      setTimeout(readOn, bucket.secondsUntil(1) * SECOND_MS).unref();
    });
    stream.once('close', end.resolve);
    // A broken pipe means that the child has ended, which `Child` reports.
    stream.on('error', () => undefined);
  };
  coming.then(collect, () => end.resolve());
  return {
    text: () => tail.toString('utf8'),
    async waitForEnd() {
      // The process has ended: what is left fits into the pipe.
      isEnding = true;
      readOn();
      const timer = setTimeout(end.resolve, STDERR_WAIT_MS);
      await end.promise;
      clearTimeout(timer);
    },
  };
}
