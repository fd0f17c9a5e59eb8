/** The route that exports a version as an Agent Plugin. */

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { findSession } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import type { DownloadPlaces } from '../../service/http/download-places.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import type { Services } from '../services.ts';
import { packAgentPlugin } from './agent-plugin-archive.ts';
import { versionParams } from './plugin-input.ts';
import { requireFiles, requireOwnedVersion } from './version-files.ts';

interface ServiceAddresses {
  /** Without a slash at the end. */
  readonly publicUrl: string;
  readonly sessionApiUrl: string | null;
}
const query = z.object({
  sessionId: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('One of your sessions: the archive contains its MCP address.'),
});

export function agentPluginRoutes(
  services: Services,
  addresses: ServiceAddresses,
  archives: DownloadPlaces,
): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Authoring');
    app.get(
      '/plugins/:id/versions/:versionId/agent-plugin',
      {
        // The framework would read the whole archive and drop it.
        exposeHeadRoute: false,
        schema: {
          summary: 'A version as an Agent Plugin',
          details:
            'A zip with plugin.json, the skills of the version and mcp.json (agent-plugins.org, 1.0.0). Without a session, mcp.json starts “bulkhead mcp”.',
          problems: ['not_owner', 'gone'],
          params: versionParams,
          querystring: query,
          response: { 200: { content: { 'application/zip': { schema: z.string() } } } },
        },
      },
      async (request, reply) => {
        const caller = requireCaller(request);
        const { plugin, version } = await requireOwnedVersion(services.pool, caller, request.params);
        const sessionMcpUrl = await findMcpUrl(services, caller.id, request.query.sessionId, addresses);
        const named = { slug: plugin.slug, description: plugin.description, author: plugin.ownerName };
        const { publicUrl } = addresses;
        await archives.hold(caller.id, reply.raw, async () => {
          const files = await requireFiles(services.pool, version);
          const name = `${plugin.slug}-${version.semVer ?? 'draft'}.zip`;
          reply.type('application/zip').header('content-disposition', `attachment; filename="${name}"`);
          // A stream bypasses the serializer, so the response type does not match.
          reply.send(packAgentPlugin(services.blobs, named, version, files, { publicUrl, sessionMcpUrl }) as never);
        });
        return reply;
      },
    );
  };
}

async function findMcpUrl(
  { pool }: Services,
  accountId: string,
  sessionId: string | undefined,
  { sessionApiUrl }: ServiceAddresses,
): Promise<string | null> {
  if (sessionId === undefined) return null;
  const session = await findSession(pool, sessionId);
  if (session?.accountId !== accountId || sessionApiUrl === null)
    throw new Problem('not_found', 'You have no session with this id.');
  return `${sessionApiUrl}/sessions/${encodeURIComponent(session.id)}/mcp`;
}
