/** `/sessions/{id}/tools`: lists and calls the tools of the account's plugins. */

import { randomUUIDv7 } from 'node:crypto';
import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { setHostTools } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { hostToolGroups } from '../../sdk/contract/full-names.ts';
import { json } from '../../sdk/contract/payloads.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { anyJson, jsonBody, page, storedId } from '../../service/http/schemas.ts';
import { abortWhenClosed } from './closed-requests.ts';
import {
  CALL_BODY_MAX_BYTES,
  offerParams,
  requireSession,
  type SessionServices,
  sessionParams,
} from './session-services.ts';
import { callTool, findTool, listSessionTools } from './tools.ts';

export const hostTools = z
  .array(z.enum(hostToolGroups))
  .max(hostToolGroups.length)
  .describe('Groups of the host’s own tools that the session offers, such as `todo` for `todo__create` and its like.');

const toolBody = jsonBody({
  callId: storedId
    .optional()
    .describe(
      'An id of the runtime’s own, for the handler to recognize a repeated call. The handler runs again; a call of a turn runs once per id.',
    ),
  arguments: json.default({}),
});

export const toolResource = z
  .strictObject({
    name: z.string().describe('`<slug>__<tool>`'),
    description: z.string(),
    parameters: anyJson.describe('JSON Schema 2020-12 of the arguments.'),
    installationId: z.string().nullable().describe('Null: a tool of the host.'),
    slug: z.string().describe('Of the plugin; of a tool of the host, its group.'),
  })
  .meta({ id: 'Tool', description: 'A tool that the agent’s model may call.' });

export const toolResultResource = z
  .strictObject({
    content: z.array(
      z.discriminatedUnion('type', [
        z.strictObject({ type: z.literal('text'), text: z.string() }),
        z.strictObject({ type: z.literal('image'), data: z.string(), mimeType: z.string() }),
        z.strictObject({ type: z.literal('json'), json: anyJson }),
      ]),
    ),
    isError: z.boolean(),
  })
  .meta({ id: 'ToolResult', description: 'The result of a tool, as a Model Context Protocol content list.' });

const shapes = {
  list: {
    summary: 'The tools of the session: of the account’s plugins, and the host’s own',
    params: sessionParams,
    response: { 200: page(toolResource) },
  },
  offer: {
    summary: 'Chooses the host’s own tools that the session offers',
    details: 'A session of a channel starts without them.',
    params: sessionParams,
    body: jsonBody({ hostTools }),
    response: { 200: page(toolResource) },
  },
  call: {
    summary: 'Calls a tool',
    details:
      'Runs the hooks `toolCall` and `toolResult`. A handler that throws answers with `isError`, so that the agent can read why; so does a call that a plugin cancels. Closing the request aborts the call.',
    problems: ['invalid_arguments', 'plugin_failed', 'plugin_timeout'],
    params: offerParams,
    body: toolBody,
    response: { 200: toolResultResource },
  },
} satisfies Record<string, FastifySchema>;

export function toolRoutes(services: SessionServices): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Tools');
    app.get('/sessions/:sessionId/tools', { schema: shapes.list }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      return { items: await listSessionTools(services, session), nextCursor: null };
    });

    app.put('/sessions/:sessionId/tools', { schema: shapes.offer }, async (request) => {
      const { id } = await requireSession(services, requireCaller(request), request.params);
      const session = await setHostTools(services.pool, id, request.body.hostTools);
      services.sessions.drop(id);
      if (!session) throw new Problem('not_found', 'You have no session with this id.');
      return { items: await listSessionTools(services, session), nextCursor: null };
    });

    app.post(
      '/sessions/:sessionId/tools/:name',
      {
        bodyLimit: CALL_BODY_MAX_BYTES,
        config: { anyPropertyNames: true },
        schema: shapes.call,
      },
      async (request, reply) => {
        const session = await requireSession(services, requireCaller(request), request.params);
        const tool = await findTool(services, session, request.params.name);
        const { callId = randomUUIDv7(), arguments: args } = request.body;
        const call = { callId, arguments: args, signal: abortWhenClosed(reply) };
        return (await callTool(services, session, tool, call)).result;
      },
    );
  };
}
