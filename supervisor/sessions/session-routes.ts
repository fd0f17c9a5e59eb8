/** `/sessions`: starts, lists, clears and deletes sessions. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { pageSessions } from '../../db/sessions/sessions.ts';
import { trigger } from '../../sdk/contract/payloads.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { answerCreated } from '../../service/http/created.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import {
  agentName,
  jsonBody,
  noContent,
  page,
  pageQuery,
  storedId,
  storedText,
  timestamp,
} from '../../service/http/schemas.ts';
import { clearTranscript, removeSession, startSession } from './lifecycle.ts';
import { requireSession, type SessionServices, sessionParams } from './session-services.ts';
import { hostTools, runtimeTools } from './tool-routes.ts';

const REASON_MAX_CHARS = 1000;
const BY_MAX_CHARS = 500;

const newSession = jsonBody({
  agentId: storedId.describe('The runtime’s id of the agent.'),
  agentName: agentName
    .min(1)
    .optional()
    .describe('Set when the session starts: a known key does not change it. Default: the agent’s id.'),
  channelId: storedId.nullable().default(null).describe('A channel of the account. Default: none.'),
  key: storedId
    .nullable()
    .default(null)
    .describe(
      'The runtime’s own name of the session. The same key opens the same session, also after a restart. Default: a new session.',
    ),
  hostTools: hostTools.optional().describe(`${hostTools.description} Default: none.`),
  tools: runtimeTools.optional(),
  strict: z
    .boolean()
    .default(false)
    .describe('Whether the session refuses messages that no hook judged. It cannot be switched off again.'),
});
const clearBody = jsonBody({
  reason: storedText(REASON_MAX_CHARS).default(''),
  by: storedText(BY_MAX_CHARS)
    .optional()
    .describe('The name that plugins see as the one who clears the session. Default: the trigger.'),
  trigger: trigger
    .optional()
    .describe('The cause of the removal. Default: `user` if `by` is `user`, otherwise `agent`.'),
});

/** Selects the fields of a row that its runtime sees. */
const sessionResource = z
  .object({
    id: z.string(),
    agentId: z.string(),
    agentName: z.string(),
    channelId: z.string().nullable(),
    key: z.string().nullable().describe('The runtime’s own name of the session.'),
    hostTools: z.array(z.string()).describe('Groups of the host’s own tools that the session offers.'),
    strict: z.boolean().describe('Whether the session refuses messages that no hook judged.'),
    createdAt: timestamp,
    clearedAt: timestamp.nullable(),
  })
  .meta({ id: 'Session', description: 'One conversation of one agent.' });

const shapes = {
  start: {
    summary: 'Starts a session',
    details:
      'Plugins that registered `sessionStarted` receive the event. If a session with this `key` exists, the response is that session with 200, so that a runtime finds it again after a restart. `hostTools` and `tools` then replace its tools, each if it is given; `strict` can only be switched on. `agentName` stays unchanged. Another `agentId` or `channelId` is refused with 409 `id_reused`.',
    problems: ['not_found', 'id_reused', 'quota_exceeded'],
    body: newSession,
    response: { 200: sessionResource, 201: sessionResource },
  },
  list: {
    summary: 'The account’s sessions, newest first',
    querystring: pageQuery,
    response: { 200: page(sessionResource) },
  },
  one: { summary: 'One session', params: sessionParams, response: { 200: sessionResource } },
  clear: {
    summary: 'Removes the messages of a session',
    details: 'Runs the hook `sessionClear` first: 409 `cancelled` if a plugin cancels it.',
    problems: ['cancelled', 'quota_exceeded'],
    params: sessionParams,
    body: clearBody,
    response: { 200: sessionResource },
  },
  remove: { summary: 'Deletes a session', params: sessionParams, response: { 204: noContent } },
} satisfies Record<string, FastifySchema>;

export function sessionRoutes(services: SessionServices): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Sessions');
    app.post('/sessions', { schema: shapes.start }, async (request, reply) => {
      const { agentId, agentName = agentId, ...fields } = request.body;
      const { id } = requireCaller(request);
      const { session, isNew } = await startSession(services, id, { agentId, agentName, ...fields });
      return isNew ? answerCreated(request, reply, session.id).send(session) : reply.send(session);
    });

    app.get('/sessions', { schema: shapes.list }, (request) =>
      pageSessions(services.pool, { accountId: requireCaller(request).id, ...request.query }),
    );

    app.get('/sessions/:sessionId', { schema: shapes.one }, (request) =>
      requireSession(services, requireCaller(request), request.params),
    );

    app.post('/sessions/:sessionId/clear', { schema: shapes.clear }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const { reason, by } = request.body;
      // Without either field it is not known that a person does it.
      const started = request.body.trigger ?? (by === 'user' ? 'user' : 'agent');
      return clearTranscript(services, session, { reason, by: by ?? started, trigger: started });
    });

    app.delete('/sessions/:sessionId', { schema: shapes.remove }, async (request, reply) => {
      await removeSession(services, await requireSession(services, requireCaller(request), request.params));
      return reply.code(204).send();
    });
  };
}
