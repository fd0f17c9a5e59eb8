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

/** Ambient globals outside the namespace. */
export const globalTypes = `/** Writes to the plugin’s log, like \`host.log\`. */
declare const console: {
  debug(...data: unknown[]): void;
  log(...data: unknown[]): void;
  info(...data: unknown[]): void;
  warn(...data: unknown[]): void;
  error(...data: unknown[]): void;
  trace(...data: unknown[]): void;
  dir(...data: unknown[]): void;
};

declare function setTimeout<A extends unknown[]>(callback: (...args: A) => void, ms?: number, ...args: A): number;
declare function clearTimeout(id: number | undefined): void;
declare function setInterval<A extends unknown[]>(callback: (...args: A) => void, ms?: number, ...args: A): number;
declare function clearInterval(id: number | undefined): void;
declare function queueMicrotask(callback: () => void): void;
declare function structuredClone<T>(value: T): T;
/** Encodes a string of Latin-1 characters as base64. */
declare function btoa(text: string): string;
declare function atob(base64: string): string;

declare class AbortSignal {
  private constructor();
  /** A signal that is aborted already. */
  static abort(reason?: unknown): AbortSignal;
  /** A signal that aborts after this time, in milliseconds. */
  static timeout(ms: number): AbortSignal;
  /** A signal that aborts as soon as one of these does. */
  static any(signals: Iterable<AbortSignal>): AbortSignal;
  readonly aborted: boolean;
  readonly reason: unknown;
  onabort: AbortListener | null;
  throwIfAborted(): void;
  addEventListener(type: 'abort', listener: AbortListener, options?: { once?: boolean }): void;
  removeEventListener(type: 'abort', listener: AbortListener): void;
}
type AbortListener = (event: { readonly type: 'abort'; readonly target: AbortSignal }) => void;
declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}

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

/** The part of a channel request that is signed. */
interface SignedRequest {
  readonly headers: { readonly [name: string]: string };
  readonly bodyBytes: Uint8Array;
}
interface SignatureOptions {
  /** Largest difference between the signed timestamp and now, in seconds. Default: 300. */
  readonly toleranceSeconds?: number;
}
/**
 * Verifies vendors' signatures over the exact bytes, in constant time. Returns false if the signature does not match or
 * the timestamp is too old. Throws a TypeError if the secret is missing or malformed. The secret may be a handle, of a secret
 * with \`use: [webhooks]\`: then the host verifies.
 */
declare const webhooks: {
  /** Standard Webhooks and Svix: \`webhook-*\` or \`svix-*\` headers. The secret is base64, with or without \`whsec_\`. */
  verifyStandard(request: SignedRequest, secret: string, options?: SignatureOptions): Promise<boolean>;
  /** Stripe: \`stripe-signature\`. The secret includes \`whsec_\`. */
  verifyStripe(request: SignedRequest, secret: string, options?: SignatureOptions): Promise<boolean>;
  /** GitHub: \`x-hub-signature-256\`. It signs no timestamp, so a captured request can be replayed. */
  verifyGitHub(request: SignedRequest, secret: string): Promise<boolean>;
  /** Slack: \`x-slack-signature\` and \`x-slack-request-timestamp\`. */
  verifySlack(request: SignedRequest, secret: string, options?: SignatureOptions): Promise<boolean>;
};`;
