/** Marks the cursors of each list, so that the cursor of another list is refused instead of answering a wrong page. */
import { hash } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { createCursorProblem } from '../../db/postgres/cursors.ts';
import { requireCaller } from './authentication.ts';

/** Against mistakes, not against attacks: a cursor only says where to continue in a list that its reader may read. */
const MARK_CHARS = 8;

/** Marks `nextCursor` in the answers of a scope, and checks and removes the mark of `cursor` in its queries. */
export function markCursors(scope: FastifyInstance): void {
  scope.addHook('preHandler', async (request) => {
    const query = request.query as { cursor?: unknown };
    if (typeof query.cursor !== 'string' || query.cursor === '') return;
    if (!query.cursor.startsWith(createMark(request))) throw createCursorProblem();
    query.cursor = query.cursor.slice(MARK_CHARS);
  });
  scope.addHook('preSerialization', (request, _reply, payload, done) => {
    done(null, hasNextCursor(payload) ? { ...payload, nextCursor: createMark(request) + payload.nextCursor } : payload);
  });
}

const hasNextCursor = (payload: unknown): payload is { readonly nextCursor: string } =>
  typeof payload === 'object' && payload !== null && 'nextCursor' in payload && typeof payload.nextCursor === 'string';

/** The same for all pages of a list: its account, its address and the ids in it. Filters may change from page to page. */
const createMark = (request: FastifyRequest): string =>
  hash(
    'sha256',
    JSON.stringify([requireCaller(request).id, request.routeOptions.url, request.params]),
    'base64url',
  ).slice(0, MARK_CHARS);
