/** Routes of the agents that plugins created in the caller's account. */
import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { deleteAgent, findOwnedAgent, pageAgents } from '../../db/accounts/agents.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { removeInTime } from '../../service/http/removal-time.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { idParams, noContent, page, pageQuery, timestamp } from '../../service/http/schemas.ts';
import type { Services } from '../services.ts';

const agentResource = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    instructions: z.string(),
    model: z.string().nullable().describe('The preferred model; null: any.'),
    installationId: z.string().nullable().describe('The installation that created it. No other may change it.'),
    slug: z.string().nullable().describe('The slug of that installation’s plugin.'),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'Agent', description: 'An agent that a plugin created in the account with host.agents.' });

const shapes = {
  list: {
    summary: 'The agents that plugins created in the caller’s account, oldest first',
    details: 'Agents of an agent runtime are not listed; they appear in their sessions only.',
    querystring: pageQuery,
    response: { 200: page(agentResource) },
  },
  one: { summary: 'One agent', params: idParams, response: { 200: agentResource } },
  remove: {
    summary: 'Removes an agent of any plugin, with its sessions',
    details: 'Plugins receive sessionDeleted for each session.',
    params: idParams,
    response: { 204: noContent },
  },
} satisfies Record<string, FastifySchema>;

const unknownAgent = () => new Problem('not_found', 'You have no agent with this id.');

export function agentRoutes({ pool, queues }: Services): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Agents');
    app.get('/agents', { schema: shapes.list }, (request) =>
      pageAgents(pool, requireCaller(request).id, request.query),
    );

    app.get('/agents/:id', { schema: shapes.one }, async (request) => {
      const { id: accountId, operator } = requireCaller(request);
      const found = await findOwnedAgent(pool, operator ? null : accountId, request.params.id);
      if (!found) throw unknownAgent();
      return found;
    });

    app.delete('/agents/:id', { schema: shapes.remove }, async (request, reply) => {
      const scope = { accountId: requireCaller(request).id };
      const removed = await removeInTime((signal) => deleteAgent(pool, queues, scope, request.params.id, signal));
      if (!removed) throw unknownAgent();
      return reply.code(204).send();
    });
  };
}
