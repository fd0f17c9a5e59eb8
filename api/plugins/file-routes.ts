/** The routes of a version's files: as a list, and as one archive. */

import type { FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { listFiles } from '../../db/catalog/versions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { page } from '../../service/http/schemas.ts';
import type { Services } from '../services.ts';
import { packTree } from './blob-archive.ts';
import { versionParams } from './plugin-input.ts';
import { fileResource } from './plugin-resource.ts';
import { readVersionFiles, requireOwnedVersion } from './version-files.ts';

export function fileRoutes(services: Services): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Authoring');
    const findFiles = async (request: FastifyRequest, params: z.output<typeof versionParams>) => {
      const { plugin, version } = await requireOwnedVersion(services.pool, requireCaller(request), params);
      const files = await listFiles(services.pool, version.id);
      if (files.length === 0)
        throw new Problem('gone', `${version.semVer} is yanked and no installation uses it, so its files are removed.`);
      return { plugin, version, files };
    };

    app.get(
      '/plugins/:id/versions/:versionId/files',
      {
        schema: {
          summary: 'The files of a version',
          details: 'With “draft” for versionId: those of the saved draft.',
          problems: ['not_owner', 'gone'],
          params: versionParams,
          response: { 200: page(fileResource) },
        },
      },
      async (request) => {
        const { files } = await findFiles(request, request.params);
        return { items: await readVersionFiles(services.blobs, files), nextCursor: null };
      },
    );

    app.get(
      '/plugins/:id/versions/:versionId/archive',
      {
        schema: {
          summary: 'The files of a version as a zip',
          details:
            'The accepted tree, not the bytes that were uploaded: without wrapper folder, sorted, not compressed. The same tree is the same archive, so its ETag is sourceSha256. With “draft” for versionId: the saved draft.',
          problems: ['not_owner', 'gone'],
          params: versionParams,
          response: { 200: { content: { 'application/zip': { schema: z.string() } } } },
        },
      },
      async (request, reply) => {
        const { plugin, version, files } = await findFiles(request, request.params);
        const name = `${plugin.slug}-${version.semVer ?? 'draft'}-source.zip`;
        reply.type('application/zip').header('content-disposition', `attachment; filename="${name}"`);
        reply.header('etag', `"${version.sourceSha256}"`);
        // A stream bypasses the serializer, so the response type does not match.
        return reply.send(packTree(services.blobs, files) as never);
      },
    );
  };
}
