/** Answers what Node answers without a body, or not at all: bytes that are no HTTP, and requests that no route can get. */
import { randomUUIDv7 } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { Problem, problems } from '../../sdk/contract/errors.ts';
import { MIB, SECOND } from '../../sdk/contract/limits.ts';
import { PROBLEM_TYPE, problemBody } from '../../sdk/contract/problem-body.ts';

/** How long, and how much, a client may continue sending after an answer that ends the connection. */
const DISCARD_MS = 2 * SECOND;
const DISCARD_MAX_BYTES = MIB;

/** The faults that other clients than broken ones send, by the code of the error. */
const FAULTS: Readonly<Record<string, string>> = {
  // Node's parser knows a fixed list of methods. Bytes that are no HTTP, such as those of TLS, have this code, too.
  HPE_INVALID_METHOD: 'The request is not valid HTTP, or has a method that this server does not know.',
  ERR_HTTP_REQUEST_TIMEOUT: 'The request took too long to arrive. Send it again over a faster connection.',
};

/** Properties of Node: the response that is being sent, which Node's own handler reads too, and the request that was read last. */
type HttpSocket = Socket & {
  readonly _httpMessage?: Pick<ServerResponse, 'headersSent'> | null;
  readonly parser?: { readonly incoming?: Pick<IncomingMessage, 'complete'> | null } | null;
};

export function answerClientError(error: NodeJS.ErrnoException, socket: HttpSocket): void {
  // In the middle of an answer, the client would take another one for a part of it.
  const isAnswering = socket._httpMessage?.headersSent === true;
  // A connection without a request ends at the same timeout as one whose request is too slow.
  if (error.code === 'ECONNRESET' || !socket.writable || isAnswering || socket.bytesRead === 0) {
    socket.destroy();
    return;
  }
  // The fault is in the body of a request that was answered already: the client would take another answer for that of its next request.
  if (!socket._httpMessage && socket.parser?.incoming?.complete === false) {
    endSocket(socket, '');
    return;
  }
  const problem =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? new Problem('too_large', 'The request headers are too large.')
      : new Problem('bad_request', FAULTS[error.code ?? ''] ?? 'The request is not valid HTTP.');
  answerOnSocket(socket, problem);
}

/** Answers a request whose connection has left the HTTP server, and ends the connection. */
export function answerOnSocket(socket: Duplex, problem: Problem): void {
  const requestId = randomUUIDv7();
  const body = JSON.stringify(problemBody(problem, requestId));
  endSocket(
    socket,
    `HTTP/1.1 ${problem.status} ${problems[problem.code].title}\r\nconnection: close\r\nx-request-id: ${requestId}\r\n` +
      `content-type: ${PROBLEM_TYPE}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

/**
 * Sends the last bytes, and destroys the socket when the client closes it, or soon after: a client may leave its side open forever.
 * Reads on until then, because a socket that is closed with unread input is reset, and the answer lost.
 */
export function endSocket(socket: Duplex, answer: string): void {
  // Otherwise the HTTP parser reports each further chunk as another error.
  socket.removeAllListeners('data').removeAllListeners('end');
  const destroySoon = (): void =>
    void (socket.writableFinished ? socket.destroy() : socket.once('finish', destroySoon));
  let bytes = 0;
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.byteLength;
    if (bytes > DISCARD_MAX_BYTES) socket.destroy();
  });
  const timer = setTimeout(() => socket.destroy(), DISCARD_MS).unref();
  socket.once('close', () => clearTimeout(timer));
  socket.end(answer);
  if (socket.readableEnded) destroySoon();
  else socket.on('end', destroySoon).resume();
}

/** Refuses a request that no route gets, and ends the connection after the answer. */
export function answerLast(response: ServerResponse, problem: Problem): void {
  const requestId = randomUUIDv7();
  const body = JSON.stringify(problemBody(problem, requestId));
  if (problem.retryAfter !== undefined) response.setHeader('retry-after', problem.retryAfter);
  const headers = { 'content-type': PROBLEM_TYPE, 'x-request-id': requestId, connection: 'close' };
  response.writeHead(problem.status, { ...headers, 'content-length': Buffer.byteLength(body) }).end(body);
}

const CHUNKED = 'chunked';
const CODING_SHOWN_CHARS = 40;

/** Options of a server whose requests `findHeadFault` checks: Node's own check answers without a body. */
export const uncheckedHost = { requireHostHeader: false } as const;

/**
 * Why the `Host` or the transfer coding of a request cannot be used; null: they can. Node joins repeated headers or takes the first, and
 * decodes only the last coding, `chunked`.
 */
export function findHeadFault({ httpVersion, rawHeaders, headers }: IncomingMessage): Problem | null {
  const coding = headers['transfer-encoding'] ?? CHUNKED;
  if (coding.trim().toLowerCase() !== CHUNKED)
    return new Problem(
      'bad_request',
      `The Transfer-Encoding “${coding.slice(0, CODING_SHOWN_CHARS)}” is not supported. Send the body uncompressed, with a Content-Length or with Transfer-Encoding: chunked.`,
    );
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) if (rawHeaders[at]?.toLowerCase() === 'host') hosts += 1;
  if (hosts > 1) return new Problem('bad_request', 'The request has more than one Host header. Send one.');
  if (hosts === 1 || httpVersion === '1.0') return null;
  return new Problem('bad_request', 'The request has no Host header, which HTTP/1.1 requires.');
}

/** Answers requests that Node handles itself: an unknown `Expect`, and CONNECT. */
export function answerUnroutable(server: Server): void {
  server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    answerLast(response, new Problem('bad_request', 'The header Expect may only be 100-continue.'));
  });
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    socket.on('error', () => socket.destroy());
    answerOnSocket(socket, new Problem('method_not_allowed', 'CONNECT is not supported: this is not a proxy.'));
  });
}
