/** Sends requests to the session API with `fetch`, and retries those that are safe to retry. Uses web globals only. */
import type { NO_ROUTE, ProblemCode, ProblemLocation } from '../contract/errors.ts';
import { pause } from './pause.ts';
import { removeTrailingSlashes } from './web-addresses.ts';

export interface TransportOptions {
  /** Address of the session API, such as `http://localhost:4010`. */
  readonly url: string;
  /** The bearer token, or a function that returns one. The function is called for every request. */
  readonly token: string | (() => string | Promise<string>);
  /** How long a call is retried after its first failure, while the service restarts or asks to wait, milliseconds. Default: 30,000. 0: never. */
  readonly retryForMs?: number;
  /**
   * Names this runtime as the holder of turns. A restarted runtime with the same name continues its turns at once; others
   * wait until the lease has expired. Default: a random name.
   */
  readonly runtime?: string;
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}
/** The options of a call that an agent runtime can abort. */
export interface Cancellable {
  readonly signal?: AbortSignal | undefined;
}
export interface Call extends Cancellable {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path below the address, starting with `/`. */
  readonly path: string;
  readonly body?: unknown;
  /** Replaces `body`: bytes of another content type. `open` is called for every attempt. */
  readonly stream?: { readonly type: string; readonly open: () => ReadableStream<Uint8Array> };
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether the call is idempotent. Default: true for GET, false otherwise. */
  readonly repeatable?: boolean;
}

/** For clients of the session API. Runtimes and `bulkhead` read different addresses from BULKHEAD_URL. */
export const SESSION_API_HINT =
  'If this is the REST interface, use the address of the session API (default: http://localhost:4010). Runtimes read it from BULKHEAD_URL, `bulkhead` reads it from BULKHEAD_SESSION_URL.';

const ABSOLUTE = /^https?:\/\/[^/]/i;
const RETRY_FOR_MS = 30_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** The service sends these, 503 with a code, before it starts any work, so every call is safe to retry. */
const RETRYABLE_STATUSES = new Set([429, 503]);
/** The service does not know what the call did: it lost the connection to the supervisor that ran it, or could not judge its result. */
const OUTCOME_UNKNOWN = 'outcome_unknown' satisfies ProblemCode;
/**
 * A proxy before the service sends these, without a code of Bulkhead, when it lost its connection to the service or waited too long.
 * Envoy sends 503 for a connection that broke after it had sent the request.
 */
const GATEWAY_STATUSES = new Set([502, 503, 504]);
const NO_ROUTE_DETAIL: typeof NO_ROUTE = 'No route has this address.';
const NO_ROUTE_START = NO_ROUTE_DETAIL.slice(0, -1);

/** Whether an address does not exist, as that of the session API at another service. */
export const isRouteMissing = (error: unknown): boolean =>
  error instanceof BulkheadError && error.message.startsWith(NO_ROUTE_START);

/** Error codes of Node, Deno and Bun for a connection on which no byte was sent. */
const NOT_CONNECTED = new Set([
  'ECONNREFUSED',
  'ConnectionRefused',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Error codes of Node for a certificate that it refuses. The request follows the certificate, so that no byte of it was sent. */
const CERTIFICATE_REFUSED = new Set([
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_REVOKED',
  'CERT_UNTRUSTED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/**
 * The service responded with a problem, or the token cannot be sent (401, `unauthenticated`). REFERENCE.md and the API reference list
 * the values of `code`.
 */
export class BulkheadError extends Error {
  override readonly name = 'BulkheadError';
  readonly status: number;
  readonly code: string;
  readonly requestId: string | null;
  readonly errors: readonly ProblemLocation[];

  constructor(status: number, body: ProblemLike) {
    super(
      body.detail ?? body.title ?? `The service responded with status ${status}.`,
      body.rpcError && { cause: body.rpcError },
    );
    this.status = status;
    this.code = body.code ?? 'internal';
    this.requestId = body.requestId ?? null;
    this.errors = body.errors ?? [];
  }
}

/** Whether the service responded with a problem of this code. */
export const hasCode = (error: unknown, code: string): error is BulkheadError =>
  error instanceof BulkheadError && error.code === code;

/**
 * The connection to the service, or from the service to the supervisor, broke after the request was sent, or the service says that the call may
 * have taken effect, and why. So it is not retried.
 */
export class ConnectionLostError extends Error {
  override readonly name = 'ConnectionLostError';
}

/** The address is not that of a service: it redirects to another one, or its certificate is refused. The call had no effect. */
export class AddressError extends Error {
  override readonly name = 'AddressError';
}

/** Errors of calls that did not reach the service, or whose response broke off. */
const connectionErrors = new WeakSet<object>();
/** The address of the service, by the error of a call that it refused or that did not reach it. */
const addresses = new WeakMap<object, string>();

/** Returns the address that the failed call was sent to, as it was given to `Transport`. Undefined for other errors. */
export const readAddress = (error: unknown): string | undefined => (isObject(error) ? addresses.get(error) : undefined);

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/**
 * Whether a call failed because the service is away or overloaded, so that it may succeed later. False where the call may have taken
 * effect and is not idempotent. True for an address that redirects or whose certificate is refused: if it worked before, its operator will
 * correct it.
 */
export function isOutage(error: unknown): boolean {
  if (error instanceof AddressError) return true;
  if (error instanceof BulkheadError && RETRYABLE_STATUSES.has(error.status)) return true;
  return isObject(error) && connectionErrors.has(error);
}

interface ProblemLike {
  readonly title?: string;
  readonly detail?: string;
  readonly code?: string;
  readonly requestId?: string;
  readonly errors?: readonly ProblemLocation[];
  /** The error of JSON-RPC in which a problem over MCP comes. */
  readonly rpcError?: RpcError;
}
/** The form of a problem over MCP. */
interface RpcError {
  readonly code?: number;
  readonly message?: string;
  readonly data?: object;
}

type Attempt<T> = { readonly value: T } | { readonly error: unknown; readonly retryAfterMs?: number | undefined };

export class Transport {
  readonly #options: TransportOptions;
  readonly #base: string;
  readonly #runtime: string;
  readonly #noRouteHint: string;
  readonly #onCall: ((call: Call) => void) | undefined;

  /**
   * @param noRouteHint what to do if the service has no route for a call
   * @param onCall gets every call before it is sent, once for all attempts
   * @throws Error if the address is not absolute. In a page it may be relative.
   */
  constructor(options: TransportOptions, noRouteHint = '', onCall?: (call: Call) => void) {
    if (!ABSOLUTE.test(options.url) && !('location' in globalThis))
      throw new Error(
        `The address “${options.url}” does not begin with http:// or https://. Give one such as http://localhost:4010.`,
      );
    this.#noRouteHint = noRouteHint;
    this.#onCall = onCall;
    this.#options = options;
    this.#runtime = options.runtime ?? crypto.randomUUID();
    this.#base = removeTrailingSlashes(options.url);
  }

  /** Returns a transport of the same runtime whose calls `onCall` gets. */
  withObserver(onCall: (call: Call) => void): Transport {
    return new Transport({ ...this.#options, runtime: this.#runtime }, this.#noRouteHint, onCall);
  }

  /**
   * Returns the JSON of a successful response; null for 204.
   *
   * @throws BulkheadError, ConnectionLostError, AddressError, the error of `fetch` when no connection was made or the call is idempotent, the
   * signal's reason, or Error if the response is not JSON
   */
  async json<T>(call: Call): Promise<T> {
    const text = await this.#send(call, (response) => (response.status === 204 ? 'null' : response.text()));
    try {
      return JSON.parse(text);
    } catch {
      throw new Error(`The response to ${this.#describe(call)} is not JSON. ${this.#noRouteHint}`.trimEnd());
    }
  }

  /** Returns the bytes of a successful response. @throws the same errors as `json` */
  async bytes(call: Call): Promise<Uint8Array> {
    return new Uint8Array(await this.#send(call, (response) => response.arrayBuffer()));
  }

  /** Returns a successful response with its body unread. @throws the same errors as `json` */
  open(call: Call): Promise<Response> {
    return this.#send(call, (response) => response);
  }

  /** @param read of a successful response; if it rejects, the connection broke */
  async #send<T>(call: Call, read: (response: Response) => T | Promise<T>): Promise<T> {
    this.#onCall?.(call);
    let deadline: number | null = null;
    for (let backoff = FIRST_PAUSE_MS; ; backoff = Math.min(LONGEST_PAUSE_MS, backoff * 2)) {
      const attempt = await this.#attempt(call, read);
      if ('value' in attempt) return attempt.value;
      const { error, retryAfterMs } = attempt;
      // Not the wall clock: if it stepped back, the call would be repeated for as long.
      const now = performance.now();
      // Not at the start of the call: one that ran for long may have its connection broken only now.
      deadline ??= now + (this.#options.retryForMs ?? RETRY_FOR_MS);
      // Jitter, so that many callers do not retry at the same moment.
      const ms = retryAfterMs ?? backoff * (0.5 + Math.random());
      if (now + ms > deadline || error instanceof ConnectionLostError) throw error;
      await pause(ms, call.signal);
    }
  }

  async #attempt<T>(call: Call, read: (response: Response) => T | Promise<T>): Promise<Attempt<T>> {
    const send = this.#options.fetch ?? globalThis.fetch;
    // Outside the `try`: an error of the token function is not a lost connection, because nothing was sent.
    const request = await this.#createRequest(call);
    const url = `${this.#base}${call.path}`;
    let response: Response;
    try {
      response = await send(url, request);
      // The body may break off, too.
      if (response.ok) return { value: await read(response) };
    } catch (error) {
      call.signal?.throwIfAborted();
      requireAcceptedCertificate(url, error);
      if (isObject(error)) addresses.set(error, this.#options.url);
      return { error: toConnectionError(call, error) };
    }
    if (isRedirect(response)) {
      await response.body?.cancel();
      throw createRedirectError(url, response.headers.get('location'));
    }
    const body = await readProblem(response);
    const problem = new BulkheadError(response.status, this.#explain(call, body));
    addresses.set(problem, this.#options.url);
    const isOfProxy = GATEWAY_STATUSES.has(response.status) && typeof body.code !== 'string';
    const isOutcomeUnknown = isOfProxy || problem.code === OUTCOME_UNKNOWN;
    if (!isOutcomeUnknown && !RETRYABLE_STATUSES.has(response.status)) throw problem;
    const seconds = Number(response.headers.get('retry-after'));
    return {
      error: isOutcomeUnknown ? toConnectionError(call, problem) : problem,
      retryAfterMs: seconds > 0 ? seconds * 1000 : undefined,
    };
  }

  /** Names the address that has no route, and what to do. */
  #explain(call: Call, problem: ProblemLike): ProblemLike {
    if (problem.detail !== NO_ROUTE_DETAIL) return problem;
    const detail = `${NO_ROUTE_START}: ${this.#describe(call)}. ${this.#noRouteHint}`;
    return { ...problem, detail: detail.trimEnd() };
  }

  #describe({ method, path }: Call): string {
    return `${method} ${this.#base}${path}`;
  }

  async #createRequest({ method, body, stream, headers, signal }: Call): Promise<RequestInit> {
    const { token } = this.#options;
    const bearer = toSendable(typeof token === 'string' ? token : await token());
    return {
      method,
      // Followed, a POST would become a GET without the token, whose response looks like that to the POST.
      redirect: 'manual',
      headers: {
        authorization: `Bearer ${bearer}`,
        'bulkhead-runtime': encodeHeader(this.#runtime),
        // Node's `fetch` ends a request after 300 s without a response, and each interim response starts that time again.
        'bulkhead-interim': '102',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(stream === undefined ? {} : { 'content-type': stream.type }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(stream === undefined ? {} : { body: stream.open(), duplex: 'half' }),
      ...(signal ? { signal } : {}),
    };
  }
}

/** What `fetch` refuses in a header. */
const UNSENDABLE = /[^\t\x20-\x7e\x80-\xff]/;

/**
 * Removes white space and a byte order mark at the ends, which a token read from a file may have. The error of `fetch` for any other
 * character that it refuses would quote the token, which would then be in logs, and would be taken for a broken connection.
 *
 * @throws BulkheadError
 */
function toSendable(token: string): string {
  const bearer = token.trim();
  const at = bearer.search(UNSENDABLE);
  if (at === -1) return bearer;
  const position = token.indexOf(bearer) + at + 1;
  const why = `character ${position} is a line break or another one that no token has`;
  const detail = `The token cannot be sent: ${why}. Check that it was copied whole and alone.`;
  throw new BulkheadError(401, { code: 'unauthenticated', detail });
}

/** `fetch` sends each character of a header as one byte, and refuses those beyond U+00FF. The service reads UTF-8. */
const encodeHeader = (text: string): string => String.fromCharCode(...new TextEncoder().encode(text));

function toConnectionError({ method, path, repeatable = method === 'GET' }: Call, error: unknown): unknown {
  if (repeatable || NOT_CONNECTED.has(readErrorCode(error))) {
    if (isObject(error)) connectionErrors.add(error);
    return error;
  }
  const message = hasCode(error, OUTCOME_UNKNOWN)
    ? error.message
    : `The connection broke during ${method} ${path}. The call may have taken effect.`;
  return new ConnectionLostError(message, { cause: error });
}

/** Pages get an opaque response instead of the status and its address. */
const isRedirect = ({ status, type }: Response): boolean =>
  type === 'opaqueredirect' || (status >= 300 && status < 400);

function createRedirectError(url: string, location: string | null): AddressError {
  if (location === null || !URL.canParse(location, url))
    return new AddressError(`${url} redirects to another address. Use that address.`);
  const [from, to] = [new URL(url), new URL(location, url)];
  const isElsewhere = from.origin !== to.origin;
  const [asked, target] = isElsewhere ? [from.origin, to.origin] : [from.href, to.href];
  return new AddressError(`${asked} redirects to ${target}. Use that address.`);
}

/** @throws AddressError */
function requireAcceptedCertificate(url: string, error: unknown): void {
  const code = readErrorCode(error);
  if (!CERTIFICATE_REFUSED.has(code)) return;
  throw new AddressError(
    `The certificate of ${new URL(url).origin} is not accepted (${code}). If it comes from an authority of your own, set NODE_EXTRA_CA_CERTS to the file with the authority’s certificate.`,
    { cause: error },
  );
}

/** Node's `fetch` has the error code in `cause`. */
export function readErrorCode(error: unknown): string {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } };
  return String(code ?? cause?.code ?? '');
}

async function readProblem(response: Response): Promise<ProblemLike> {
  try {
    const body = (await response.json()) as ProblemLike & { readonly error?: RpcError };
    const { error: rpcError } = body;
    return rpcError?.message === undefined ? body : { ...rpcError.data, detail: rpcError.message, rpcError };
  } catch {
    return {};
  }
}
