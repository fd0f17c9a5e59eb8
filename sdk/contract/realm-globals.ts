/**
 * The globals of a plugin. The types in `globals.d.ts`, the page `docs/plugin-globals.md`, the suggestions for undeclared names
 * and the endowments of `sandbox-child/` derive from these tables; `test/sandbox-child/realm-globals.test.ts` compares them with the
 * realm of a real child.
 */

interface PluginGlobal {
  /** A type of the namespace `Bulkhead`. */
  readonly type: string;
  readonly doc: string;
}

/** The globals with which a plugin registers handlers and calls the host. */
export const pluginGlobals = {
  middleware: {
    type: 'Middleware',
    doc: 'Hooks that run before your agents act: `middleware.systemPrompt = (ctx) => …`.',
  },
  compaction: { type: 'Compaction', doc: 'The summarizer: `compaction.summarize = (ctx) => …`.' },
  events: { type: 'Events', doc: 'Lifecycle events: `events.pluginInstalled = (event) => …`.' },
  tools: {
    type: '{ [name: string]: Tool }',
    doc: 'Tools for agents: `tools.forecast = { description, parameters, handler }`.',
  },
  commands: {
    type: '{ [name: string]: Command }',
    doc: 'Commands for users: `commands.hello = { description, handler }`.',
  },
  providers: { type: '{ [name: string]: Provider }', doc: 'Model providers: `providers.acme = { models, chat }`.' },
  channel: { type: 'Channel', doc: 'Webhooks of a vendor: `channel.receive = (request, ctx) => …`.' },
  host: { type: 'DeclaredHost', doc: 'The host calls that the account granted to this plugin.' },
} as const satisfies Readonly<Record<string, PluginGlobal>>;

/**
 * Globals of the web, with what each does. A new one needs a line here, its declaration in `sdk/generate/platform.ts`, and its
 * value in `sandbox-child/endowments.ts`.
 */
export const platformGlobals = {
  console:
    'Writes to the plugin’s log, one line a call, as in Node: `%s %d %i %f %j %o %O %c`, maps and sets shown, tables, groups, timers. `trace` writes the level debug, with a stack; `assert` writes error; the others write info unless their name says the level.',
  setTimeout: 'Calls a function once, after a time in milliseconds.',
  clearTimeout: 'Cancels a timer of `setTimeout`.',
  setInterval:
    'Calls a function again and again, at an interval in milliseconds, until the process ends: one without calls is stopped after ten minutes, or earlier.',
  clearInterval: 'Cancels a timer of `setInterval`.',
  setImmediate: 'Calls a function once, as soon as other code had its turn.',
  clearImmediate: 'Cancels a call of `setImmediate`.',
  queueMicrotask: 'Calls a function as soon as the code that runs now has ended.',
  structuredClone: 'Copies a value deeply.',
  btoa: 'Encodes a string of Latin-1 characters as base64.',
  atob: 'Decodes base64 to a string of Latin-1 characters.',
  performance: 'The time since the plugin started, in whole milliseconds: precise clocks are absent.',
  DOMException: 'The errors of the web’s functions, with their names.',
  Event: 'Tells a listener what happened.',
  CustomEvent: 'An event with data.',
  EventTarget: 'Calls the listeners of an event.',
  AbortSignal: 'Tells an operation that it shall stop.',
  AbortController: 'Makes a signal, and aborts it.',
  CountQueuingStrategy: 'Bounds the queue of a stream by the number of chunks.',
  ByteLengthQueuingStrategy: 'Bounds the queue of a stream by its bytes.',
  ReadableStream:
    'Gives out data piece by piece. Without readers that bring their own buffer: `getReader({ mode: "byob" })` throws.',
  ReadableStreamDefaultReader: 'Reads a stream.',
  ReadableStreamDefaultController: 'Fills a stream.',
  ReadableByteStreamController: 'Fills a stream of bytes.',
  WritableStream: 'Takes data piece by piece.',
  WritableStreamDefaultWriter: 'Writes to a stream.',
  WritableStreamDefaultController: 'Ends a stream that cannot be written.',
  TransformStream: 'Turns what is written to it into what is read from it.',
  TransformStreamDefaultController: 'Fills the readable side of a transform stream.',
  TextEncoderStream: 'Encodes a stream of text as UTF-8.',
  TextDecoderStream: 'Decodes a stream of bytes to text.',
  Blob: 'Bytes with a media type.',
  File: 'Bytes with a name and a media type.',
  FormData: 'The fields of a form.',
  Headers: 'The headers of a request or response.',
  Request: 'An HTTP request.',
  Response: 'An HTTP response.',
  TextEncoder: 'Encodes text as UTF-8.',
  TextDecoder: 'Decodes bytes to text.',
  URLSearchParams: 'Reads and changes the query of a URL.',
  URL: 'Parses and changes a URL.',
  crypto: 'Web Cryptography, and random values.',
  webhooks:
    'Verifies vendors’ signatures over the exact bytes, in constant time. Returns false if the signature does not match or the timestamp is too old. Throws an error if the secret is missing or malformed. Of several secrets, those are skipped, and it throws only if none is left. The secret may be a handle, of a secret with `use: [webhooks]`: then the host verifies a body of at most 4 MiB less 64 KiB, and for a larger one the result is false, with a warning in the log.',
} as const satisfies Readonly<Record<string, string>>;

/** Globals of the web that exist only where the account granted the call behind them. */
export const grantedGlobals = {
  fetch: {
    needs: 'host.http',
    doc: 'Sends a request through `host.http.fetch`, with the same hosts, checks, limits and audit. Exists only where the account granted `host.http`. The promise resolves when the headers have arrived; the body arrives while it is read. A refused or failed request rejects with a TypeError whose `cause` is the host’s sentence.',
  },
} as const satisfies Readonly<Record<string, { needs: string; doc: string }>>;

/** Names of the realm’s global object besides `globalThis`. */
export const globalObjectNames = {
  self: 'The global object, as browsers name it.',
  global: 'The global object, as Node names it.',
} as const satisfies Readonly<Record<string, string>>;

/** The globals of ECMA-262 and ECMA-402 that plugins have. TypeScript’s own libraries declare them. */
export const languageGlobals = [
  'globalThis',
  'undefined',
  'NaN',
  'Infinity',
  'eval',
  'isFinite',
  'isNaN',
  'parseFloat',
  'parseInt',
  'decodeURI',
  'decodeURIComponent',
  'encodeURI',
  'encodeURIComponent',
  'escape',
  'unescape',
  'Object',
  'Function',
  'Boolean',
  'Symbol',
  'Number',
  'BigInt',
  'Math',
  'Date',
  'String',
  'RegExp',
  'Error',
  'AggregateError',
  'EvalError',
  'RangeError',
  'ReferenceError',
  'SuppressedError',
  'SyntaxError',
  'TypeError',
  'URIError',
  'Array',
  'ArrayBuffer',
  'DataView',
  'JSON',
  'Iterator',
  'Int8Array',
  'Uint8Array',
  'Uint8ClampedArray',
  'Int16Array',
  'Uint16Array',
  'Int32Array',
  'Uint32Array',
  'BigInt64Array',
  'BigUint64Array',
  'Float16Array',
  'Float32Array',
  'Float64Array',
  'Map',
  'Set',
  'WeakMap',
  'WeakSet',
  'WeakRef',
  'FinalizationRegistry',
  'Promise',
  'Proxy',
  'Reflect',
  'DisposableStack',
  'AsyncDisposableStack',
  'Intl',
  'Temporal',
] as const;

/** Globals of the language that plugins do not have, with the reason. */
export const withheldGlobals = {
  SharedArrayBuffer: 'memory that threads share is a precise clock',
  Atomics: 'it serves shared memory, which plugins do not have',
  WebAssembly: 'it runs code whose source cannot be reviewed at publish',
} as const satisfies Readonly<Record<string, string>>;

/** Globals of other platforms that plugins do not have, with their replacement. */
export const foreignGlobals = {
  process: 'use host.settings and host.secrets for configuration',
  Buffer: 'use Uint8Array, TextEncoder and atob',
  require: 'use an import statement with a relative path',
  window: 'a plugin has no page',
  document: 'a plugin has no page',
} as const satisfies Readonly<Record<string, string>>;

/** Every name that exists in each plugin. */
export const globalNames: readonly string[] = [
  ...Object.keys(pluginGlobals),
  ...Object.keys(platformGlobals),
  ...Object.keys(globalObjectNames),
  ...languageGlobals,
];

/** Every name that a plugin may look for and not have, with the reason or what to do. */
export const absentGlobals: Readonly<Record<string, string>> = {
  fetch: 'declare the capability host.http:<host>; fetch exists where it was granted',
  ...withheldGlobals,
  ...foreignGlobals,
};

export type PlatformGlobal = keyof typeof platformGlobals;
export type LanguageGlobal = (typeof languageGlobals)[number];
export type RegistrationGroup = Exclude<keyof typeof pluginGlobals, 'host'>;
