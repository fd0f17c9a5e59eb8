/** Decodes the body of a response, and reads it with a limit on the decoded size. */
import { pipeline, type Readable } from 'node:stream';
import { createGunzip, createInflate, type Gunzip, type Inflate } from 'node:zlib';
import { getOwn } from '../../../sdk/contract/get-own.ts';
import { KIB } from '../../../sdk/contract/limits.ts';
import { hostCalls } from '../../../sdk/contract/protocol.ts';
import { HostError } from '../host-call.ts';
import type { Coding, Headers } from './headers.ts';

/** Maximum size of response headers; larger ones end the connection. Bytes. */
export const ANSWER_HEADERS_BYTES = 64 * 1024;
/** Maximum size of a body in a result of the host call, which also has the headers. Bytes. */
const BODY_MAX_BYTES = hostCalls['http.fetch'].maxBytes - 2 * ANSWER_HEADERS_BYTES;

/** Types whose body is returned as text, too. It takes its place twice, so it may be half as large. */
const TEXT = /^(text\/|application\/([\w.-]+\+)?(json|xml|javascript|yaml|x-www-form-urlencoded|x-ndjson)\b)|charset=/i;
const CHARSET = /charset="?([\w.:-]+)"?/i;

/**
 * Bytes of a body that a stream holds before it reads no further. Each part is an object of more than 100 bytes, and a server may send
 * parts of one byte: with the default of 64 KiB, a stream would hold 7.5 MiB of them.
 */
export const UNREAD_BYTES = 4 * KIB;
/** With an option that the types of zlib require, at its default: they do not have `highWaterMark`, which all streams take. */
const DECODER = { chunkSize: 16 * KIB, highWaterMark: UNREAD_BYTES };

type Decoder = Gunzip | Inflate;

/** Without `br`: its decoder keeps a window of 16 MiB for each open body, of which gzip's has 32 KiB. */
const decoders: Readonly<Record<Coding, () => Decoder>> = {
  gzip: () => createGunzip(DECODER),
  'x-gzip': () => createGunzip(DECODER),
  deflate: () => createInflate(DECODER),
};

/** Counts a decoded part of a body. The next part is read when the promise has resolved. */
export type TakePart = (part: Uint8Array) => Promise<void> | undefined;

export interface AnswerBody {
  readonly bodyText: string;
  readonly bodyBytes: Uint8Array<ArrayBuffer>;
}

/**
 * Reads a decoded body to its end.
 *
 * @param take called with each part before the next one is read
 * @throws HostError when it is too large
 */
export async function readBody(stream: Readable, headers: Headers, take: TakePart): Promise<AnswerBody> {
  const maxBytes = TEXT.test(contentType(headers)) ? BODY_MAX_BYTES / 2 : BODY_MAX_BYTES;
  const bodyBytes = await collect(stream, maxBytes, take);
  return { bodyBytes, bodyText: readBodyText(bodyBytes, headers) };
}

/** Returns the text of a decoded body. Empty: its type is not one of text. */
export function readBodyText(bodyBytes: Uint8Array, headers: Headers): string {
  const type = contentType(headers);
  return TEXT.test(type) ? decodeText(bodyBytes, type) : '';
}

const contentType = (headers: Headers): string => headers['content-type'] ?? 'text/plain';

/** @param encoding the header `content-encoding`, which may name one @throws HostError when it is not supported */
export function decodeBody(stream: Readable, encoding: string): Readable {
  const coding = encoding.trim().toLowerCase();
  if (coding === '' || coding === 'identity') return stream;
  const make = getOwn(decoders, coding);
  // A list of several encodings is refused: each one could multiply the size, and ordinary servers use one.
  // Without its name, in which a server could show the plugin a secret that it repeats.
  if (!make) throw new HostError('the response has a content-encoding that is not understood; gzip and deflate are');
  // The decoder emits this stream's errors to its reader, so they need no handling here.
  return pipeline(stream, acceptEmpty(make()), () => undefined);
}

/** Some servers send `content-encoding` with an empty body, in which a decoder would miss the end of the encoded data. */
function acceptEmpty(decoder: Decoder): Decoder {
  const flush = decoder._flush.bind(decoder);
  decoder._flush = (callback) => (decoder.bytesWritten === 0 ? callback() : flush(callback));
  return decoder;
}

async function collect(stream: Readable, maxBytes: number, take: TakePart): Promise<Buffer<ArrayBuffer>> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of stream as AsyncIterable<Buffer>) {
    bytes += part.byteLength;
    if (bytes > maxBytes) throw new HostError(`the response is longer than ${maxBytes} bytes`);
    await take(part);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function decodeText(bytes: Uint8Array, type: string): string {
  const charset = CHARSET.exec(type)?.[1] ?? 'utf-8';
  try {
    return new TextDecoder(charset).decode(bytes);
  } catch {
    // An unknown charset.
    return new TextDecoder().decode(bytes);
  }
}
