/** The log lines of one installation. */
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { pageLogs } from '../../db/logs.ts';
import { callerOf } from '../http/authentication.ts';
import { requireInstallation } from '../installing.ts';
import { page } from '../page.ts';
import { logLineResource } from '../resource.ts';
import { logQuery } from '../schemas.ts';
import type { Services } from '../services.ts';

export function logRoutes(services: Services): FastifyPluginAsyncZod {
  return async (app) => {
    app.get(
      '/plugin-logs',
      {
        schema: {
          group: 'Logs',
          summary: 'The log lines of an installation, newest first',
          problems: ['not_found'],
          querystring: logQuery,
          response: { 200: page(logLineResource) },
        },
      },
      async (request) => {
        await requireInstallation(services, callerOf(request), request.query.installationId, 'read');
        const { items, nextCursor } = await pageLogs(services.pool, request.query);
        return {
          items,
          nextCursor,
        };
      },
    );
  };
}
