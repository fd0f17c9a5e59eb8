/** One request and its answer, over a connection of its own to an address that was checked. */
import type { Client } from 'undici';
import { HostError } from '../host-call.ts';
import { ANSWER_HEADERS_BYTES, type AnswerBody, readBody } from './answer-body.ts';
import { answerHeaders, type Headers } from './headers.ts';
import { pinned, type Resolution, resolveTarget } from './resolution.ts';

const CONNECT_TIMEOUT_MS = 10_000;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

export interface HttpRequest {
  readonly url: URL;
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly headers: Headers;
  readonly body: Uint8Array | null;
}
export interface HttpAnswer extends AnswerBody {
  readonly status: number;
  readonly headers: Headers;
}
/** Where an answer points to, and how; its body is not read. */
export interface Redirect {
  readonly status: number;
  readonly location: string;
}

export interface Exchange extends Resolution {
  /** Certificates to trust instead of the usual ones, PEM. */
  readonly certificates?: string;
}

/**
 * Sends a request. When the signal aborts, and when the answer is there, the connection is closed.
 *
 * @throws HostError with why there is no answer
 */
export async function send(
  request: HttpRequest,
  exchange: Exchange,
  signal: AbortSignal,
): Promise<HttpAnswer | Redirect> {
  const addresses = await resolveTarget(request.url, exchange, signal);
  // Loaded with the first request: it is large, and many services make none.
  const undici = await import('undici');
  signal.throwIfAborted();
  // No pool: a kept connection would be to an address that was checked for an earlier call, under an earlier grant.
  const client = new undici.Client(request.url.origin, {
    allowH2: false,
    maxHeaderSize: ANSWER_HEADERS_BYTES,
    autoSelectFamily: true,
    connect: {
      lookup: pinned(addresses),
      timeout: CONNECT_TIMEOUT_MS,
      ...(exchange.certificates === undefined ? {} : { ca: exchange.certificates }),
    },
  });
  try {
    return await ask(client, request, signal);
  } catch (error) {
    throw error instanceof HostError ? error : new HostError(describe(request.url.hostname, error));
  } finally {
    await client.destroy();
  }
}

async function ask(client: Client, request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer | Redirect> {
  const { url, method, headers, body } = request;
  const path = `${url.pathname}${url.search}`;
  const response = await client.request({ path, method, headers, body, signal });
  const shown = answerHeaders(response.headers);
  const status = response.statusCode;
  if (REDIRECTS.has(status) && shown.location !== undefined) {
    response.body.on('error', () => undefined).destroy();
    return { status, location: shown.location };
  }
  const isEmpty = method === 'HEAD' || status === 204 || status === 304;
  const answer = await readBody(response.body, isEmpty ? bare(shown) : shown);
  return { status, headers: isEmpty ? shown : bare(shown), ...answer };
}

/** Without what described the body as it was sent. */
function bare(headers: Headers): Headers {
  const { 'content-encoding': coding, 'content-length': _length, ...rest } = headers;
  return coding === undefined ? headers : rest;
}

/** The text of a library's error may tell of this machine; its code does not. */
function describe(host: string, error: unknown): string {
  const { code } = error as { code?: unknown };
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return `${host} answered with headers over ${ANSWER_HEADERS_BYTES} bytes`;
  return `${host} gave no answer that can be read${typeof code === 'string' && /^\w{1,60}$/.test(code) ? ` (${code})` : ''}`;
}
