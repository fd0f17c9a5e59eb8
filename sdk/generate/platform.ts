/**
 * Hand-written ambient types of the web APIs that exist in a plugin. TypeScript's `dom` library cannot be used: it also
 * declares `fetch`, `WebSocket` and hundreds of others that do not exist there.
 */

/** Types inside the `Bulkhead` namespace that the generated ones build on. */
export const namespaceTypes = `/** Any JSON value. */
type Json = string | number | boolean | null | Json[] | { [name: string]: Json };
/** A JSON Schema 2020-12. The most common keywords are typed; every other keyword is allowed. */
interface JsonSchema {
  type?: string | readonly string[];
  description?: string;
  properties?: { readonly [name: string]: JsonSchema | boolean };
  required?: readonly string[];
  additionalProperties?: JsonSchema | boolean;
  items?: JsonSchema | boolean;
  enum?: readonly Json[];
  const?: Json;
  default?: Json;
  [keyword: string]: unknown;
}
/** A handler returns a value or a promise of it. */
type Answer<T> = T | Promise<T>;
/** Writes a line to the plugin’s log. \`data\` is stored as JSON. */
interface Log {
  (message: string, data?: unknown): void;
  debug(message: string, data?: unknown): void;
  info(message: string, data?: unknown): void;
  warn(message: string, data?: unknown): void;
  error(message: string, data?: unknown): void;
}`;

/** Ambient globals outside the namespace. `realm-globals.ts` says what each does. */
export const globalTypes = `declare const console: {
  debug(...data: unknown[]): void;
  log(...data: unknown[]): void;
  info(...data: unknown[]): void;
  warn(...data: unknown[]): void;
  error(...data: unknown[]): void;
  trace(...data: unknown[]): void;
  dir(value?: unknown, options?: { depth?: number | null }): void;
  dirxml(...data: unknown[]): void;
  /** Writes rows as a table; \`columns\` are the fields to show. */
  table(rows?: unknown, columns?: readonly string[]): void;
  group(...label: unknown[]): void;
  groupCollapsed(...label: unknown[]): void;
  groupEnd(): void;
  time(label?: string): void;
  timeLog(label?: string, ...data: unknown[]): void;
  timeEnd(label?: string): void;
  count(label?: string): void;
  countReset(label?: string): void;
  /** Writes an error if the condition is false. Never throws. */
  assert(condition?: unknown, ...data: unknown[]): void;
  /** Does nothing: a log keeps its lines. */
  clear(): void;
};

interface RegExpConstructor {
  /** TypeScript has it in no library before version 6. */
  escape(text: string): string;
}

interface ErrorConstructor {
  /** Of V8: writes the current stack to an object, without the frames down to those of this function or class. */
  captureStackTrace(target: object, above?: Function): void;
}

declare const self: typeof globalThis;
declare const global: typeof globalThis;

declare function setTimeout<A extends unknown[]>(callback: (...args: A) => void, ms?: number, ...args: A): number;
declare function clearTimeout(id: number | undefined): void;
declare function setInterval<A extends unknown[]>(callback: (...args: A) => void, ms?: number, ...args: A): number;
declare function clearInterval(id: number | undefined): void;
declare function setImmediate<A extends unknown[]>(callback: (...args: A) => void, ...args: A): number;
declare function clearImmediate(id: number | undefined): void;
declare function queueMicrotask(callback: () => void): void;
declare function structuredClone<T>(value: T): T;
declare function btoa(text: string): string;
declare function atob(base64: string): string;

declare const performance: {
  readonly timeOrigin: number;
  now(): number;
  toJSON(): { timeOrigin: number };
};

declare class DOMException extends Error {
  constructor(message?: string, options?: string | { name?: string; cause?: unknown });
  readonly code: number;
}

interface EventInit {
  bubbles?: boolean;
  cancelable?: boolean;
  composed?: boolean;
}
declare class Event {
  constructor(type: string, init?: EventInit);
  readonly type: string;
  readonly target: EventTarget | null;
  readonly currentTarget: EventTarget | null;
  readonly eventPhase: number;
  readonly bubbles: boolean;
  readonly cancelable: boolean;
  readonly composed: boolean;
  readonly defaultPrevented: boolean;
  readonly timeStamp: number;
  readonly isTrusted: boolean;
  composedPath(): EventTarget[];
  preventDefault(): void;
  stopPropagation(): void;
  stopImmediatePropagation(): void;
}
declare class CustomEvent<T = unknown> extends Event {
  constructor(type: string, init?: EventInit & { detail?: T });
  readonly detail: T;
}
type EventListener = ((event: Event) => unknown) | { handleEvent(event: Event): unknown };
interface EventListenerOptions {
  capture?: boolean;
  once?: boolean;
  passive?: boolean;
  signal?: AbortSignal;
}
declare class EventTarget {
  addEventListener(type: string, listener: EventListener | null, options?: EventListenerOptions | boolean): void;
  removeEventListener(type: string, listener: EventListener | null, options?: EventListenerOptions | boolean): void;
  dispatchEvent(event: Event): boolean;
}

declare class AbortSignal extends EventTarget {
  private constructor();
  /** A signal that is aborted already. */
  static abort(reason?: unknown): AbortSignal;
  /** A signal that aborts after this time, in milliseconds. */
  static timeout(ms: number): AbortSignal;
  /** A signal that aborts as soon as one of these does. */
  static any(signals: Iterable<AbortSignal>): AbortSignal;
  readonly aborted: boolean;
  readonly reason: any;
  onabort: ((event: Event) => unknown) | null;
  throwIfAborted(): void;
}
declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}

interface QueuingStrategy<T = any> {
  highWaterMark?: number;
  size?(chunk: T): number;
}
declare class CountQueuingStrategy {
  constructor(init: { highWaterMark: number });
  readonly highWaterMark: number;
  readonly size: (chunk?: unknown) => number;
}
declare class ByteLengthQueuingStrategy {
  constructor(init: { highWaterMark: number });
  readonly highWaterMark: number;
  readonly size: (chunk: { readonly byteLength: number }) => number;
}
interface UnderlyingSource<T = any> {
  type?: 'bytes' | undefined;
  start?(controller: ReadableStreamDefaultController<T>): unknown;
  pull?(controller: ReadableStreamDefaultController<T>): unknown;
  cancel?(reason?: unknown): unknown;
}
interface StreamPipeOptions {
  preventClose?: boolean;
  preventAbort?: boolean;
  preventCancel?: boolean;
  signal?: AbortSignal;
}
type ReadableStreamReadResult<T> = { done: false; value: T } | { done: true; value: undefined };
declare class ReadableStream<T = any> {
  constructor(source?: UnderlyingSource<T>, strategy?: QueuingStrategy<T>);
  static from<T>(iterable: Iterable<T> | AsyncIterable<T>): ReadableStream<T>;
  readonly locked: boolean;
  cancel(reason?: unknown): Promise<void>;
  getReader(): ReadableStreamDefaultReader<T>;
  pipeThrough<To extends ReadableStream>(
    pair: { readonly readable: To; readonly writable: WritableStream<T> },
    options?: StreamPipeOptions,
  ): To;
  pipeTo(target: WritableStream<T>, options?: StreamPipeOptions): Promise<void>;
  tee(): [ReadableStream<T>, ReadableStream<T>];
  values(options?: { preventCancel?: boolean }): AsyncIterableIterator<T>;
  [Symbol.asyncIterator](options?: { preventCancel?: boolean }): AsyncIterableIterator<T>;
}
declare class ReadableStreamDefaultReader<T = any> {
  constructor(stream: ReadableStream<T>);
  readonly closed: Promise<undefined>;
  read(): Promise<ReadableStreamReadResult<T>>;
  cancel(reason?: unknown): Promise<void>;
  releaseLock(): void;
}
declare class ReadableStreamDefaultController<T = any> {
  protected constructor();
  readonly desiredSize: number | null;
  enqueue(chunk?: T): void;
  close(): void;
  error(reason?: unknown): void;
}
declare class ReadableByteStreamController extends ReadableStreamDefaultController<Uint8Array> {
  readonly byobRequest: null;
}
interface UnderlyingSink<T = any> {
  start?(controller: WritableStreamDefaultController): unknown;
  write?(chunk: T, controller: WritableStreamDefaultController): unknown;
  close?(): unknown;
  abort?(reason?: unknown): unknown;
}
declare class WritableStream<T = any> {
  constructor(sink?: UnderlyingSink<T>, strategy?: QueuingStrategy<T>);
  readonly locked: boolean;
  abort(reason?: unknown): Promise<void>;
  close(): Promise<void>;
  getWriter(): WritableStreamDefaultWriter<T>;
}
declare class WritableStreamDefaultWriter<T = any> {
  constructor(stream: WritableStream<T>);
  readonly closed: Promise<undefined>;
  readonly ready: Promise<undefined>;
  readonly desiredSize: number | null;
  write(chunk?: T): Promise<void>;
  close(): Promise<void>;
  abort(reason?: unknown): Promise<void>;
  releaseLock(): void;
}
declare class WritableStreamDefaultController {
  private constructor();
  readonly signal: AbortSignal;
  error(reason?: unknown): void;
}
interface Transformer<In = any, Out = any> {
  start?(controller: TransformStreamDefaultController<Out>): unknown;
  transform?(chunk: In, controller: TransformStreamDefaultController<Out>): unknown;
  flush?(controller: TransformStreamDefaultController<Out>): unknown;
  cancel?(reason?: unknown): unknown;
}
declare class TransformStream<In = any, Out = any> {
  constructor(
    transformer?: Transformer<In, Out>,
    writableStrategy?: QueuingStrategy<In>,
    readableStrategy?: QueuingStrategy<Out>,
  );
  readonly readable: ReadableStream<Out>;
  readonly writable: WritableStream<In>;
}
declare class TransformStreamDefaultController<Out = any> {
  private constructor();
  readonly desiredSize: number | null;
  enqueue(chunk?: Out): void;
  error(reason?: unknown): void;
  terminate(): void;
}
declare class TextEncoderStream {
  readonly encoding: string;
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<string>;
}
declare class TextDecoderStream {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  readonly readable: ReadableStream<string>;
  readonly writable: WritableStream<Uint8Array | ArrayBuffer>;
}

type BlobPart = string | Blob | ArrayBuffer | ArrayBufferView;
declare class Blob {
  constructor(parts?: Iterable<BlobPart>, options?: { type?: string });
  readonly size: number;
  readonly type: string;
  arrayBuffer(): Promise<ArrayBuffer>;
  bytes(): Promise<Uint8Array<ArrayBuffer>>;
  slice(start?: number, end?: number, type?: string): Blob;
  stream(): ReadableStream<Uint8Array>;
  text(): Promise<string>;
}
declare class File extends Blob {
  constructor(parts: Iterable<BlobPart>, name: string, options?: { type?: string; lastModified?: number });
  readonly name: string;
  readonly lastModified: number;
}
declare class FormData implements Iterable<[string, string | File]> {
  append(name: string, value: string | Blob, filename?: string): void;
  delete(name: string): void;
  get(name: string): string | File | null;
  getAll(name: string): (string | File)[];
  has(name: string): boolean;
  set(name: string, value: string | Blob, filename?: string): void;
  forEach(callback: (value: string | File, name: string, form: FormData) => void, thisArg?: unknown): void;
  entries(): IterableIterator<[string, string | File]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string | File>;
  [Symbol.iterator](): IterableIterator<[string, string | File]>;
}
type HeadersInit = Headers | Iterable<readonly [string, string]> | { readonly [name: string]: string };
declare class Headers implements Iterable<[string, string]> {
  constructor(init?: HeadersInit);
  append(name: string, value: string): void;
  delete(name: string): void;
  get(name: string): string | null;
  getSetCookie(): string[];
  has(name: string): boolean;
  set(name: string, value: string): void;
  forEach(callback: (value: string, name: string, headers: Headers) => void, thisArg?: unknown): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}
type BodyInit =
  | string
  | URLSearchParams
  | FormData
  | Blob
  | ArrayBuffer
  | ArrayBufferView
  | ReadableStream
  | AsyncIterable<Uint8Array>;
/** The common part of requests and responses: a body that can be read once. */
interface Body {
  readonly body: ReadableStream<Uint8Array> | null;
  readonly bodyUsed: boolean;
  arrayBuffer(): Promise<ArrayBuffer>;
  blob(): Promise<Blob>;
  bytes(): Promise<Uint8Array>;
  formData(): Promise<FormData>;
  json(): Promise<any>;
  text(): Promise<string>;
}
interface RequestInit {
  method?: string;
  headers?: HeadersInit;
  body?: BodyInit | null;
  signal?: AbortSignal | null;
  /** The host follows redirects to granted hosts. There is no \`manual\`. */
  redirect?: 'follow' | 'error';
  duplex?: 'half';
}
interface Request extends Body {}
declare class Request {
  constructor(input: Request | URL | string, init?: RequestInit);
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly signal: AbortSignal;
  readonly redirect: string;
  clone(): Request;
}
interface ResponseInit {
  status?: number;
  statusText?: string;
  headers?: HeadersInit;
}
interface Response extends Body {}
declare class Response {
  constructor(body?: BodyInit | null, init?: ResponseInit);
  static error(): Response;
  static json(data: unknown, init?: ResponseInit): Response;
  static redirect(url: string | URL, status?: number): Response;
  readonly headers: Headers;
  readonly ok: boolean;
  readonly redirected: boolean;
  readonly status: number;
  readonly statusText: string;
  readonly type: string;
  readonly url: string;
  clone(): Response;
}
declare function fetch(input: Request | URL | string, init?: RequestInit): Promise<Response>;

declare class TextEncoder {
  readonly encoding: 'utf-8';
  encode(text?: string): Uint8Array<ArrayBuffer>;
  encodeInto(text: string, target: Uint8Array): { read: number; written: number };
}
declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  readonly encoding: string;
  decode(bytes?: Uint8Array | ArrayBuffer, options?: { stream?: boolean }): string;
}

declare class URLSearchParams implements Iterable<[string, string]> {
  constructor(from?: string | Iterable<readonly [string, string]> | { readonly [name: string]: string });
  readonly size: number;
  [Symbol.iterator](): IterableIterator<[string, string]>;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  forEach(callback: (value: string, name: string) => void): void;
  append(name: string, value: string): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: string): void;
  sort(): void;
  toString(): string;
}
declare class URL {
  constructor(url: string, base?: string | URL);
  static canParse(url: string, base?: string | URL): boolean;
  hash: string;
  host: string;
  hostname: string;
  href: string;
  readonly origin: string;
  password: string;
  pathname: string;
  port: string;
  protocol: string;
  search: string;
  readonly searchParams: URLSearchParams;
  username: string;
  toString(): string;
  toJSON(): string;
}

interface CryptoKey {
  readonly algorithm: { readonly name: string };
  readonly extractable: boolean;
  readonly type: 'private' | 'public' | 'secret';
  readonly usages: readonly string[];
}
type CryptoBytes = Uint8Array | ArrayBuffer;
type CryptoAlgorithm = string | { readonly name: string; readonly [parameter: string]: unknown };
interface SubtleCrypto {
  digest(algorithm: CryptoAlgorithm, data: CryptoBytes): Promise<ArrayBuffer>;
  sign(algorithm: CryptoAlgorithm, key: CryptoKey, data: CryptoBytes): Promise<ArrayBuffer>;
  verify(algorithm: CryptoAlgorithm, key: CryptoKey, signature: CryptoBytes, data: CryptoBytes): Promise<boolean>;
  encrypt(algorithm: CryptoAlgorithm, key: CryptoKey, data: CryptoBytes): Promise<ArrayBuffer>;
  decrypt(algorithm: CryptoAlgorithm, key: CryptoKey, data: CryptoBytes): Promise<ArrayBuffer>;
  importKey(
    format: 'raw' | 'pkcs8' | 'spki' | 'jwk',
    data: CryptoBytes | object,
    algorithm: CryptoAlgorithm,
    extractable: boolean,
    usages: readonly string[],
  ): Promise<CryptoKey>;
  exportKey(format: 'raw' | 'pkcs8' | 'spki', key: CryptoKey): Promise<ArrayBuffer>;
  generateKey(
    algorithm: CryptoAlgorithm,
    extractable: boolean,
    usages: readonly string[],
  ): Promise<CryptoKey | { readonly publicKey: CryptoKey; readonly privateKey: CryptoKey }>;
  deriveKey(
    algorithm: CryptoAlgorithm,
    key: CryptoKey,
    derived: CryptoAlgorithm,
    extractable: boolean,
    usages: readonly string[],
  ): Promise<CryptoKey>;
  deriveBits(algorithm: CryptoAlgorithm, key: CryptoKey, length: number): Promise<ArrayBuffer>;
}
declare const crypto: {
  readonly subtle: SubtleCrypto;
  getRandomValues<T extends Uint8Array | Uint16Array | Uint32Array | Int8Array | Int16Array | Int32Array>(array: T): T;
  randomUUID(): string;
};

/** The part of a channel request that is verified. */
interface SignedRequest {
  readonly headers: { readonly [name: string]: string };
  readonly bodyBytes: Uint8Array;
  /** When the request arrived. Default: now. */
  readonly receivedAt?: string;
}
interface SignatureOptions {
  /** Largest difference between the signed timestamp and the arrival of the request, in seconds. Default: 300. */
  readonly toleranceSeconds?: number;
}
/** One secret, or several of which one must fit, as while a secret is rotated. Null: the user has not set it. */
type SignatureSecrets = string | readonly (string | null)[];
declare const webhooks: {
  /** Standard Webhooks and Svix: \`webhook-*\` or \`svix-*\` headers. The secret is base64, with or without \`whsec_\`. */
  verifyStandard(request: SignedRequest, secret: SignatureSecrets, options?: SignatureOptions): Promise<boolean>;
  /** Stripe: \`stripe-signature\`. The secret includes \`whsec_\`. */
  verifyStripe(request: SignedRequest, secret: SignatureSecrets, options?: SignatureOptions): Promise<boolean>;
  /** GitHub: \`x-hub-signature-256\`. It signs no timestamp, so a captured request can be replayed. */
  verifyGitHub(request: SignedRequest, secret: SignatureSecrets): Promise<boolean>;
  /** Slack: \`x-slack-signature\` and \`x-slack-request-timestamp\`. */
  verifySlack(request: SignedRequest, secret: SignatureSecrets, options?: SignatureOptions): Promise<boolean>;
};`;
