/**
 * `fetch` over `host.http.fetch`: the host checks, limits and records it like every request of a plugin. The body of a response
 * arrives while it is read.
 */
import { bodyOf } from './body.ts';
import { Headers } from './header-list.ts';
import { ReadableStream, type ReadableStreamDefaultController } from './readable-stream.ts';
import { createResponse, Request, type RequestInit, type Response } from './request.ts';

/** The answer of `host.http.fetch` when the headers have arrived. */
interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The `Set-Cookie` headers, which `headers` has joined. Absent in the tests of plugins, which script an answer. */
  readonly setCookies?: readonly string[];
  /** The body as far as it has arrived. */
  readonly bodyBytes: Uint8Array;
  /** Whether more of the body follows. */
  readonly isOpen?: boolean;
}
/** The host calls of a request. The caller chooses the id of its response's body. */
export interface SendHttp {
  /** Called synchronously by `fetch`, while the stack has the line that called it. */
  begin(): void;
  open(id: string, url: string, init: Readonly<Record<string, unknown>>): Promise<unknown>;
  /** @returns the next bytes, and whether they are the last */
  read(id: string): Promise<unknown>;
  /** Ends the request at once. */
  close(id: string): Promise<unknown>;
}

/**
 * Headers that only the host sets, repeated from the host because the child imports only types. The standard drops such
 * headers silently, and libraries rely on it; `host.http.fetch` refuses them.
 */
const SET_BY_HOST = [
  ...['connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings', 'host'],
  ...['content-length', 'expect', 'proxy-connection', 'proxy-authorization'],
];

export type Fetch = (input: Request | URL | string, init?: RequestInit | null) => Promise<Response>;

/** Requests that run or whose bodies are open; the host refuses more. */
const OPEN_MAX = 16;

export function createFetch(send: SendHttp): Fetch {
  const slots = new RequestSlots();
  let serial = 0;
  const fetch: Fetch = async (input, init) => {
    send.begin();
    const request = new Request(input, init);
    request.signal.throwIfAborted();
    serial += 1;
    const exchange = new Exchange(send, String(serial), slots, request);
    return exchange.run();
  };
  return fetch;
}

/**
 * Queues requests beyond the bound. While one waits, the open bodies are read into memory: the plugin may read them after the
 * response of that request, or never.
 */
class RequestSlots {
  readonly #waiting: (() => void)[] = [];
  /** Requests whose bodies are open. */
  readonly #open = new Set<Exchange>();
  #taken = 0;

  async acquire(): Promise<void> {
    if (this.#taken < OPEN_MAX) this.#taken += 1;
    else {
      for (const exchange of this.#open) void exchange.bufferBody();
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  addOpen(exchange: Exchange): void {
    this.#open.add(exchange);
    if (this.#waiting.length > 0) void exchange.bufferBody();
  }

  release(exchange: Exchange): void {
    this.#open.delete(exchange);
    const next = this.#waiting.shift();
    if (next) next();
    else this.#taken -= 1;
  }
}

/** One request and the body of its response. */
class Exchange {
  readonly #send: SendHttp;
  readonly #id: string;
  readonly #slots: RequestSlots;
  readonly #request: Request;
  #body: ReadableStreamDefaultController<Uint8Array> | null = null;
  #onAbort: () => void = () => undefined;
  #reading: Promise<void> | null = null;
  #isBuffering = false;
  #hasSlot = false;
  #isOver = false;

  constructor(send: SendHttp, id: string, slots: RequestSlots, request: Request) {
    this.#send = send;
    this.#id = id;
    this.#slots = slots;
    this.#request = request;
  }

  /** Rejects with the signal's reason as soon as it aborts. */
  async run(): Promise<Response> {
    const { signal } = this.#request;
    return new Promise((resolve, reject) => {
      this.#onAbort = () => {
        reject(signal.reason);
        bodyOf(this.#request).cancel(signal.reason);
        this.#body?.error(signal.reason);
        this.#close();
      };
      signal.addEventListener('abort', this.#onAbort, { once: true });
      this.#sendRequest().then(resolve, (error) => {
        this.#end();
        reject(error);
      });
    });
  }

  async #sendRequest(): Promise<Response> {
    const { url, method, headers, redirect, signal } = this.#request;
    if (redirect === 'manual')
      throw createFailure(
        new TypeError(`redirect “${redirect}” does not exist in a plugin: the host follows redirects to granted hosts`),
      );
    const body = await bodyOf(this.#request).readContent();
    signal.throwIfAborted();
    const init: Record<string, unknown> = { method, headers: sendableHeaders(headers) };
    if (body !== null) init.body = body;
    if (redirect === 'error') init.redirect = redirect;
    await this.#acquireSlot();
    let answer: HttpAnswer;
    try {
      answer = (await this.#send.open(this.#id, url, init)) as HttpAnswer;
    } catch (error) {
      throw createFailure(error);
    }
    const { status, bodyBytes, isOpen = false } = answer;
    // It was aborted while it waited to be sent.
    if (this.#isOver && isOpen) this.#close();
    signal.throwIfAborted();
    const isEmpty = method === 'HEAD' || status === 204 || status === 205 || status === 304;
    if (isEmpty && isOpen) this.#close();
    if (isEmpty || !isOpen) this.#end();
    const content = isOpen ? this.#openBody(bodyBytes) : bodyBytes;
    if (!this.#isOver) this.#slots.addOpen(this);
    return createResponse(isEmpty ? null : content, readHeaders(answer), { type: 'basic', url, status });
  }

  async #acquireSlot(): Promise<void> {
    await this.#slots.acquire();
    this.#hasSlot = !this.#isOver;
    if (!this.#isOver) return;
    this.#slots.release(this);
    this.#request.signal.throwIfAborted();
  }

  #openBody(first: Uint8Array): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        type: 'bytes',
        start: (controller) => {
          this.#body = controller;
          if (first.byteLength > 0) controller.enqueue(first);
        },
        pull: async (controller) => {
          if (this.#isBuffering) return;
          this.#reading = this.#read(controller);
          await this.#reading;
        },
        cancel: () => this.#close(),
      },
      { highWaterMark: 0 },
    );
  }

  /** Reads the rest of the body without waiting for its reader. Never rejects. */
  async bufferBody(): Promise<void> {
    const body = this.#body;
    if (body === null || this.#isBuffering) return;
    this.#isBuffering = true;
    await this.#reading;
    while (!this.#isOver) await this.#read(body);
  }

  /** Never rejects. */
  async #read(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    try {
      const { bytes, isEnd } = (await this.#send.read(this.#id)) as { bytes: Uint8Array; isEnd: boolean };
      if (this.#isOver) return;
      if (bytes.byteLength > 0) controller.enqueue(bytes);
      if (!isEnd) return;
      this.#end();
      controller.close();
    } catch (cause) {
      if (this.#isOver) return;
      this.#end();
      controller.error(new TypeError('terminated', { cause }));
    }
  }

  /** Ends a request that is under way. */
  #close(): void {
    this.#end();
    this.#send.close(this.#id).catch(() => undefined);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#request.signal.removeEventListener('abort', this.#onAbort);
    if (this.#hasSlot) this.#slots.release(this);
  }
}

/** The sentence of the host is the cause, as it is in Node. */
const createFailure = (cause: unknown): TypeError => new TypeError('fetch failed', { cause });

const sendableHeaders = (headers: Headers): Record<string, string> =>
  Object.fromEntries([...headers].filter(([name]) => !SET_BY_HOST.includes(name)));

/** Servers send headers that no plugin could; those are left out. */
function readHeaders({ headers: given, setCookies }: HttpAnswer): Headers {
  const headers = new Headers();
  for (const [name, joined] of Object.entries(given)) {
    try {
      for (const value of (name === 'set-cookie' && setCookies) || [joined]) headers.append(name, value);
    } catch {
      // Not a header by the standard.
    }
  }
  return headers;
}
