/** `/sessions/{id}/commands`: lists and runs the commands of the account's plugins. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { Problem } from '../../sdk/contract/errors.ts';
import { formatFullName } from '../../sdk/contract/full-names.ts';
import { text } from '../../sdk/contract/payloads.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { jsonBody, page, wholeListQuery } from '../../service/http/schemas.ts';
import { pageWholeList } from '../../service/http/whole-lists.ts';
import { abortWhenClosed } from './closed-requests.ts';
import { listCommands, runCommand } from './commands.ts';
import { offerParams, requireSession, type SessionServices, sessionParams } from './session-services.ts';

const commandBody = jsonBody({ input: text.default('') });

const commandResource = z
  .strictObject({
    name: z.string().describe('`<slug>__<command>`'),
    description: z.string(),
    kind: z.enum(['prompt', 'code']),
    installationId: z.string(),
    slug: z.string(),
  })
  .meta({ id: 'Command', description: 'A command of a plugin, written as code or as a prompt.' });

const shapes = {
  list: {
    summary: 'The commands of the account’s plugins',
    params: sessionParams,
    querystring: wholeListQuery,
    response: { 200: page(commandResource) },
  },
  run: {
    summary: 'Runs a command',
    details: 'Closing the request aborts the command.',
    problems: ['cancelled', 'plugin_failed', 'plugin_timeout'],
    params: offerParams,
    body: commandBody,
    response: { 200: z.strictObject({ text: z.string().describe('The text to show or to send.') }) },
  },
} satisfies Record<string, FastifySchema>;

export function commandRoutes(services: SessionServices): FastifyPluginAsyncZod {
  const findCommands = async (accountId: string) => listCommands((await services.pluginsCache.get(accountId)).plugins);
  return async (app) => {
    groupRoutes(app, 'Commands');
    app.get('/sessions/:sessionId/commands', { schema: shapes.list }, async (request) => {
      const { accountId } = await requireSession(services, requireCaller(request), request.params);
      const commands = await findCommands(accountId);
      const items = commands.map(({ plugin, name, description, prompt }) => ({
        name: formatFullName(plugin, name),
        description,
        kind: prompt ? ('prompt' as const) : ('code' as const),
        installationId: plugin.installationId,
        slug: plugin.slug,
      }));
      return pageWholeList(items, request.query, ({ name }) => name);
    });

    app.post('/sessions/:sessionId/commands/:name', { schema: shapes.run }, async (request, reply) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const wanted = request.params.name;
      const commands = await findCommands(session.accountId);
      const command = commands.find(({ plugin, name }) => formatFullName(plugin, name) === wanted);
      if (!command) throw new Problem('not_found', 'No command has this name.');
      return { text: await runCommand(services, session, command, request.body.input, abortWhenClosed(reply)) };
    });
  };
}
