/** `fetch` over `host.http.fetch`: the host checks, limits and records it like every request of a plugin. */
import { Headers } from './header-list.ts';
import { bodyOf, createResponse, Request, type RequestInit, type Response } from './request.ts';

/** The answer of `host.http.fetch`. */
interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyBytes: Uint8Array;
}
/** Calls `host.http.fetch` with these arguments. */
export type SendHttp = (args: unknown[]) => Promise<unknown>;

/**
 * Headers that only the host sets, repeated from the host because the child imports only types. The standard drops such
 * headers silently, and libraries rely on it; `host.http.fetch` refuses them.
 */
const SET_BY_HOST = [
  ...['connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings', 'host'],
  ...['content-length', 'expect', 'proxy-connection', 'proxy-authorization'],
];

export type Fetch = (input: Request | URL | string, init?: RequestInit) => Promise<Response>;

export function createFetch(send: SendHttp): Fetch {
  const fetch: Fetch = async (input, init) => {
    const request = new Request(input, init);
    request.signal.throwIfAborted();
    return raceAbort(request.signal, sendRequest(send, request));
  };
  return fetch;
}

async function sendRequest(send: SendHttp, request: Request): Promise<Response> {
  if (request.redirect === 'manual')
    throw createFailure(
      new TypeError(
        `redirect “${request.redirect}” does not exist in a plugin: the host follows redirects to granted hosts`,
      ),
    );
  const { url, method, headers, redirect } = request;
  const body = await bodyOf(request).readContent();
  request.signal.throwIfAborted();
  const init: Record<string, unknown> = { method, headers: sendableHeaders(headers) };
  if (body !== null) init.body = body;
  if (redirect === 'error') init.redirect = redirect;
  let answer: HttpAnswer;
  try {
    answer = (await send([url, init])) as HttpAnswer;
  } catch (error) {
    throw createFailure(error);
  }
  const { status, bodyBytes } = answer;
  const isEmpty = method === 'HEAD' || status === 204 || status === 205 || status === 304;
  return createResponse(isEmpty ? null : bodyBytes, readHeaders(answer.headers), { type: 'basic', url, status });
}

/** The sentence of the host is the cause, as it is in Node. */
const createFailure = (cause: unknown): TypeError => new TypeError('fetch failed', { cause });

const sendableHeaders = (headers: Headers): Record<string, string> =>
  Object.fromEntries([...headers].filter(([name]) => !SET_BY_HOST.includes(name)));

/** Servers send headers that no plugin could; those are left out. */
function readHeaders(given: Readonly<Record<string, string>>): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(given)) {
    try {
      headers.append(name, value);
    } catch {
      // Not a header by the standard.
    }
  }
  return headers;
}

/** Rejects with the signal's reason as soon as it aborts. The host ends the request at its own time limit. */
function raceAbort<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
