/** Answers on the bare socket when the received bytes are not an HTTP request. */
import { randomUUIDv7 } from 'node:crypto';
import type { Socket } from 'node:net';
import { Problem, problems } from '../../sdk/contract/errors.ts';
import { PROBLEM_TYPE, problemBody } from '../../sdk/contract/problem-body.ts';

interface ClientError extends Error {
  readonly code?: string;
}

export function answerClientError(error: ClientError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const problem =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? new Problem('too_large', 'The request headers are too large.')
      : new Problem('bad_request', 'The request is not valid HTTP.');
  const requestId = randomUUIDv7();
  const body = JSON.stringify(problemBody(problem, requestId));
  socket.end(
    `HTTP/1.1 ${problem.status} ${problems[problem.code].title}\r\nconnection: close\r\nx-request-id: ${requestId}\r\n` +
      `content-type: ${PROBLEM_TYPE}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  // Close the socket without waiting for the client: a request with a broken body would stay open forever.
  socket.destroySoon();
}
