/** The end of what a process says, for whoever has to find out why it died. */
import type { Readable } from 'node:stream';

/** Bytes kept of one child. */
const TAIL_BYTES = 8_192;

export interface Tail {
  text(): string;
  /** Resolves when the stream has ended, or after `LAST_WORDS_MS` if somebody else holds it open. */
  ended(): Promise<void>;
}

/** Last words arrive with the exit; they are not waited for longer than this. */
const LAST_WORDS_MS = 100;

/** Drains a stream for as long as it lives and keeps its end. One that is never there has said nothing. */
export function keepTail(coming: Promise<Readable>): Tail {
  let tail = Buffer.alloc(0);
  const end = Promise.withResolvers<void>();
  const follow = (stream: Readable): void => {
    stream.on('data', (chunk: Buffer) => {
      tail = Buffer.concat([tail, chunk.subarray(-TAIL_BYTES)]).subarray(-TAIL_BYTES);
    });
    stream.once('close', end.resolve);
    // Its end is the child's, which is reported where it counts.
    stream.on('error', () => undefined);
  };
  coming.then(follow, () => end.resolve());
  return {
    text: () => tail.toString('utf8'),
    async ended() {
      const timer = setTimeout(end.resolve, LAST_WORDS_MS);
      await end.promise;
      clearTimeout(timer);
    },
  };
}
