/** Sends one request over a new connection to a checked address and returns its response, whose body still arrives. */
import { constants } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { Client } from 'undici';
import { HEADERS_MAX } from '../../../sdk/contract/payloads.ts';
import { HostError } from '../host-call.ts';
import { ANSWER_HEADERS_BYTES, decodeBody, UNREAD_BYTES } from './answer-body.ts';
import { type Headers, readHeaders } from './headers.ts';
import type { RequestRate } from './request-rates.ts';
import { pinned, type Resolution, resolveTarget } from './resolution.ts';

const CONNECT_TIMEOUT_MS = 10_000;
/** Codes of errors before the host has sent anything. */
const UNREACHED = /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)$/;
/**
 * TLS 1.3, and TLS 1.2 with ECDHE: their key exchange costs the event loop a few milliseconds. Left out: DHE, where the server chooses the
 * prime. With one of 10,000 bits, a handshake takes 0.6 s. OpenSSL has no upper limit for the certificates' keys: 100 KiB of certificates,
 * which is its limit, can still cost 0.3 s.
 */
const CIPHERS = [
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'TLS_AES_128_GCM_SHA256',
  'ECDHE+AESGCM',
  'ECDHE+CHACHA20',
  'ECDHE+AES',
  '!aNULL',
].join(':');
/** Interim responses (status 1xx) before the answer, which the library reads without a limit. Servers send one or two. */
const INTERIM_MAX = 16;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

export interface HttpRequest {
  readonly url: URL;
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly headers: Headers;
  readonly body: Uint8Array | null;
}
/** An answer whose body still arrives. */
export interface Opened {
  readonly status: number;
  readonly headers: Headers;
  /** Each `Set-Cookie` header alone: joined, they cannot be split, because dates hold commas. */
  readonly setCookies: readonly string[];
  /** Decoded. Its errors may contain details of this machine. */
  readonly body: Readable;
  readonly hostname: string;
  /** Closes the connection. */
  close(): Promise<void>;
}
/** The target of a redirect; its body is not read. */
export interface Redirect {
  readonly status: number;
  readonly location: string;
}

export interface Exchange extends Resolution {
  /** PEM certificates to trust instead of the default ones. */
  readonly certificates?: string;
}

/**
 * Sends a request and waits for the headers of the answer. The connection is closed by the caller, or when the signal aborts.
 *
 * @param rate limits the processor time, for which the request waits
 * @throws HostError with the reason when there is no response
 */
export async function send(
  request: HttpRequest,
  exchange: Exchange,
  rate: RequestRate,
  signal: AbortSignal,
): Promise<Opened | Redirect> {
  await rate.begin(request.url, signal);
  const addresses = await resolveTarget(request.url, exchange, signal);
  // Loaded by the first request: it is large, and many services never need it.
  const undici = await import('undici');
  await rate.waitForTurn();
  signal.throwIfAborted();
  // Without a pool: a kept connection would use an address and a grant that were checked for an earlier call.
  const client = new undici.Client(request.url.origin, {
    allowH2: false,
    maxHeaderSize: ANSWER_HEADERS_BYTES,
    autoSelectFamily: true,
    connect: {
      lookup: pinned(addresses),
      timeout: CONNECT_TIMEOUT_MS,
      ciphers: CIPHERS,
      // A server of TLS 1.2 could ask for one handshake after another.
      secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
      ...(exchange.certificates === undefined ? {} : { ca: exchange.certificates }),
    },
  });
  try {
    const answer = await sendRequest(client, request, signal);
    if ('location' in answer) await client.destroy();
    return answer;
  } catch (error) {
    await client.destroy();
    throw error instanceof HostError ? error : new HostError(describeFailure(request.url.hostname, error));
  }
}

async function sendRequest(client: Client, request: HttpRequest, signal: AbortSignal): Promise<Opened | Redirect> {
  const { url, method, headers, body } = request;
  const path = `${url.pathname}${url.search}`;
  let interim = 0;
  const onInfo = (): void => {
    interim += 1;
    // Ends the request and its connection.
    if (interim > INTERIM_MAX)
      throw new HostError(`${url.hostname} sent more than ${INTERIM_MAX} interim responses (status 1xx)`);
  };
  const response = await client.request({ path, method, headers, body, signal, onInfo, highWaterMark: UNREAD_BYTES });
  const setCookies = [response.headers['set-cookie'] ?? []].flat();
  const shown = readHeaders(response.headers);
  if (Math.max(Object.keys(shown).length, setCookies.length) > HEADERS_MAX)
    throw new HostError(`${url.hostname} sent more than ${HEADERS_MAX.toLocaleString('en')} response headers`);
  const status = response.statusCode;
  if (REDIRECTS.has(status) && shown.location !== undefined) {
    response.body.on('error', () => undefined).destroy();
    return { status, location: shown.location };
  }
  const isEmpty = method === 'HEAD' || status === 204 || status === 304;
  return {
    status,
    headers: isEmpty ? shown : bare(shown),
    setCookies,
    body: decodeBody(response.body, isEmpty ? '' : (shown['content-encoding'] ?? '')),
    hostname: url.hostname,
    close: () => client.destroy(),
  };
}

/** Removes the headers that describe the encoded body. */
function bare(headers: Headers): Headers {
  const { 'content-encoding': coding, 'content-length': _length, ...rest } = headers;
  return coding === undefined ? headers : rest;
}

/** A library's error text may contain details of this machine; its code does not. */
export function describeFailure(host: string, error: unknown): string {
  const { code } = error as { code?: unknown };
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return `${host} sent response headers over ${ANSWER_HEADERS_BYTES} bytes`;
  if (typeof code === 'string' && code.endsWith('_ALERT_HANDSHAKE_FAILURE'))
    return `${host} refused the TLS handshake; it must support TLS 1.3, or TLS 1.2 with an ECDHE cipher suite`;
  const isCode = typeof code === 'string' && /^\w{1,60}$/.test(code);
  const fault = isCode && UNREACHED.test(code) ? 'cannot be reached' : 'sent an invalid response';
  return `${host} ${fault}${isCode ? ` (${code})` : ''}`;
}
