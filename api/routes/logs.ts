/** The log lines of one installation. */
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { pageLogs } from '../../db/logs.ts';
import { json } from '../../sdk/payloads.ts';
import { logLevels } from '../../sdk/protocol.ts';
import { callerOf } from '../http/authentication.ts';
import { requireInstallation } from '../installing.ts';
import { page } from '../page.ts';
import { logQuery } from '../schemas.ts';
import type { Services } from '../services.ts';

export const logLineResource = z.object({
  id: z.string(),
  at: z.iso.datetime(),
  level: z.enum(logLevels),
  message: z.string(),
  data: json.nullable(),
  installationId: z.string(),
  sessionId: z.string().nullable(),
  source: z.string(),
  invocationId: z.string().nullable(),
  versionId: z.string().nullable(),
  semVer: z.string().nullable(),
  truncated: z.boolean(),
});

export function logRoutes(services: Services): FastifyPluginAsyncZod {
  return async (app) => {
    app.get(
      '/plugin-logs',
      { schema: { querystring: logQuery, response: { 200: page(logLineResource) } } },
      async (request) => {
        await requireInstallation(services, callerOf(request), request.query.installationId, 'read');
        const { items, nextCursor } = await pageLogs(services.pool, request.query);
        return {
          items: items.map((line) => ({ ...line, data: json.nullable().parse(line.data ?? null) })),
          nextCursor,
        };
      },
    );
  };
}
