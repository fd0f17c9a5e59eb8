/** The common part of requests and responses: the body, which can be read once. */
import { Blob, bytesOf, joinBytes, streamBytes, viewBytes } from './blob.ts';
import { decodeForm, encodeMultipart, FormData } from './form-data.ts';
import type { Headers } from './header-list.ts';
import { coreOf, ReadableStream } from './readable-stream.ts';

export type BodyInit =
  | string
  | URLSearchParams
  | FormData
  | Blob
  | ArrayBuffer
  | ArrayBufferView
  | ReadableStream
  | AsyncIterable<unknown>;

/** Null: there is no content, or it arrives by the stream. */
type Content = string | Uint8Array | null;

export class Body {
  #content: Content;
  #stream: ReadableStream<Uint8Array> | null;
  #isUsed = false;

  private constructor(content: Content, stream: ReadableStream<Uint8Array> | null) {
    this.#content = content;
    this.#stream = stream;
  }

  /** @returns the body, and the content type that it has unless the headers name one */
  static from(init: BodyInit | null | undefined): { body: Body; type: string | null } {
    if (init === null || init === undefined) return Body.#fromContent(null, null);
    if (init instanceof ReadableStream) {
      if (init.locked || coreOf(init).isDisturbed) throw new TypeError('the body is a stream that was used already');
      return { body: new Body(null, init as ReadableStream<Uint8Array>), type: null };
    }
    if (init instanceof URLSearchParams)
      return Body.#fromContent(String(init).toWellFormed(), 'application/x-www-form-urlencoded;charset=UTF-8');
    if (init instanceof FormData) {
      const { bytes, type } = encodeMultipart(init);
      return Body.#fromContent(bytes, type);
    }
    if (init instanceof Blob) return Body.#fromContent(bytesOf(init), init.type || null);
    const bytes = viewBytes(init);
    // A copy: the plugin may change the bytes later.
    if (bytes) return Body.#fromContent(bytes.slice(), null);
    if (typeof init === 'object' && Symbol.asyncIterator in init)
      return { body: new Body(null, ReadableStream.from(init as AsyncIterable<Uint8Array>)), type: null };
    return Body.#fromContent(String(init).toWellFormed(), 'text/plain;charset=UTF-8');
  }

  static #fromContent(content: Content, type: string | null): { body: Body; type: string | null } {
    return { body: new Body(content, null), type };
  }

  get isUsed(): boolean {
    return this.#isUsed || (this.#stream !== null && coreOf(this.#stream).isDisturbed);
  }

  get isEmpty(): boolean {
    return this.#content === null && this.#stream === null;
  }

  /** The body as a stream; null if there is none. */
  get stream(): ReadableStream<Uint8Array> | null {
    if (this.#stream === null && this.#content !== null) {
      this.#stream = streamBytes(toBytes(this.#content));
      if (this.#isUsed) this.#stream.cancel().catch(() => undefined);
      this.#content = null;
    }
    return this.#stream;
  }

  /** A second body with the same content. @throws TypeError when it was read */
  clone(): Body {
    if (this.isUsed || this.#stream?.locked) throw new TypeError('the body was used already: clone it before');
    if (this.#stream === null) return new Body(this.#content, null);
    const [first, second] = this.#stream.tee();
    this.#stream = first;
    return new Body(null, second);
  }

  /** Moves the content into another body and leaves this one used. */
  moveContent(): Body {
    this.requireUnused();
    const moved = new Body(this.#content, this.#stream);
    this.#isUsed = !this.isEmpty;
    this.#stream = null;
    return moved;
  }

  /** Ends a body that arrives by a stream, also while it is read. */
  cancel(reason: unknown): void {
    if (this.#stream)
      coreOf(this.#stream)
        .cancel(reason)
        .catch(() => undefined);
  }

  requireUnused(): void {
    if (this.isUsed) throw new TypeError('the body was used already: a body can be read once');
    if (this.#stream?.locked) throw new TypeError('the body is locked: it has a reader');
  }

  /** Reads the content: text where it was given as text. */
  async readContent(): Promise<Content> {
    this.requireUnused();
    this.#isUsed = !this.isEmpty;
    return this.#stream ? readStream(this.#stream) : this.#content;
  }

  async readBytes(): Promise<Uint8Array> {
    return toBytes(await this.readContent());
  }

  async readText(): Promise<string> {
    const content = await this.readContent();
    return typeof content === 'string' ? content.replace(/^\ufeff/, '') : new TextDecoder().decode(toBytes(content));
  }
}

const toBytes = (content: Content): Uint8Array =>
  typeof content === 'string' ? new TextEncoder().encode(content) : (content ?? new Uint8Array());

async function readStream(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const part of stream as ReadableStream<unknown>) {
    const bytes = typeof part === 'string' ? new TextEncoder().encode(part) : viewBytes(part);
    if (bytes === null) throw new TypeError('the stream of a body gives typed arrays or text');
    parts.push(bytes);
  }
  return joinBytes(parts);
}

/** The body of a request or response, for the host's own code. */
export let bodyOf: (reader: BodyReader) => Body;

/** The base of Request and Response. */
export class BodyReader {
  readonly #body: Body;
  readonly #headers: Headers;

  static {
    bodyOf = (reader) => reader.#body;
  }

  constructor(body: Body, headers: Headers) {
    this.#body = body;
    this.#headers = headers;
  }

  get headers(): Headers {
    return this.#headers;
  }
  get body(): ReadableStream<Uint8Array> | null {
    return this.#body.stream;
  }
  get bodyUsed(): boolean {
    return this.#body.isUsed;
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return (await this.#body.readBytes()).slice().buffer as ArrayBuffer;
  }
  async bytes(): Promise<Uint8Array> {
    return (await this.#body.readBytes()).slice();
  }
  async blob(): Promise<Blob> {
    return new Blob([await this.#body.readBytes()], { type: this.#headers.get('content-type') ?? '' });
  }
  async formData(): Promise<FormData> {
    return decodeForm(await this.#body.readBytes(), this.#headers.get('content-type') ?? '');
  }
  async json(): Promise<unknown> {
    return JSON.parse(await this.#body.readText());
  }
  async text(): Promise<string> {
    return this.#body.readText();
  }
}
