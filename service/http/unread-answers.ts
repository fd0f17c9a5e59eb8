/** Bounds what answers hold in memory until their clients have read them. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { MIB, SECOND } from '../../sdk/contract/limits.ts';
import { requireCaller } from './authentication.ts';
import { ByteBudget, type ByteLimits } from './byte-budget.ts';
import { onceClosed } from './closed-responses.ts';

/** An account may leave eight of the largest answers unread, pages of 4 MiB. */
const UNREAD: ByteLimits = { processBytes: 128 * MIB, accountBytes: 32 * MIB };
/** Answers below this are not counted: a connection has at most a few hundred of them. Bytes. */
const SMALL_BYTES = 16 * 1024;
/** A response without progress for this time is destroyed, because it holds its bytes. Milliseconds. */
const STALLED_MS = 60 * SECOND;

declare module 'fastify' {
  interface FastifyRequest {
    /** Bytes of the answer that count as unread. */
    unreadBytes: number;
    /** See `countUnread`. */
    countUnread: ((reply: FastifyReply, bytes: number) => void) | null;
  }
}

/**
 * Counts the answers of a scope's signed-in requests from the time they are written until their clients have read them. An account
 * that leaves too much unread gets no further answers: its requests are refused before they do anything.
 */
export function limitUnreadAnswers(scope: FastifyInstance, limits = UNREAD, stalledMs = STALLED_MS): void {
  const budget = new ByteBudget(limits, 'unread answers');
  scope.decorateRequest('unreadBytes', 0);
  scope.decorateRequest('countUnread', null);
  scope.addHook('onRequest', async (request) => {
    const { id } = requireCaller(request);
    budget.requireRoom(id);
    request.countUnread = ({ raw }, bytes) => {
      if (request.unreadBytes === 0) onceClosed(raw, () => budget.release(id, request.unreadBytes));
      request.unreadBytes += bytes;
      // Not refused any more: what the request asked for is done.
      budget.add(id, bytes);
    };
  });
  scope.addHook('onSend', async (request, reply, payload) => {
    const bytes = typeof payload === 'string' || Buffer.isBuffer(payload) ? Buffer.byteLength(payload) : 0;
    if (bytes <= SMALL_BYTES) return;
    countUnread(request, reply, bytes);
    reply.raw.setTimeout(stalledMs, () => reply.raw.destroy());
  });
}

/** Counts bytes of an answer that waits in memory, such as in a stream, until its response is closed. */
export const countUnread = (request: FastifyRequest, reply: FastifyReply, bytes: number): void =>
  request.countUnread?.(reply, bytes);
