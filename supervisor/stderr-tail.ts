/** The end of what a process says, for whoever has to find out why it died. */
import type { Readable } from 'node:stream';

/** Bytes kept of one child. */
const TAIL_BYTES = 8_192;

/** Drains a stream for as long as it lives. Answers a function for the text kept so far. */
export function keepTail(stream: Readable): () => string {
  let tail = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk.subarray(-TAIL_BYTES)]).subarray(-TAIL_BYTES);
  });
  // Its end is the child's, which is reported where it counts.
  stream.on('error', () => {});
  return () => tail.toString('utf8');
}
