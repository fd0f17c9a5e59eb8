/** `/sessions/{id}/messages`: what `host.session` and compaction see. */
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { appendMessages, pageMessages } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { json, role, TEXT_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import { pageQuery, read, readBody, storedId, storedText } from './input.ts';
import type { SessionParams, SessionServices } from './session-services.ts';

/** Messages added by one call. */
const MESSAGES_MAX = 1_000;
const newMessages = z.object({
  messages: z
    .array(
      z.object({
        /** The runtime's own id: a repeated call adds nothing twice. */
        id: storedId.optional(),
        role,
        text: storedText(TEXT_MAX_CHARS),
        data: z.record(z.string(), json).optional(),
      }),
    )
    .min(1)
    .max(MESSAGES_MAX),
});

/** Installs the routes. */
export function installTranscripts(app: FastifyInstance, services: SessionServices): void {
  app.post<{ Params: SessionParams }>('/sessions/:sessionId/messages', async (request) => {
    const session = await services.sessions.get(request.accountId, request.params.sessionId);
    const { messages } = readBody(newMessages, request.body);
    const items = await appendMessages(services.pool, session.id, messages);
    // Deleted by another supervisor a moment ago.
    if (items.length === 0) throw new Problem('not_found', 'There is no such session.');
    return { items };
  });
  app.get<{ Params: SessionParams }>('/sessions/:sessionId/messages', async (request) => {
    const session = await services.sessions.get(request.accountId, request.params.sessionId);
    return pageMessages(services.pool, { sessionId: session.id, ...read(pageQuery, request.query) });
  });
}
