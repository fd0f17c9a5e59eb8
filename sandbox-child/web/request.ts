/** Request and Response for plugins, as the fetch standard defines them. */
import { Body, type BodyInit, BodyReader, bodyOf } from './body.ts';
import { freezeHeaders, Headers, type HeadersInit, TOKEN } from './header-list.ts';

export interface RequestInit {
  readonly method?: string | undefined;
  readonly headers?: HeadersInit | undefined;
  readonly body?: BodyInit | null | undefined;
  readonly signal?: AbortSignal | null | undefined;
  readonly redirect?: string | undefined;
  readonly duplex?: string | undefined;
  readonly mode?: string | undefined;
  readonly credentials?: string | undefined;
  readonly cache?: string | undefined;
  readonly referrer?: string | undefined;
  readonly referrerPolicy?: string | undefined;
  readonly integrity?: string | undefined;
  readonly keepalive?: boolean | undefined;
}

/** The options of a request that change nothing in a plugin; libraries read them back. */
const DEFAULTS = {
  mode: 'cors',
  credentials: 'same-origin',
  cache: 'default',
  referrer: 'about:client',
  referrerPolicy: '',
  integrity: '',
  keepalive: false,
} as const;
type Option = keyof typeof DEFAULTS;

const NORMALIZED = /^(get|head|post|put|delete|options)$/i;
const REFUSED = /^(connect|trace|track)$/i;
const REDIRECTS = ['follow', 'error', 'manual'];

export class Request extends BodyReader {
  readonly #url: string;
  readonly #method: string;
  readonly #signal: AbortSignal;
  readonly #redirect: string;
  readonly #options: Readonly<Record<Option, string | boolean>>;

  constructor(input: Request | URL | string, options: RequestInit | null = {}) {
    const init = options ?? {};
    const from = input instanceof Request ? input : null;
    const url = from === null ? readUrl(String(input)) : from.url;
    const method = init.method === undefined ? (from?.method ?? 'GET') : readMethod(init.method);
    const headers = new Headers(init.headers ?? from?.headers);
    const hasBody = init.body !== undefined && init.body !== null;
    const { body, type } =
      hasBody || from === null ? Body.from(init.body) : { body: bodyOf(from).moveContent(), type: null };
    if (!body.isEmpty && (method === 'GET' || method === 'HEAD'))
      throw new TypeError(`a ${method} request has no body: use another method`);
    if (type !== null && !headers.has('content-type')) headers.set('content-type', type);
    super(body, headers);
    this.#url = url;
    this.#method = method;
    this.#signal = followSignal(init.signal === undefined ? from?.signal : init.signal);
    this.#redirect = init.redirect ?? from?.redirect ?? 'follow';
    if (!REDIRECTS.includes(this.#redirect))
      throw new TypeError(`${this.#redirect} is not a redirect mode: use follow, error or manual`);
    const read = (name: Option): string | boolean => init[name] ?? from?.[name] ?? DEFAULTS[name];
    this.#options = Object.fromEntries((Object.keys(DEFAULTS) as Option[]).map((name) => [name, read(name)])) as Record<
      Option,
      string | boolean
    >;
  }

  get url(): string {
    return this.#url;
  }
  get method(): string {
    return this.#method;
  }
  get signal(): AbortSignal {
    return this.#signal;
  }
  get redirect(): string {
    return this.#redirect;
  }
  get destination(): string {
    return '';
  }
  get duplex(): string {
    return 'half';
  }
  get mode(): string {
    return String(this.#options.mode);
  }
  get credentials(): string {
    return String(this.#options.credentials);
  }
  get cache(): string {
    return String(this.#options.cache);
  }
  get referrer(): string {
    return String(this.#options.referrer);
  }
  get referrerPolicy(): string {
    return String(this.#options.referrerPolicy);
  }
  get integrity(): string {
    return String(this.#options.integrity);
  }
  get keepalive(): boolean {
    return Boolean(this.#options.keepalive);
  }

  clone(): Request {
    const { url, method, headers, signal, redirect } = this;
    const body = bodyOf(this).clone();
    const copy = new Request(url, { ...this.#options, method, headers, signal, redirect } as RequestInit);
    return body.isEmpty ? copy : new Request(copy, { body: body.stream, headers });
  }
}

function readUrl(text: string): string {
  if (!URL.canParse(text))
    throw new TypeError(`${JSON.stringify(text.slice(0, 200))} is not a URL: requests need an absolute address`);
  const { href, username, password } = new URL(text);
  if (username !== '' || password !== '')
    throw new TypeError('the address contains a user name or password; send an authorization header instead');
  return href;
}

function readMethod(method: string): string {
  const text = String(method);
  if (!TOKEN.test(text) || REFUSED.test(text))
    throw new TypeError(`${JSON.stringify(text.slice(0, 40))} is not a method that can be sent`);
  return NORMALIZED.test(text) ? text.toUpperCase() : text;
}

function followSignal(signal: AbortSignal | null | undefined): AbortSignal {
  if (signal === null || signal === undefined) return new AbortController().signal;
  if (!(signal instanceof AbortSignal)) throw new TypeError('the signal of a request must be an AbortSignal');
  return AbortSignal.any([signal]);
}

export interface ResponseInit {
  readonly status?: number;
  readonly statusText?: string;
  readonly headers?: HeadersInit;
}

const REDIRECT_STATUSES = [301, 302, 303, 307, 308];
/** Statuses whose responses have no body. */
const NULL_BODY_STATUSES = [101, 103, 204, 205, 304];

/** The fields that only `fetch` and the static methods set. */
interface Origin {
  readonly type: string;
  readonly url: string;
  readonly status: number;
}
/** Creates responses that the public constructor cannot. */
export let createResponse: (body: BodyInit | null, headers: Headers, origin: Origin) => Response;

export class Response extends BodyReader {
  readonly #status: number;
  readonly #statusText: string;
  #origin: Origin | null = null;

  static {
    createResponse = (body, headers, origin) => {
      const response = new Response(body, { headers });
      response.#origin = origin;
      freezeHeaders(response.headers);
      return response;
    };
  }

  constructor(content: BodyInit | null = null, init: ResponseInit | null = {}) {
    const { status = 200, statusText = '', headers: given } = init ?? {};
    const code = Number(status);
    if (!(code >= 200 && code <= 599)) throw new RangeError(`${String(status)} is not a valid status: use 200 to 599`);
    const headers = new Headers(given);
    const { body, type } = Body.from(content);
    if (!body.isEmpty && NULL_BODY_STATUSES.includes(code))
      throw new TypeError(`a response with status ${code} has no body`);
    if (type !== null && !headers.has('content-type')) headers.set('content-type', type);
    super(body, headers);
    this.#status = Math.trunc(code);
    this.#statusText = String(statusText);
  }

  static error(): Response {
    return createResponse(null, new Headers(), { type: 'error', url: '', status: 0 });
  }

  static redirect(url: URL | string, status = 302): Response {
    if (!REDIRECT_STATUSES.includes(status)) throw new RangeError(`${status} is not the status of a redirect`);
    return new Response(null, { status, headers: { location: new URL(url).href } });
  }

  static json(data: unknown, init: ResponseInit = {}): Response {
    const text = JSON.stringify(data);
    if (text === undefined) throw new TypeError('the data of Response.json must be JSON');
    const headers = new Headers(init.headers);
    if (!headers.has('content-type')) headers.set('content-type', 'application/json');
    return new Response(text, { ...init, headers });
  }

  get type(): string {
    return this.#origin?.type ?? 'default';
  }
  get url(): string {
    return this.#origin?.url ?? '';
  }
  get redirected(): boolean {
    return false;
  }
  get status(): number {
    return this.#origin?.status ?? this.#status;
  }
  get statusText(): string {
    return this.#statusText;
  }
  get ok(): boolean {
    return this.status >= 200 && this.status <= 299;
  }

  clone(): Response {
    const body = bodyOf(this).clone();
    const { status, statusText, headers } = this;
    const isPlain = this.#origin === null;
    const copy = new Response(body.stream, isPlain ? { status, statusText, headers } : { statusText, headers });
    copy.#origin = this.#origin;
    return copy;
  }
}
