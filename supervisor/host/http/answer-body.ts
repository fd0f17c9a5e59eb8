/** Reads the body of an answer: decoded, and no longer than allowed, counted after decoding. */
import { pipeline, type Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { hostCalls } from '../../../sdk/contract/protocol.ts';
import { HostError } from '../host-call.ts';
import type { Headers } from './headers.ts';

/** Headers of an answer, bytes: what is longer ends the connection. */
export const ANSWER_HEADERS_BYTES = 64 * 1024;
const ROOM = hostCalls['http.fetch'].maxBytes - 2 * ANSWER_HEADERS_BYTES;

/** Bodies of other types have no text, and therefore may be twice as long. */
const TEXT = /^(text\/|application\/([\w.-]+\+)?(json|xml|javascript|yaml|x-www-form-urlencoded|x-ndjson)\b)|charset=/i;
const CHARSET = /charset="?([\w.:-]+)"?/i;

const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
};

export interface AnswerBody {
  readonly bodyText: string;
  readonly bodyBytes: Uint8Array<ArrayBuffer>;
}

/**
 * @param headers of the answer; `content-encoding` names one coding at most
 * @throws HostError when the body is too long, or coded in a way that is not understood
 */
export async function readBody(stream: Readable, headers: Headers): Promise<AnswerBody> {
  const type = headers['content-type'] ?? 'text/plain';
  const isText = TEXT.test(type);
  const maxBytes = isText ? ROOM / 2 : ROOM;
  const coding = headers['content-encoding']?.trim().toLowerCase() ?? '';
  const bodyBytes = await collect(decoded(stream, coding), maxBytes);
  return { bodyBytes, bodyText: isText ? textOf(bodyBytes, type) : '' };
}

function decoded(stream: Readable, coding: string): Readable {
  if (coding === '' || coding === 'identity') return stream;
  const make = Object.hasOwn(decoders, coding) ? decoders[coding] : undefined;
  // A chain of codings multiplies a bomb, and nobody honest sends one.
  if (!make) throw new HostError(`the answer's content-encoding ${coding.slice(0, 40)} is not understood`);
  // Its errors reach whoever reads the decoder.
  return pipeline(stream, make(), () => undefined);
}

async function collect(stream: Readable, maxBytes: number): Promise<Buffer<ArrayBuffer>> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of stream as AsyncIterable<Buffer>) {
    bytes += part.byteLength;
    if (bytes > maxBytes) throw new HostError(`the answer is longer than ${maxBytes} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function textOf(bytes: Buffer, type: string): string {
  const charset = CHARSET.exec(type)?.[1] ?? 'utf-8';
  try {
    return new TextDecoder(charset).decode(bytes);
  } catch {
    // An unknown charset.
    return new TextDecoder().decode(bytes);
  }
}
