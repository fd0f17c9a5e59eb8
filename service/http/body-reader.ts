/** Reads a request's body whole. */
import type { Readable } from 'node:stream';
import { Problem } from '../../sdk/contract/errors.ts';

export interface BodyBounds {
  readonly maxBytes: number;
  /** How long the client may take, milliseconds. */
  readonly withinMs: number;
  /** Called with the length of each piece before it is kept. What it throws ends the reading. */
  onBytes(bytes: number): void;
}

/**
 * Reads a body into memory. After an error the rest of the body is not read.
 *
 * @throws Problem `too_large` as soon as that is certain, `bad_request` where the body ends early or takes too long, and
 *   what `onBytes` throws
 */
export function readBody(body: Readable, contentLength: string | undefined, bounds: BodyBounds): Promise<Buffer> {
  const { maxBytes, withinMs, onBytes } = bounds;
  const tooLarge = () =>
    new Problem('too_large', `The body has more than ${maxBytes} bytes, which this address accepts.`);
  const incomplete = (how: string) => new Problem('bad_request', `The request's body ${how}.`);
  if (Number(contentLength ?? 0) > maxBytes) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const timer = setTimeout(() => fail(incomplete(`took longer than ${withinMs / 1_000} s`)), withinMs).unref();
    const onData = (chunk: Buffer): void => {
      bytes += chunk.byteLength;
      try {
        if (bytes > maxBytes) throw tooLarge();
        onBytes(chunk.byteLength);
        chunks.push(chunk);
      } catch (error) {
        fail(error as Error);
      }
    };
    const onEnd = (): void => {
      stop();
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
    };
    const onGone = (): void => fail(incomplete('ended before it was complete'));
    const fail = (error: Error): void => {
      stop();
      reject(error);
    };
    const stop = (): void => {
      clearTimeout(timer);
      body.off('data', onData).off('end', onEnd).off('close', onGone);
    };
    body.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
  });
}
