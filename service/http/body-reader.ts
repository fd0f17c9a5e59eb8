/** Reads the bodies of requests within limits of bytes and time, and discards those that are refused. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Problem } from '../../sdk/contract/errors.ts';
import { KIB, MIB, SECOND } from '../../sdk/contract/limits.ts';
import { COSTLY_BYTES } from '../timing/loop-turns.ts';

/** A body may have this many chunks of any size. A body with more must have at least this mean chunk size. */
const FREE_CHUNKS = 4_096;
const MEAN_CHUNK_MIN_BYTES = 16;

/** Whether a body costs more by its number of chunks than by its bytes: 11,000 chunks of a byte stop the event loop for 20 ms. */
const isFragmented = (chunks: number, bytes: number): boolean =>
  chunks > FREE_CHUNKS && bytes < chunks * MEAN_CHUNK_MIN_BYTES;

const CODING_SHOWN_CHARS = 40;

/** Refuses a compressed body, which may expand to any size. @throws Problem `unsupported_media_type` */
export function refuseEncodedBody({ headers }: FastifyRequest, reply: FastifyReply): void {
  const coding = headers['content-encoding'] ?? 'identity';
  if (coding.toLowerCase() === 'identity') return;
  reply.header('accept-encoding', 'identity');
  throw new Problem(
    'unsupported_media_type',
    `The Content-Encoding “${coding.slice(0, CODING_SHOWN_CHARS)}” is not supported. Send the body uncompressed, without this header.`,
  );
}

/** Whether a request announces a body whose reading takes turns of the loop. One of unknown size may be of any. */
export const mayBeCostly = (headers: IncomingHttpHeaders): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > COSTLY_BYTES;

/** Least rate of a client that holds one of few places, whether it sends or takes. A slow line has twice as much. Bytes per second. */
export const LEAST_BYTES_PER_SECOND = 32 * KIB;

export interface BodyBounds {
  readonly maxBytes: number;
  /** How long the client may take, milliseconds. */
  readonly withinMs: number;
  /** Bytes that arrive extend the client's time at this rate, up to `withinMs` from now. Default: they do not. */
  readonly leastBytesPerSecond?: number;
}

/** Returns when a body must have ended at the latest, after further bytes arrived. Times are in milliseconds. */
export function postponeEnd(endsAt: number, bytes: number, now: number, bounds: BodyBounds): number {
  const { withinMs, leastBytesPerSecond = Number.POSITIVE_INFINITY } = bounds;
  return Math.min(endsAt + (bytes / leastBytesPerSecond) * SECOND, now + withinMs);
}

/**
 * Passes a body on chunk by chunk. After an error, the rest of the body is not read. Settles after the last `onChunk` has settled.
 *
 * @param onChunk if it returns a promise, the body is paused until the promise resolves
 * @throws Problem `too_large` as soon as that is certain, `bad_request` where the body ends early or takes too long, and
 *   what `onChunk` throws
 */
export async function readChunks(
  body: Readable,
  contentLength: string | undefined,
  bounds: BodyBounds,
  onChunk: (chunk: Buffer) => void | Promise<void>,
): Promise<void> {
  const { maxBytes, withinMs, leastBytesPerSecond } = bounds;
  const tooLarge = () =>
    new Problem('too_large', `The body is larger than ${maxBytes} bytes, the limit of this address.`);
  const tooFragmented = () =>
    new Problem(
      'bad_request',
      `The request's body comes in chunks of less than ${MEAN_CHUNK_MIN_BYTES} bytes. Send larger chunks.`,
    );
  if (Number(contentLength ?? 0) > maxBytes) throw tooLarge();
  const { promise: ended, resolve, reject } = Promise.withResolvers<void>();
  const fail = (how: string): void => reject(new Problem('bad_request', `The request's body ${how}.`));
  const slow =
    leastBytesPerSecond === undefined
      ? `took longer than ${withinMs / SECOND} s`
      : `comes at less than ${leastBytesPerSecond / KIB} KiB per second. Send it over a faster connection`;
  let endsAt = performance.now() + withinMs;
  const checkTime = (): void => {
    const leftMs = endsAt - performance.now();
    if (leftMs <= 0) fail(slow);
    else timer = setTimeout(checkTime, leftMs).unref();
  };
  let timer = setTimeout(checkTime, withinMs).unref();
  let bytes = 0;
  let chunks = 0;
  let writing: Promise<void> | undefined;
  const onData = (chunk: Buffer): void => {
    bytes += chunk.byteLength;
    chunks += 1;
    endsAt = postponeEnd(endsAt, chunk.byteLength, performance.now(), bounds);
    try {
      if (bytes > maxBytes) throw tooLarge();
      if (isFragmented(chunks, bytes)) throw tooFragmented();
      writing = onChunk(chunk) ?? undefined;
      if (writing !== undefined) {
        body.pause();
        writing.then(() => body.resume(), reject);
      }
    } catch (error) {
      reject(error);
    }
  };
  const onGone = (): void => fail('ended before it was complete');
  const onEnd = (): void => {
    // `close` follows before this function goes on, and would make an error with a stack for each complete body.
    body.off('close', onGone);
    resolve();
  };
  body.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
  // If the client disconnected while the request was queued, no event follows.
  if (body.destroyed) onGone();
  try {
    await ended;
    await writing;
  } finally {
    clearTimeout(timer);
    // The listener of `error` stays: without one, a later error would end the process.
    body.off('data', onData).off('end', onEnd).off('close', onGone);
    // Afterwards the caller releases what the last `onChunk` uses, such as a file.
    await writing?.catch(() => undefined);
  }
}

/** Reads a whole body into memory. @throws Problem as `readChunks` does */
export async function readBody(body: Readable, contentLength: string | undefined, bounds: BodyBounds): Promise<Buffer> {
  const chunks = new BodyChunks();
  await readChunks(body, contentLength, bounds, (chunk) => chunks.add(chunk));
  return chunks.takeJoined();
}

/** Chunks are merged if their mean size is smaller, because each takes about 300 bytes besides its content. Bytes. */
const SMALL_CHUNK_BYTES = KIB;
/** Chunks are merged only if there are more than this. */
const MERGE_CHUNKS = 64;

/** Collects the chunks of a body. Merges small ones, so that they take about the memory of their content. */
export class BodyChunks {
  #chunks: Buffer[] = [];
  #bytes = 0;

  /** Bytes of all chunks. */
  get bytes(): number {
    return this.#bytes;
  }

  add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.byteLength;
    const { length } = this.#chunks;
    if (length > MERGE_CHUNKS && this.#bytes < length * SMALL_CHUNK_BYTES) this.#chunks = [Buffer.concat(this.#chunks)];
  }

  /** Returns the chunks and forgets them. */
  takeAll(): readonly Buffer[] {
    const chunks = this.#chunks;
    this.#chunks = [];
    this.#bytes = 0;
    return chunks;
  }

  /** Returns the body as one buffer and forgets the chunks. Does not copy a single chunk. */
  takeJoined(): Buffer {
    const chunks = this.takeAll();
    return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
  }
}

/** How long a client may continue to send a refused body, and how many bytes. */
const DISCARD_MS = 10 * SECOND;
const DISCARD_MAX_BYTES = 64 * MIB;
/** Pause after each `DISCARD_PAUSE_BYTES`, times the number of discarded bodies: together at most 64 MB/s. Milliseconds. */
const DISCARD_PAUSE_MS = 1;
const DISCARD_PAUSE_BYTES = 64 * KIB;
/** Maximum number of refused bodies that the process reads and discards at once. For a further one, the connection of the oldest is closed. */
const DISCARDS_AT_ONCE = 16;

/** Functions that end running discards of refused bodies, in the order of their start. */
const discards = new Set<() => void>();
/** Bodies that are discarded. */
const discarded = new Set<IncomingMessage>();

/**
 * Reads and discards the rest of a refused body, so that the client sees the response: the kernel resets a connection that is closed
 * while the client sends. Closes the connection nevertheless if the body exceeds the limits, or when too many others follow it: slow
 * clients cannot keep others from their responses.
 */
export function discardBody(body: IncomingMessage, response: ServerResponse): void {
  // The client has disconnected, and the listener of `close` below would never run.
  if (body.destroyed) return;
  body.unpipe();
  const stop = (): void => void body.destroy();
  const stopAnswered = (): void => {
    discards.delete(stopAnswered);
    if (response.writableFinished) stop();
    else response.once('finish', stop);
  };
  const [oldest] = discards;
  if (discards.size >= DISCARDS_AT_ONCE) oldest?.();
  discards.add(stopAnswered);
  body.once('close', () => discards.delete(stopAnswered));
  readToEnd(body);
}

/**
 * Discards what a client still sends of a body when the response is sent, with the limits of a refused one. Node would read it at any
 * speed until the time of the request is over. Until then the kernel holds the client back.
 */
export function discardAfterResponse(body: IncomingMessage, response: ServerResponse): void {
  // Before Node's own listener, which drops what has no reader.
  response.prependOnceListener('finish', () => {
    if (body.complete || body.destroyed || discarded.has(body)) return;
    body.read(0);
    readToEnd(body);
  });
}

/** Reads a body and drops it. Closes the connection if it exceeds the limits. */
function readToEnd(body: IncomingMessage): void {
  discarded.add(body);
  let bytes = 0;
  let chunks = 0;
  let pauseAt = DISCARD_PAUSE_BYTES;
  body.on('data', (chunk: Buffer) => {
    bytes += chunk.byteLength;
    chunks += 1;
    if (bytes > DISCARD_MAX_BYTES || isFragmented(chunks, bytes)) body.destroy();
    // Not after each chunk: during a pause, thousands of small chunks would pile up.
    if (bytes < pauseAt) return;
    pauseAt = bytes + DISCARD_PAUSE_BYTES;
    body.pause();
    setTimeout(() => body.resume(), DISCARD_PAUSE_MS * discarded.size).unref();
  });
  body.resume();
  const stop = (): void => void body.destroy();
  const { socket } = body;
  const timer = setTimeout(stop, DISCARD_MS).unref();
  // After the answer, Node no longer closes the request of a client that disconnects.
  socket.once('close', stop);
  body.once('close', () => {
    discarded.delete(body);
    clearTimeout(timer);
    socket.off('close', stop);
  });
}
