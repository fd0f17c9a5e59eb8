/** Bounds what answers hold in memory until their clients have read them. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { KIB, MIB, SECOND } from '../../sdk/contract/limits.ts';
import { requireCaller } from './authentication.ts';
import { ByteBudget, type ByteLimits } from './byte-budget.ts';
import { onceClosed } from './closed-responses.ts';

/** An account may leave eight of the largest answers unread, pages of 4 MiB. */
const UNREAD: ByteLimits = { processBytes: 128 * MIB, accountBytes: 32 * MIB };
/** Answers up to this size are not counted: a connection has at most 64 requests without an answer. Bytes. */
const SMALL_BYTES = 16 * KIB;
/** A response without progress for this time is destroyed, because it holds its bytes. Milliseconds. */
const STALLED_MS = 60 * SECOND;

declare module 'fastify' {
  interface FastifyRequest {
    /** See `countUnread`. */
    countUnread: ((reply: FastifyReply, bytes: number) => void) | null;
  }
}

/**
 * Counts the answers of a scope's signed-in requests from the time they are written until their clients have read them. An account
 * that leaves too much unread is refused: its requests before they do anything, and the answers of its GET requests.
 */
export function limitUnreadAnswers(scope: FastifyInstance, limits = UNREAD, stalledMs = STALLED_MS): void {
  const budget = new ByteBudget(limits, 'answers that its clients have not read');
  scope.decorateRequest('countUnread', null);
  scope.addHook('onRequest', async (request) => {
    const { id } = requireCaller(request);
    if (budget.isUsedBy(id)) budget.reserve(id, 0);
    let unread = 0;
    request.countUnread = ({ raw }, bytes) => {
      // Where its client has left, the answer is dropped.
      if (raw.closed || bytes === 0) return;
      // What another request asked for is done, so its answer is not refused. An account that holds nothing gets its answer also
      // where others fill the process.
      if (request.method === 'GET' && budget.isUsedBy(id)) budget.reserve(id, bytes);
      else budget.add(id, bytes);
      if (unread === 0) onceClosed(raw, () => budget.release(id, unread));
      unread += bytes;
    };
  });
  scope.addHook('onSend', async (request, reply, payload) => {
    const bytes = typeof payload === 'string' || Buffer.isBuffer(payload) ? Buffer.byteLength(payload) : 0;
    if (bytes > SMALL_BYTES) countUnread(request, reply, bytes);
    // An event stream may be idle for long.
    if (bytes > SMALL_BYTES || reply.hasHeader('content-length'))
      reply.raw.setTimeout(stalledMs, () => reply.raw.destroy());
  });
}

/**
 * Counts bytes of an answer that waits in memory, such as in a stream, until its response is closed.
 *
 * @throws Problem where the account leaves too much unread, for GET requests
 */
export const countUnread = (request: FastifyRequest, reply: FastifyReply, bytes: number): void =>
  request.countUnread?.(reply, bytes);
