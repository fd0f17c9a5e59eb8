/** Requests to the session API over `fetch`: what it may repeat it repeats, what it may not it says. Web globals only. */
import type { ProblemLocation } from '../contract/errors.ts';

export interface TransportOptions {
  /** Address of the session API, such as `http://localhost:4010`. */
  readonly url: string;
  /** The bearer token, or what finds a fresh one; asked again for every request. */
  readonly token: string | (() => string | Promise<string>);
  /** How long a call is repeated while the service restarts or asks to wait, milliseconds. Default 30,000; 0: never. */
  readonly retryForMs?: number;
  /** Instead of the global one. */
  readonly fetch?: typeof globalThis.fetch;
}
export interface Call {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** Below the address, starting with `/`. */
  readonly path: string;
  readonly body?: unknown;
  /** In place of `body`: bytes of another content type, made anew for each attempt. */
  readonly stream?: { readonly type: string; readonly open: () => ReadableStream<Uint8Array> };
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** Whether doing it twice is doing it once. A GET is. */
  readonly repeatable?: boolean;
}

const RETRY_FOR_MS = 30_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** Nothing of the plugin or the state ran: the answer itself says so. */
const NOT_STARTED = new Set([429, 503]);
/** Errors of `fetch` in Node, Deno and Bun after which no byte has reached the other side. */
const REFUSED = new Set(['ECONNREFUSED', 'ConnectionRefused', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

/** The service answered with a problem. `code` is one of contract and REFERENCE; `message` says what to do. */
export class BulkheadError extends Error {
  override readonly name = 'BulkheadError';
  readonly status: number;
  readonly code: string;
  readonly requestId: string | null;
  readonly errors: readonly ProblemLocation[];

  constructor(status: number, body: ProblemLike) {
    super(body.detail ?? body.title ?? `The service answered with ${status}.`);
    this.status = status;
    this.code = body.code ?? 'internal';
    this.requestId = body.requestId ?? null;
    this.errors = body.errors ?? [];
  }
}

/** The connection broke, and whether the call was done is not known: it is not one to repeat blindly. */
export class ConnectionLostError extends Error {
  override readonly name = 'ConnectionLostError';
}

interface ProblemLike {
  readonly title?: string;
  readonly detail?: string;
  readonly code?: string;
  readonly requestId?: string;
  readonly errors?: readonly ProblemLocation[];
}

export class Transport {
  readonly #options: TransportOptions;
  readonly #base: string;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#base = options.url.replace(/\/+$/, '');
  }

  /**
   * The JSON of an answer; null where there is none.
   *
   * @throws BulkheadError, ConnectionLostError, or the signal's reason
   */
  async json<T>(call: Call): Promise<T> {
    const response = await this.open(call);
    return (response.status === 204 ? null : await response.json()) as T;
  }

  /** A successful answer whose body was not read. @throws as `json` */
  async open(call: Call): Promise<Response> {
    const until = Date.now() + (this.#options.retryForMs ?? RETRY_FOR_MS);
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(LONGEST_PAUSE_MS, pause * 2)) {
      const { response, error, wait } = await this.#attempt(call);
      if (response) return response;
      // Apart by chance, so that many callers do not come back at one moment.
      const ms = wait ?? pause * (0.5 + Math.random());
      if (Date.now() + ms > until || error instanceof ConnectionLostError) throw error;
      await pauseFor(ms, call.signal);
    }
  }

  async #attempt(call: Call): Promise<{ response?: Response; error?: unknown; wait?: number | undefined }> {
    const send = this.#options.fetch ?? globalThis.fetch;
    let response: Response;
    try {
      response = await send(`${this.#base}${call.path}`, await this.#request(call));
    } catch (error) {
      call.signal?.throwIfAborted();
      return { error: this.#broken(call, error) };
    }
    if (response.ok) return { response };
    const problem = new BulkheadError(response.status, await problemOf(response));
    if (!NOT_STARTED.has(response.status)) throw problem;
    const seconds = Number(response.headers.get('retry-after'));
    return { error: problem, wait: seconds > 0 ? seconds * 1000 : undefined };
  }

  async #request({ method, body, stream, headers, signal }: Call): Promise<RequestInit> {
    const { token } = this.#options;
    return {
      method,
      headers: {
        authorization: `Bearer ${typeof token === 'string' ? token : await token()}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(stream === undefined ? {} : { 'content-type': stream.type }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(stream === undefined ? {} : { body: stream.open(), duplex: 'half' }),
      ...(signal ? { signal } : {}),
    };
  }

  #broken({ method, path, repeatable = method === 'GET' }: Call, error: unknown): unknown {
    if (repeatable || REFUSED.has(codeOf(error))) return error;
    return new ConnectionLostError(`The connection broke during ${method} ${path}: it may have been done, or not.`, {
      cause: error,
    });
  }
}

/** Node puts the reason below the error of `fetch`. */
function codeOf(error: unknown): string {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } };
  return String(code ?? cause?.code ?? '');
}

async function problemOf(response: Response): Promise<ProblemLike> {
  try {
    return (await response.json()) as ProblemLike;
  } catch {
    return { title: `The service answered with ${response.status}.` };
  }
}

/** @throws the signal's reason */
export function pauseFor(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    if (signal?.aborted) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
  });
}
