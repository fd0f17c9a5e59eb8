/** Blob and File for plugins, as the file standard defines them. */
import { ReadableStream } from './readable-stream.ts';

export type BlobPart = string | Blob | ArrayBuffer | ArrayBufferView;

/** Bytes of one chunk of a blob's stream. */
const CHUNK_BYTES = 65_536;

/** The bytes of a blob, for the other files of the web's part. They are never changed. */
export let bytesOf: (blob: Blob) => Uint8Array<ArrayBuffer>;

export class Blob {
  readonly #bytes: Uint8Array<ArrayBuffer>;
  readonly #type: string;

  static {
    bytesOf = (blob) => blob.#bytes;
  }

  constructor(
    parts: Iterable<BlobPart> = [],
    { type = '' }: { readonly type?: string; readonly endings?: string } = {},
  ) {
    if (typeof parts !== 'object' || parts === null || !(Symbol.iterator in parts))
      throw new TypeError('the parts of a Blob must be a list');
    this.#bytes = joinBytes([...parts].map(readPart));
    const text = String(type);
    this.#type = /[^\x20-\x7e]/.test(text) ? '' : text.toLowerCase();
  }

  get size(): number {
    return this.#bytes.byteLength;
  }
  get type(): string {
    return this.#type;
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return this.#bytes.slice().buffer;
  }
  async bytes(): Promise<Uint8Array<ArrayBuffer>> {
    return this.#bytes.slice();
  }
  async text(): Promise<string> {
    return new TextDecoder().decode(this.#bytes);
  }

  slice(start = 0, end: number = this.size, type = ''): Blob {
    // `slice` of the bytes counts from the end for negative numbers, as the standard wants.
    return new Blob([this.#bytes.slice(start, end)], { type });
  }

  stream(): ReadableStream<Uint8Array> {
    return streamBytes(this.#bytes);
  }
}

export class File extends Blob {
  readonly #name: string;
  readonly #lastModified: number;

  constructor(
    parts: Iterable<BlobPart>,
    name: string,
    options: { readonly type?: string; readonly lastModified?: number } = {},
  ) {
    if (name === undefined) throw new TypeError('a File needs its parts and a name');
    super(parts, options);
    this.#name = String(name);
    this.#lastModified = Number(options.lastModified ?? Date.now());
  }
  get name(): string {
    return this.#name;
  }
  get lastModified(): number {
    return this.#lastModified;
  }
  get webkitRelativePath(): string {
    return '';
  }
}

/** A stream of copies of some bytes. */
export function streamBytes(bytes: Uint8Array): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream<Uint8Array>(
    {
      type: 'bytes',
      pull(controller) {
        if (at < bytes.byteLength) controller.enqueue(bytes.slice(at, at + CHUNK_BYTES));
        at += CHUNK_BYTES;
        if (at >= bytes.byteLength) controller.close();
      },
    },
    { highWaterMark: 0 },
  );
}

export function joinBytes(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.byteLength;
  }
  return joined;
}

/** The bytes of a buffer or a view of one; null for anything else. */
export function viewBytes(value: unknown): Uint8Array | null {
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? new Uint8Array(value) : null;
}

const readPart = (part: unknown): Uint8Array =>
  part instanceof Blob ? bytesOf(part) : (viewBytes(part) ?? new TextEncoder().encode(String(part)));
