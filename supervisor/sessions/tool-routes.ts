/** `/sessions/{id}/tools`: lists, chooses and calls the tools of a session. */

import { randomUUIDv7 } from 'node:crypto';
import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { Session } from '../../db/sessions/sessions.ts';
import { hostToolGroups } from '../../sdk/contract/full-names.ts';
import { json, jsonSchema } from '../../sdk/contract/payloads.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import {
  jsonBody,
  page,
  storedId,
  storedText,
  type WholeListQuery,
  wholeListQuery,
} from '../../service/http/schemas.ts';
import { pageWholeList } from '../../service/http/whole-lists.ts';
import { abortWhenClosed } from './closed-requests.ts';
import { changeSession } from './lifecycle.ts';
import {
  CALL_BODY_MAX_BYTES,
  offerParams,
  requireSession,
  type SessionServices,
  sessionParams,
} from './session-services.ts';
import { callTool, findTool, listSessionTools } from './tools.ts';
import { toolResource, toolResultResource } from './turn-schemas.ts';

export const hostTools = z
  .array(z.enum(hostToolGroups))
  .max(hostToolGroups.length)
  .refine((groups) => new Set(groups).size === groups.length, 'must have each group once')
  .describe(
    'Groups of the host’s own tools that the session offers: `todo` is `todo__create` and the others of its prefix.',
  );

const RUNTIME_TOOLS_MAX = 128;
const TOOL_NAME_MAX_CHARS = 128;
const TOOL_DESCRIPTION_MAX_CHARS = 8_192;
/** Maximum size of all tools of a runtime: each prompt reads them. */
const RUNTIME_TOOLS_MAX_BYTES = 262_144;

/** `<slug>__<tool>` is a plugin's, also of one that is installed later. */
const ownName = z
  .string()
  .max(TOOL_NAME_MAX_CHARS, `must be at most ${TOOL_NAME_MAX_CHARS} characters`)
  .regex(/^[\w.-]+$/, 'must be of letters, digits, “_”, “-” and “.”')
  .refine((name) => !name.includes('__'), 'must not contain “__”, which is for the tools of plugins and of the host');

export const runtimeTools = z
  .array(
    z.object({
      name: ownName,
      description: storedText(TOOL_DESCRIPTION_MAX_CHARS).default(''),
      parameters: jsonSchema
        .default({ type: 'object' })
        .describe('JSON Schema 2020-12 of the arguments, for the model. The runtime checks them.'),
    }),
  )
  .max(RUNTIME_TOOLS_MAX)
  .refine((tools) => new Set(tools.map(({ name }) => name)).size === tools.length, 'must have each name once')
  .refine(
    (tools) => Buffer.byteLength(JSON.stringify(tools)) <= RUNTIME_TOOLS_MAX_BYTES,
    `must have at most ${RUNTIME_TOOLS_MAX_BYTES} bytes`,
  )
  .describe(
    'Tools that the runtime performs itself. The prompt lists them, and each call passes the hooks `toolCall` and `toolResult`.',
  );

const toolBody = jsonBody({
  callId: storedId
    .optional()
    .describe(
      'The runtime’s own id of the call, by which the handler recognizes a repeated call. The handler runs again; a call of a turn runs once per id.',
    ),
  arguments: json.default({}),
});

const shapes = {
  list: {
    summary: 'The tools of the session: of the account’s plugins, the host’s own, and the runtime’s',
    params: sessionParams,
    querystring: wholeListQuery,
    response: { 200: page(toolResource) },
  },
  offer: {
    summary: 'Chooses the tools of the host and of the runtime that the session offers',
    details: 'A session of a channel starts without them. A list that is left out stays unchanged.',
    problems: ['quota_exceeded'],
    params: sessionParams,
    body: jsonBody({ hostTools: hostTools.optional(), tools: runtimeTools.optional() }),
    response: { 200: page(toolResource) },
  },
  call: {
    summary: 'Calls a tool',
    details:
      'Runs the hooks `toolCall` and `toolResult`. If the handler throws or a plugin cancels the call, the result has `isError`, so that the agent can read the reason. Closing the request aborts the call.',
    problems: ['invalid_arguments', 'plugin_failed', 'plugin_timeout'],
    params: offerParams,
    body: toolBody,
    response: { 200: toolResultResource },
  },
} satisfies Record<string, FastifySchema>;

export function toolRoutes(services: SessionServices): FastifyPluginAsyncZod {
  const listTools = async (session: Session, query: WholeListQuery) =>
    pageWholeList(await listSessionTools(services, session), query, ({ name }) => name);
  return async (app) => {
    groupRoutes(app, 'Tools');
    app.get('/sessions/:sessionId/tools', { schema: shapes.list }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      return listTools(session, request.query);
    });

    app.put('/sessions/:sessionId/tools', { schema: shapes.offer }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      return listTools(await changeSession(services, session, request.body), {});
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
        const { result, problem } = await callTool(services, session, tool, call);
        if (problem) throw problem;
        return result;
      },
    );
  };
}
